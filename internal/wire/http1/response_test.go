package http1_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

// response is what was understood of a response.
type response struct {
	status int
	reason string
	fields []string
	body   string
	extent string // how its end was found: none, length, chunks, close
	keep   bool   // another response can follow
	used   int
	err    error
}

func (r response) String() string {
	return fmt.Sprintf("%d %q %q %s %q keep=%t used=%d %v", r.status, r.reason, r.fields, r.extent,
		r.body, r.keep, r.used, r.err)
}

// understand reads the first response that is not interim from pieces, of which the last one ends
// with the connection.
func understand(method string, pieces ...[]byte) (r response) {
	var h http1.ResponseHead
	var b http1.ResponseBody
	var buf []byte
	headEnd, body := 0, false
	for _, p := range pieces {
		buf = append(buf, p...)
		for !body {
			n, err := h.Parse(buf[headEnd:])
			if err != nil {
				r.err = err
				return r
			}
			if n == 0 {
				break
			}
			head := buf[headEnd : headEnd+n]
			headEnd += n
			if h.Interim() {
				h.Reset()
				continue
			}
			r.status, r.reason = h.Status, string(h.Reason.Of(head))
			for _, f := range h.Fields {
				r.fields = append(r.fields, string(f.Name.Of(head))+":"+string(f.Value.Of(head)))
			}
			b.Begin(&h, method == "HEAD", true)
			body, r.used = true, headEnd
			r.keep = h.Persistent() && b.Framed()
			switch {
			case b.Done():
				r.extent = "none"
			case h.Chunked:
				r.extent = "chunks"
			case h.ContentLength >= 0:
				r.extent = "length"
			default:
				r.extent = "close"
			}
		}
		for body && !b.Done() && r.used < len(buf) {
			data, n, err := b.Next(buf[r.used:])
			r.body += string(data)
			r.used += n
			if err != nil {
				r.err = err
				return r
			}
			if len(data) == 0 && n == 0 && !b.Done() {
				panic("Next stands still")
			}
		}
	}
	if !body || !b.Closed() {
		r.err = io.ErrUnexpectedEOF
	}
	b.Trailer(func(name, value []byte) { r.body += fmt.Sprintf(" +%s:%s", name, value) })
	return r
}

