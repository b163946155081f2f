package cgi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// describe puts what was understood into words.
func describe(h *cgi.Header) string {
	var b strings.Builder
	fmt.Fprint(&b, h.Status)
	if h.Reason != "" {
		fmt.Fprintf(&b, " (%s)", h.Reason)
	}
	if h.Length >= 0 {
		fmt.Fprintf(&b, " length=%d", h.Length)
	}
	if h.Length >= 0 && h.Digits != strconv.FormatInt(h.Length, 10) {
		fmt.Fprintf(&b, " digits=%q", h.Digits)
	}
	for _, f := range h.Fields {
		fmt.Fprintf(&b, " %s=%s", f.Name, f.Value)
	}
	for _, w := range []struct{ name, value string }{
		{"redirect", h.Redirect}, {"sendfile", h.Sendfile}, {"coding", h.Coding},
	} {
		if w.value != "" {
			fmt.Fprintf(&b, " %s:%s", w.name, w.value)
		}
	}
	switch h.Buffering {
	case cgi.Buffered:
		b.WriteString(" buffered")
	case cgi.Unbuffered:
		b.WriteString(" unbuffered")
	}
	if h.SecondType != "" {
		b.WriteString(" second:" + h.SecondType)
	}
	return b.String()
}

// parse gives h the bytes in pieces that end at cuts, each in a buffer of its own that is
// overwritten afterwards.
func parse(h *cgi.Header, raw string, cuts ...int) (used int, done bool, err error) {
	from := 0
	for _, to := range append(cuts, len(raw)) {
		piece := []byte(raw[from:to])
		n, ok, err := h.Parse(piece)
		for i := range piece {
			piece[i] = '!'
		}
		used += n
		if err != nil || ok {
			return used, ok, err
		}
		if n != len(piece) {
			return used, false, errors.New("bytes were left")
		}
		from = to
	}
	return used, false, nil
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

func TestGoodHeaders(t *testing.T) {
	var h cgi.Header
	for _, tt := range goodHeaders {
		const body = "X: y\r\n\r\n" // of which not a byte may be touched
		ways(tt.raw+body, func(cuts ...int) {
			h.Reset() // of whatever the row before left
			n, done, err := parse(&h, tt.raw+body, cuts...)
			if err != nil || !done || n != len(tt.raw) {
				t.Fatalf("%.200q cut at %.20v: n = %d, done = %v, err = %v", tt.raw, cuts, n, done,
					err)
			}
			if got := describe(&h); got != tt.want {
				t.Fatalf("%.200q cut at %.20v\n got %.300s\nwant %.300s", tt.raw, cuts, got,
					tt.want)
			}
			if n, done, err := h.Parse([]byte(body)); n != 0 || !done || err != nil {
				t.Fatalf("%.200q: a later call gives %d, %v, %v", tt.raw, n, done, err)
			}
		})
	}
}

func TestBadHeaders(t *testing.T) {
	var h cgi.Header
	for _, tt := range badHeaders {
		ways(tt.raw, func(cuts ...int) {
			h.Reset()
			_, done, err := parse(&h, tt.raw, cuts...)
			if done || err != error(tt.want) {
				t.Fatalf("%.200q cut at %.20v: done = %v, err = %v, want %v", tt.raw, cuts, done,
					err, tt.want)
			}
			if n, done, err := h.Parse([]byte("\r\n")); n != 0 || done || err != error(tt.want) {
				t.Fatalf("%.200q: a later call gives %d, %v, %v", tt.raw, n, done, err)
			}
			if tt.want.Status != 502 {
				t.Fatal(tt.want)
			}
		})
	}
}

func TestIncompleteHeaders(t *testing.T) {
	for _, raw := range []string{"", "S", "Status: 200", "Status: 200\r\n", "A: b\n", "A: b\n\r",
		"Status: 101\r\n"} {
		ways(raw, func(cuts ...int) {
			var h cgi.Header
			if n, done, err := parse(&h, raw, cuts...); n != len(raw) || done || err != nil {
				t.Fatalf("%q cut at %v: %d, %v, %v", raw, cuts, n, done, err)
			}
		})
	}
}

// The limit is on all of the header, the empty line with it, and on nothing else.
func TestHeaderLimit(t *testing.T) {
	raw := "A: " + strings.Repeat("v", 100) + "\r\nB: c\r\n\r\n"
	for limit, want := range map[int]error{len(raw): nil, len(raw) - 1: cgi.ErrHeaderSize,
		50: cgi.ErrHeaderSize} {
		ways(raw, func(cuts ...int) {
			h := cgi.Header{Limit: limit}
			if _, _, err := parse(&h, raw+"body", cuts...); err != want {
				t.Fatalf("limit %d, cut at %v: %v", limit, cuts, err)
			}
			if h.Reset(); h.Limit != limit {
				t.Fatal("Reset took the limit with it")
			}
		})
	}
	// Nothing is gathered beyond it, though no line ever ends.
	var h cgi.Header
	piece := []byte(strings.Repeat("x", 1000))
	for range 65 {
		if _, _, err := h.Parse(piece); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := h.Parse(piece); err != cgi.ErrHeaderSize {
		t.Error(err)
	}
}

// What of a header is kept does not depend on what came before it.
func TestHeaderReset(t *testing.T) {
	var h cgi.Header
	parse(&h, "Status: 404 x\nContent-Length: 5\nA: b\nX-Sendfile: /x\nX-Accel-Redirect: /y\n"+
		"X-Accel-Buffering: no\n\n")
	fields := h.Fields
	h.Reset()
	if fields[0] != (cgi.Field{}) {
		t.Error("the last response's fields are still referred to")
	}
	parse(&h, "\n")
	if got := describe(&h); got != "200" {
		t.Error(got)
	}
}

// naive reads a whole header, and gives what describe does.
func naive(raw string) (want string, used int, err error) {
	var fields, named []string
	status, reason, size, lengths, location := 0, "", int64(-1), 0, false
	var redirect, sendfile, coding, buffering, mediaType, second string
	for first := true; ; first = false {
		line, rest, ok := strings.Cut(raw[used:], "\n")
		if !ok {
			return "", len(raw), nil
		}
		used = len(raw) - len(rest)
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		control := func(r rune) bool { return r < 32 && r != '\t' || r == 127 }
		const letters = "abcdefghijklmnopqrstuvwxyz"
		const others = "!#$%&'*+-.^_`|~0123456789"
		token := name != "" && strings.Trim(ascii.ToLower(name), others+letters) == ""
		switch {
		case line[0] == ' ' || line[0] == '\t':
			return "", 0, cgi.ErrFold
		case first && strings.HasPrefix(line, "HTTP/"):
			return "", 0, cgi.ErrNPH
		case !ok || !token:
			return "", 0, cgi.ErrName
		case strings.IndexFunc(value, control) >= 0:
			return "", 0, cgi.ErrValue
		}
		fields = append(fields, name, value)
	}
	keep := fields[:0:0]
	for i := 0; i < len(fields); i += 2 {
		name, value := ascii.ToLower(fields[i]), fields[i+1]
		switch name {
		case "status":
			n, err := strconv.Atoi(value[:min(3, len(value))])
			if len(value) < 3 || err != nil || n < 100 || n == 101 || len(value) > 3 &&
				!strings.Contains(" \t", value[3:4]) {
				return "", 0, cgi.ErrStatus
			}
			if n < 200 {
				continue
			}
			if status != 0 && status != n {
				return "", 0, cgi.ErrStatusTwice
			}
			if status == 0 {
				status, reason = n, strings.Trim(value[3:], " \t")
			}
		case "content-type":
			if value != "" && mediaType == "" {
				mediaType = value
				keep = append(keep, fields[i], value)
			} else if value != "" && value != mediaType {
				second = value
			}
		case "content-length":
			n := int64(-1)
			if v, err := strconv.ParseUint(value, 10, 63); err == nil {
				n = int64(v)
			}
			if lengths++; lengths > 1 && n != size {
				return "", 0, cgi.ErrLengthTwice
			}
			size = n
		case "transfer-encoding":
			if coding = value; value == "" {
				coding = "identity"
			}
		case "connection":
			if ascii.EqualFold(value, "close") || ascii.EqualFold(value, "keep-alive") {
				continue // they name no field
			}
			for o := range strings.SplitSeq(value, ",") {
				named = append(named, ascii.ToLower(strings.Trim(o, " \t")))
			}
		case "te", "upgrade", "trailer", "keep-alive":
		case "x-accel-redirect":
			redirect = value
		case "x-accel-buffering":
			if v := ascii.ToLower(value); v == "yes" || v == "no" {
				buffering = v
			}
		case "x-sendfile":
			sendfile = value
		default:
			if strings.HasPrefix(name, "x-accel-") || strings.HasPrefix(name, "proxy-") {
				continue
			}
			location = location || name == "location" && value != ""
			keep = append(keep, fields[i], value)
		}
	}
	if lengths > 0 && coding != "" {
		return "", 0, cgi.ErrFraming
	}
	if status == 0 {
		if status = 200; location {
			status = 302
		}
	}
	want = fmt.Sprint(status)
	if reason != "" {
		want += " (" + reason + ")"
	}
	if size >= 0 {
		want += fmt.Sprint(" length=", size)
	}
	for i := 0; i < len(keep); i += 2 {
		if !slices.Contains(named, ascii.ToLower(keep[i])) {
			want += " " + keep[i] + "=" + keep[i+1]
		}
	}
	for i, v := range []string{redirect, sendfile, coding} {
		if v != "" {
			want += " " + []string{"redirect", "sendfile", "coding"}[i] + ":" + v
		}
	}
	want += map[string]string{"yes": " buffered", "no": " unbuffered", "": ""}[buffering]
	if second != "" {
		want += " second:" + second
	}
	return want, used, nil
}

// peer compares with net/textproto, by which net/http and Caddy read such headers: what both
// accept, they must read alike.
func peer(t *testing.T, raw string, h *cgi.Header) {
	mime, err := textproto.NewReader(bufio.NewReader(strings.NewReader(raw))).ReadMIMEHeader()
	if err != nil && err != io.EOF {
		return // it refuses names that are tokens but of no use to it
	}
	for _, f := range h.Fields {
		if !slices.Contains(mime[textproto.CanonicalMIMEHeaderKey(f.Name)], f.Value) {
			t.Fatalf("%q: net/textproto has %q and no %q", raw, mime, f)
		}
	}
}

func FuzzHeader(f *testing.F) {
	for _, tt := range goodHeaders {
		f.Add([]byte(tt.raw), uint(7))
	}
	for _, tt := range badHeaders {
		f.Add([]byte(tt.raw), uint(20))
	}
	for _, s := range []string{"Connection: close\nClose: 1\n\n", "\u212a: x\n\n",
		"Connection: \u212a\nK: x\n\n"} {
		f.Add([]byte(s), uint(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint) {
		if len(b) > 1<<10 {
			return // less than the limits, which naive does not know
		}
		raw := string(b)
		want, wantUsed, wantErr := naive(raw)
		for _, cuts := range [][]int{nil, {int(cut % uint(len(raw)+1))}, everyByte(raw)} {
			var h cgi.Header
			used, done, err := parse(&h, raw, cuts...)
			if err != wantErr || done != (want != "") {
				t.Fatalf("%q cut at %v: done = %v, err = %v, want "+
					"%v", raw, cuts, done, err, wantErr)
			}
			if err != nil {
				continue
			}
			if used != wantUsed {
				t.Fatalf("%q cut at %v: %d bytes used, want %d", raw, cuts, used, wantUsed)
			}
			if done {
				if got := describe(&h); got != want {
					t.Fatalf("%q cut at %v\n got %q\nwant %q", raw, cuts, got, want)
				}
				peer(t, raw[:used], &h)
			}
		}
	})
}

const typical = "Status: 404 Not Found\r\nX-Powered-By: PHP/8.2.35\r\nSet-Cookie: a=b; path=/\r\n" +
	"Set-Cookie: c=d\r\n" +
	"Expires: Thu, 19 Nov 1981 08:52:00 GMT\r\nCache-Control: no-store, no-cache, " +
	"must-revalidate\r\n" +
	"Pragma: no-cache\r\nContent-type: text/html; charset=UTF-8\r\n\r\n"

func TestHeaderAllocations(t *testing.T) {
	var h cgi.Header
	raw := []byte(typical)
	h.Parse(raw)
	if n := testing.AllocsPerRun(100, func() {
		h.Reset()
		h.Parse(raw[:20])
		h.Parse(raw[20:])
	}); n != 1 { // the text that names and values are cut from
		t.Errorf("%v allocations", n)
	}
	refused := []byte("Status: 200\r\nA : b\r\n\r\n")
	if n := testing.AllocsPerRun(100, func() { h.Reset(); h.Parse(refused) }); n != 0 {
		t.Errorf("a refusal: %v allocations", n)
	}
}

func BenchmarkHeader(b *testing.B) {
	var h cgi.Header
	raw := []byte(typical)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		h.Reset()
		if _, done, err := h.Parse(raw); !done {
			b.Fatal(err)
		}
	}
}
