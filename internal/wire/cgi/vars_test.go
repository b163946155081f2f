package cgi_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/cgi"
)

// cutOther cuts a variable of uwsgi or SCGI off the front of p, by a reader that shares nothing
// with the package.
func cutOther(t testing.TB, f cgi.Format, p []byte) (name, value string, rest []byte) {
	text := func() (s string) {
		if f == cgi.SCGI {
			before, after, ok := bytes.Cut(p, []byte{0})
			if !ok {
				t.Fatal("no NUL at the end")
			}
			p = after
			return string(before)
		}
		if len(p) < 2 || len(p)-2 < int(p[0])+int(p[1])<<8 {
			t.Fatal("a text ends behind the packet")
		}
		n := 2 + int(p[0]) + int(p[1])<<8
		s, p = string(p[2:n]), p[n:]
		return s
	}
	name = text()
	value = text()
	return name, value, p
}

// FuzzVars writes variables of arbitrary bytes, and of lengths that these alone would hardly reach,
// as uwsgi and SCGI have them, and reads them again.
func FuzzVars(f *testing.F) {
	f.Add("REQUEST_METHOD\nGET\nQUERY_STRING\n\nHTTP_COOKIE\na", uint16(0))
	f.Add("a\nb\nc\nd", uint16(32760))
	f.Add("a\nb\nc\nd", uint16(65530))
	f.Add("\nvalue", uint16(1))
	f.Add("a\n\x00", uint16(1))
	f.Add("\xff\n\xff\xff", uint16(255))
	f.Fuzz(func(t *testing.T, raw string, stretch uint16) {
		parts := strings.Split(raw, "\n")
		for _, format := range []cgi.Format{cgi.UWSGI, cgi.SCGI} {
			var pairs [][2]string
			var want error
			var v cgi.Vars
			v.Begin([]byte("head"), format, nil)
			size := 0
			for i := 0; i+1 < len(parts); i += 2 {
				name, value := parts[i], parts[i+1]
				if value != "" {
					value += strings.Repeat(value[:1], int(stretch))
				}
				v.Add(name, value)
				pairs = append(pairs, [2]string{name, value})
				size += 4 + len(name) + len(value)
				switch {
				case want != nil:
				case strings.Contains(name+value, "\x00"):
					want = cgi.ErrPairNUL
				case name == "":
					want = cgi.ErrPairName
				case size > 65535 && format == cgi.UWSGI:
					want = cgi.ErrVarsSize
				}
			}
			b, from, err := v.Finish()
			if err != want {
				t.Fatalf("%v, want %v", err, want)
			}
			if err != nil {
				continue
			}
			if from != 4 || string(b[:4]) != "head" {
				t.Fatalf("variables begin at %d of %.10q", from, b)
			}
			var got [][2]string
			for b = b[from:]; len(b) > 0; {
				var name, value string
				name, value, b = cutOther(t, format, b)
				got = append(got, [2]string{name, value})
			}
			if fmt.Sprint(got) != fmt.Sprint(pairs) {
				t.Fatal("other variables came out")
			}
		}
	})
}
