package http1_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/headrows"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http1"
)

// describe puts what Parse found into words; buf is the buffer last parsed.
func describe(h *http1.Head, buf []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v 1.%d path=%s", h.Method, h.Minor, h.Path.Of(buf))
	if h.Query.End > 0 { // also where it is empty
		fmt.Fprintf(&b, " query=%s", h.Query.Of(buf))
	}
	if h.Host.Len() > 0 {
		fmt.Fprintf(&b, " host=%s", h.Host.Of(buf))
	}
	if h.ContentLength >= 0 {
		fmt.Fprintf(&b, " length=%d", h.ContentLength)
	}
	for _, w := range []struct {
		on   bool
		word string
	}{
		{h.Chunked, "chunked"}, {h.Close, "close"}, {h.KeepAlive, "keep-alive"},
		{h.Expect100, "expect"}, {h.Asterisk, "asterisk"}, {h.Absolute, "absolute"},
	} {
		if w.on {
			b.WriteString(" " + w.word)
		}
	}
	return b.String()
}

func fields(h *http1.Head, buf []byte) (list []string) {
	for _, f := range h.Fields {
		list = append(list, string(f.Name.Of(buf))+":"+string(f.Value.Of(buf)))
	}
	return list
}

// parse gives h the bytes in pieces that end at cuts, each time in another buffer, then as far as
// they are left in one piece.
func parse(h *http1.Head, raw string, cuts ...int) (n int, err error) {
	for _, c := range append(cuts, len(raw)) {
		if n, err = h.Parse([]byte(raw[:c])); n > 0 || err != nil {
			break
		}
	}
	return n, err
}

func everyByte(raw string) (cuts []int) {
	for i := range len(raw) {
		cuts = append(cuts, i)
	}
	return cuts
}

// ways calls f for raw whole, byte by byte, and cut in two at every byte.
func ways(raw string, f func(cuts ...int)) {
	f()
	f(everyByte(raw)...)
	if len(raw) < 500 {
		for i := range len(raw) {
			f(i)
		}
	}
}

func TestGoodHeads(t *testing.T) {
	for _, tt := range headrows.Good {
		const next = "GET /next HTTP/1.1\r\n" // of which not a byte may be touched
		ways(tt.Raw+next, func(cuts ...int) {
			var h http1.Head
			n, err := parse(&h, tt.Raw+next, cuts...)
			if err != nil || n != len(tt.Raw) {
				t.Fatalf("%.200q cut at %v: n = %d, err = %v", tt.Raw, cuts, n, err)
			}
			if got := describe(&h, []byte(tt.Raw)); got != tt.Want {
				t.Fatalf("%.200q cut at %v\n got %s\nwant %s", tt.Raw, cuts, got, tt.Want)
			}
			if again, err := h.Parse([]byte(tt.Raw + next)); again != n || err != nil {
				t.Fatalf("%.200q: a second call gives %d, %v", tt.Raw, again, err)
			}
		})
	}
}

func TestBadHeads(t *testing.T) {
	var h http1.Head
	for _, tt := range headrows.Bad {
		ways(tt.Raw, func(cuts ...int) {
			h.Reset() // of whatever the row before left
			n, err := parse(&h, tt.Raw, cuts...)
			if n != 0 || err != tt.Want {
				t.Fatalf("%.200q cut at %v: n = %d, err = %v, want %v", tt.Raw, cuts, n, err, tt.Want)
			}
			if n, err := h.Parse([]byte(tt.Raw)); n != 0 || err != tt.Want {
				t.Fatalf("%.200q: a second call gives %d, %v", tt.Raw, n, err)
			}
		})
	}
}

// The refused head behind a good request: what comes first is read, and nothing of what follows
// leaks into it.
func TestBadHeadsPipelined(t *testing.T) {
	const good = "GET /first HTTP/1.1\r\nHost: first\r\n\r\n"
	for _, tt := range headrows.Bad {
		var h http1.Head
		raw := good + tt.Raw
		n, err := parse(&h, raw)
		if n != len(good) || err != nil || describe(&h, []byte(raw)) != "GET 1.1 path=/first host=first" {
			t.Fatalf("before %.200q: n = %d, err = %v, %s", tt.Raw, n, err, describe(&h, []byte(raw)))
		}
		h.Reset()
		if n, err := parse(&h, raw[n:]); n != 0 || err != tt.Want {
			t.Fatalf("%.200q: n = %d, err = %v, want %v", tt.Raw, n, err, tt.Want)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		err    *http1.Error
		status int
	}{
		{http1.ErrMethod, 501}, {http1.ErrVersion, 400}, {http1.ErrVersionMajor, 505},
		{http1.ErrExpectation, 417},
		{http1.ErrFieldCount, 431}, {http1.ErrTrailerSize, 431}, {http1.ErrCodingLength, 400},
		{http1.ErrHostMissing, 400},
	} {
		var e *http1.Error
		if err := error(tt.err); !errors.As(err, &e) || e.Status != tt.status ||
			!strings.HasPrefix(err.Error(), strconv.Itoa(tt.status)+": ") {
			t.Errorf("%v: want %d", tt.err, tt.status)
		}
	}
}

func TestInRequestLine(t *testing.T) {
	var h http1.Head
	raw := "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for i := range len(raw) + 1 {
		must.Get(h.Parse([]byte(raw[:i])))(t)
		if got, want := h.InRequestLine(), i < len("\r\nGET / HTTP/1.1\r\n"); got != want {
			t.Errorf("after %q: %v", raw[:i], got)
		}
	}
}