// goodResponses are responses, perhaps with something behind them, and what must be understood.
var goodResponses = []struct{ method, raw, want string }{
	{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP",
		`200 "OK" length "hello" keep=true -4`},
	{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", `200 "OK" none "" keep=true -0`},
	{"GET",
		"HTTP/1.1 404 Not there at all\r\nTransfer-Encoding: Chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: " +
			"x\r\n\r\nx", `404 "Not there at all" chunks "abc +T:x" keep=true -1`},
	// What servers in use send, and all proxies take.
	{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\nhelloHTTP",
		`200 "OK" length "hello" keep=true -4`},
	{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3  \r\nabc\r\n0 \r\n\r\nx",
		`200 "OK" chunks "abc" keep=true -1`},
	{"GET", "HTTP/1.1 200 OK\r\n\r\nall", `200 "OK" close "all" keep=false -0`},
	{"GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
		`200 "OK" length "x" keep=true -0`},
	{"GET", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", `200 "OK" length "x" keep=false -0`},
	{"GET", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 1\r\n\r\nx",
		`200 "OK" length "x" keep=false -0`},
	// Any later 1.x is read as the highest we know (RFC 9110 section 6.2).
	{"GET", "HTTP/1.9 200 OK\r\nContent-Length: 1\r\n\r\nx", `200 "OK" length "x" keep=true -0`},
	// Without the space that RFC 9112 section 4 demands, and without a reason.
	{"GET", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", `200 "" length "x" keep=true -0`},
	{"GET", "HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\nx", `200 "" length "x" keep=true -0`},
	{"GET", "HTTP/1.1 999 \xff\tx\r\nContent-Length: 1\r\n\r\nx",
		`999 "\xff\tx" length "x" keep=true -0`},
	// No body, whatever the fields say (RFC 9112 section 6.3 (1)).
	{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", `200 "OK" none "" keep=true -0`},
	{"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", `200 "OK" none "" keep=true -0`},
	{"HEAD", "HTTP/1.1 200 OK\r\n\r\n", `200 "OK" none "" keep=true -0`},
	{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
		`304 "Not Modified" none "" keep=true -0`},
	{"GET", "HTTP/1.1 204 No Content\r\n\r\n", `204 "No Content" none "" keep=true -0`},
	{"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
		`204 "No Content" none "" keep=true -0`},
	// A body may be behind these two.
	{"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n{}",
		`204 "No Content" none "" keep=false -2`},
	{"GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
		`204 "No Content" none "" keep=false -0`},
	// Interim responses come before, 101 does not.
	{"GET",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 " +
			"OK\r\nContent-Length: 0\r\n\r\n", `200 "OK" none "" keep=true -0`},
	{"GET", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n\x00",
		`101 "Switching Protocols" none "" keep=true -1`},
}

// TestLenientResponse: with Lenient lines may end in LF alone, as they do in no other response. A
// CR within a line is no more allowed than before.
func TestLenientResponse(t *testing.T) {
	const raw = "HTTP/1.1 200 OK\nA: b\r\nTransfer-Encoding: chunked\n\n" +
		"5 ;x\nhello\n3  \r\nabc\r\n0\nT: u\n\n"
	for _, lenient := range []bool{false, true} {
		for _, pieces := range [][][]byte{{[]byte(raw)}, inBytes(raw)} {
			h := http1.ResponseHead{Lenient: lenient}
			h.Reset()
			var head, body []byte
			var b http1.ResponseBody
			begun := false
			for _, p := range pieces {
				if !begun {
					head = append(head, p...)
					n, err := h.Parse(head)
					if !lenient {
						if err == nil && len(head) > len("HTTP/1.1 200 OK") {
							t.Errorf("%q is taken", head)
						} else if err != nil && !strings.Contains(string(h.Offending(head)), "200 OK\n") {
							t.Errorf("the octets in question: %q", h.Offending(head))
						}
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					if n == 0 {
						continue
					}
					begun, p = true, head[n:]
					b.Begin(&h, false, true)
				}
				for len(p) > 0 && !b.Done() {
					data, n, err := b.Next(p)
					if err != nil {
						t.Fatalf("%v at %q", err, http1.Around(p, n))
					}
					body, p = append(body, data...), p[n:]
				}
			}
			if lenient && (string(body) != "helloabc" || !b.Done() || len(h.Fields) != 2) {
				t.Errorf("%q, %v, %d fields", body, b.Done(), len(h.Fields))
			}
		}
	}
	h := http1.ResponseHead{Lenient: true}
	if _, err := h.Parse([]byte("HTTP/1.1 200 OK\nA: b\rC: d\n\n")); err != http1.ErrBareCR {
		t.Error(err)
	}
}

// badResponses are refused with exactly that error.
var badResponses = []struct {
	raw  string
	want error
}{
	{"", io.ErrUnexpectedEOF},
	{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", io.ErrUnexpectedEOF},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", io.ErrUnexpectedEOF},
	{"HTTP/1.1 100 Continue\r\n\r\n", io.ErrUnexpectedEOF},
	{"X", http1.ErrStatusLine},
	{"\x15\x03\x01", http1.ErrStatusLine}, // a TLS alert
	{"\r\nHTTP/1.1 200 OK\r\n", http1.ErrStatusLine},
	{"HTTP/2.0 200 OK\r\n", http1.ErrStatusLine},
	{"ICY 200 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1\r\n", http1.ErrStatusLine},
	{"HTTP/1.1  200 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.x 200 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1 20 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1 2000 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1 099 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1 +20 OK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1 200\tOK\r\n", http1.ErrStatusLine},
	{"HTTP/1.1 200 O\x00K\r\n", http1.ErrStatusLine},
	{"HTTP/1.1 200 OK\n\n", http1.ErrBareLF},
	{"HTTP/1.1 200 OK\r\nA: b\n\r\n", http1.ErrBareLF},
	{"HTTP/1.1 200 OK\rA: b\r\n\r\n", http1.ErrBareCR},
	{"HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n", http1.ErrBareCR},
	{"HTTP/1.1 200 OK\r\n A: b\r\n\r\n", http1.ErrFold},
	{"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", http1.ErrFold},
	{"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", http1.ErrFieldName},
	{"HTTP/1.1 200 OK\r\nA\r\n\r\n", http1.ErrFieldName},
	{"HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n", http1.ErrFieldValue},
	{"HTTP/1.1 200 OK\r\n" + strings.Repeat("a:\r\n", http1.MaxFields+1), http1.ErrFieldCount},
	// Two lengths that are not equal, or in one field.
	{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", http1.ErrLengthTwice},
	{"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", http1.ErrLength},
	{"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", http1.ErrLength},
	{"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", http1.ErrLength},
	{"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n", http1.ErrLength},
	{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		http1.ErrCodingLength},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", http1.ErrCoding},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", http1.ErrCoding},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		http1.ErrCoding},
	{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", http1.ErrCodingOn10},
	{"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n", http1.ErrInterimBody},
	{"HTTP/1.1 101 Switching Protocols\r\nTransfer-Encoding: chunked\r\n\r\n", http1.ErrInterimBody},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", http1.ErrChunkSize},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd", http1.ErrChunkData},
}

func inBytes(raw string) (pieces [][]byte) {
	for i := range len(raw) {
		pieces = append(pieces, []byte{raw[i]})
	}
	return pieces
}

func TestResponse(t *testing.T) {
	for _, tt := range goodResponses {
		whole := understand(tt.method, []byte(tt.raw))
		got := fmt.Sprintf("%d %q %s %q keep=%t -%d", whole.status, whole.reason, whole.extent,
			whole.body, whole.keep, len(tt.raw)-whole.used)
		if got != tt.want || whole.err != nil {
			t.Errorf("%q: %s, %v, want %s", tt.raw, got, whole.err, tt.want)
		}
	}
	for _, tt := range badResponses {
		if got := understand("GET", []byte(tt.raw)); got.err != tt.want {
			t.Errorf("%q: %v, want %v", tt.raw, got, tt.want)
		}
	}
}

// FuzzResponse: every split gives the same result, and whatever net/http accepts as well, it frames
// alike.
func FuzzResponse(f *testing.F) {
	for _, tt := range goodResponses {
		f.Add([]byte(tt.raw), uint(7), tt.method == "HEAD")
	}
	for _, tt := range badResponses {
		f.Add([]byte(tt.raw), uint(20), false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, cut uint, head bool) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		whole := understand(method, raw)
		at := cut % uint(len(raw)+1)
		if split := understand(method, raw[:at], raw[at:]); split.String() != whole.String() {
			t.Fatalf("whole %v\nsplit %v", whole, split)
		}
		if split := understand(method, inBytes(string(raw))...); split.String() != whole.String() {
			t.Fatalf("whole %v\nbytes %v", whole, split)
		}
		if whole.err != nil || whole.status == 101 {
			return
		}
		r := bufio.NewReader(bytes.NewReader(raw))
		var std *http.Response
		var err error
		for std == nil || std.StatusCode < 200 {
			if std, err = http.ReadResponse(r, &http.Request{Method: method}); err != nil {
				return
			}
		}
		body, err := io.ReadAll(std.Body)
		if err != nil {
			return // it refuses more in chunks
		}
		mine, _, _ := strings.Cut(whole.body, " +")
		if len(std.Trailer) == 0 {
			mine = whole.body
		}
		if std.StatusCode != whole.status || !strings.HasPrefix(whole.body, string(body)) ||
			mine != string(body) && len(std.Trailer) == 0 && !strings.Contains(whole.body, " +") {
			t.Fatalf("net/http: %d %q; %v", std.StatusCode, body, whole)
		}
	})
}
