package cgi_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/cgi"
)

var lineForm = regexp.MustCompile(`^HTTP/[0-9.]+ ([0-9]{3})(?:[ \t](.*))?$`)

// FuzzStatusLine: with a status line in front, a header means what it means with Status in its
// place, however it is cut; without one, StatusLine makes no difference.
func FuzzStatusLine(f *testing.F) {
	for _, tt := range goodHeaders {
		if len(tt.raw) < 200 {
			f.Add(tt.raw, uint(7))
			f.Add("HTTP/1.1 200 OK\r\n"+tt.raw, uint(3))
		}
	}
	for _, s := range []string{"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "HTTP/2.0 404\n\n",
		"HTTP/1.1 101 X\n\n",
		"HTTP/ 200\n\n", "HTTP/1.1 200 \x01\n\n", "HTTP/1.1 200 OK\r\nStatus: 404\r\n\r\n",
		"HTTP/1.1 2000\n\n", "HTTP/1.1\n\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"} {
		f.Add(s, uint(5))
	}
	f.Fuzz(func(t *testing.T, raw string, cut uint) {
		if len(raw) > 1<<10 {
			return // less than the limits
		}
		var whole cgi.Header
		whole.StatusLine = true
		used, done, err := parse(&whole, raw)
		for _, cuts := range [][]int{{int(cut % uint(len(raw)+1))}, everyByte(raw)} {
			h := cgi.Header{StatusLine: true}
			n, ok, e := parse(&h, raw, cuts...)
			if ok != done || e != err ||
				err == nil && (n != used || done && describe(&h) != describe(&whole)) {
				t.Fatalf("%q: %d, %v, %v; cut at %v: %d, %v, %v", raw, used, done, err, cuts, n, ok, e)
			}
		}
		var plain cgi.Header
		line, rest, complete := strings.Cut(raw, "\n")
		if !strings.HasPrefix(raw, "HTTP/") {
			n, ok, e := parse(&plain, raw)
			if n != used || ok != done || e != err || done && describe(&plain) != describe(&whole) {
				t.Fatalf("%q: %d, %v, %v; without StatusLine: %d, %v, %v", raw, used, done, err, n, ok, e)
			}
			return
		}
		if !complete {
			return
		}
		parts := lineForm.FindStringSubmatch(strings.TrimSuffix(line, "\r"))
		if parts == nil || parts[1] < "100" || parts[1] == "101" {
			if done || err == nil && strings.Contains("\n"+rest, "\n\n") {
				t.Fatalf("%q is taken: %v, %v", raw, done, err)
			}
			return
		}
		if parts[1] < "200" {
			if done && (!whole.Interim() || err != nil) {
				t.Fatalf("%q: %d, %v", raw, whole.Status, err)
			}
			return
		}
		_, ok, e := parse(&plain, "Status: "+parts[1]+" "+parts[2]+"\n"+rest)
		switch {
		case ok != done || e != err || done && describe(&plain) != describe(&whole):
			t.Fatalf("%q: %v, %v; with Status: %v, %v", raw, done, err, ok, e)
		}
	})
}