func TestFieldsAndGet(t *testing.T) {
	raw := []byte(
		"GET / HTTP/1.1\r\nHost: a\r\nAccept: x\r\naccept: y\r\nX_y-1:\r\nAccept-Encoding: z\r\n\r\n")
	var h http1.Head
	must.Get(h.Parse(raw))(t)
	want := []string{"Host:a", "Accept:x", "accept:y", "X_y-1:", "Accept-Encoding:z"}
	if got := fields(&h, raw); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, tt := range []struct {
		name, value string
		ok          bool
	}{
		{"ACCEPT", "x", true}, {"x_Y-1", "", true}, {"accept-encoding", "z", true},
		{"Acceptx", "", false}, {"", "", false},
		{"X\x7fy-1", "", false}, // '_' and DEL differ in bit 5 as letters do
	} {
		if v, ok := h.Get(raw, tt.name); string(v) != tt.value || ok != tt.ok {
			t.Errorf("Get(%q) = %q, %v", tt.name, v, ok)
		}
	}
}

func TestPersistentAndBody(t *testing.T) {
	for _, tt := range []struct {
		raw              string
		persistent, body bool
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true, false},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, keep-alive\r\n\r\n", false, false},
		{"GET / HTTP/1.0\r\nContent-Length: 0\r\n\r\n", false, false},
		{"GET / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n", true, true},
		{"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", true, true},
	} {
		var h http1.Head
		if _, err := parse(&h, tt.raw); err != nil || h.Persistent() != tt.persistent ||
			h.HasBody() != tt.body {
			t.Errorf("%q: %v, persistent %v, body %v", tt.raw, err, h.Persistent(), h.HasBody())
		}
	}
}

func TestMethods(t *testing.T) {
	if s := http1.Method(0).String() + http1.Method(200).String(); s != "" {
		t.Errorf("names of no method: %q", s)
	}
	for _, name := range []string{"ACL", "PROPFIND", "REPORT", "MKCOL", "MKCALENDAR", "LOCK",
		"VERSION-CONTROL"} {
		var h http1.Head
		if _, err := parse(&h, name+" / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil ||
			h.Method.String() != name || !http1.ValidMethod(name) {
			t.Errorf("%s: %v, %v", name, h.Method, err)
		}
	}
	for _, name := range []string{"PURGE", "BAN", "NOTIFY", "M-SEARCH", "propfind", "PROPFINDS", "*",
		"GETT", "HEA", "!",
		strings.Repeat("A", 64)} {
		for _, before := range []string{"", "\r\n"} {
			raw := before + name + " / HTTP/1.1\r\nHost: a\r\n\r\n"
			var h http1.Head
			if _, err := parse(&h, raw); err != nil || h.Method != http1.Other ||
				string(h.Name.Of([]byte(raw))) != name || !http1.ValidMethod(name) {
				t.Errorf("%s: %v, %q, %v", name, h.Method, h.Name.Of([]byte(raw)), err)
			}
		}
	}
	for _, name := range []string{"", "PRI", "A B", "A\x80", "A/", strings.Repeat("A", 65)} {
		if http1.ValidMethod(name) {
			t.Errorf("%q can be a method", name)
		}
	}
}

// TestLongLineByteByByte: what is noted of a request line that is not complete costs no walk over
// all of it each time.
func TestLongLineByteByByte(t *testing.T) {
	line := []byte(strings.Repeat("A", 64) + " /" + strings.Repeat("a", 1<<18))
	var h http1.Head
	began := time.Now()
	for n := range line {
		must.Get(h.Parse(line[:n+1]))(t)
	}
	if took := time.Since(began); took > 8*time.Second { // some milliseconds; quadratic: 20 s
		t.Errorf("%v for %d bytes", took, len(line))
	}
}
