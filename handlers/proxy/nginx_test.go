package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestAsNginx: what those expect who come from nginx, by the subjects of its tests of proxying and
// upstreams, where no other test here has it. Each answer is followed by another request: kept
// tells whether that gets the same connection. The manual lists what is otherwise.
func TestAsNginx(t *testing.T) {
	for _, size := range []conn.Size{proxy.Defaults.ResponseBuffering, 0} {
		t.Run(fmt.Sprint("response_buffering = ", size), func(t *testing.T) { asNginx(t, size) })
	}
}

func asNginx(t *testing.T, buffering conn.Size) {
	const ok, end = "HTTP/1.1 200 OK\r\n", "\r\n\r\n"
	for _, tt := range []struct {
		name, request string // "" for GET / HTTP/1.1
		answer        string
		status        int // 0: 200
		body          string
		fields        string // "Name: value", in this order; of these names all
		reused        bool
	}{
		// Which answers keep the connection.
		{name: "a length", answer: ok + "Content-Length: 2" + end + "ok", body: "ok", reused: true},
		{name: "a length of 0", answer: ok + "Content-Length: 0" + end, reused: true},
		{name: "chunks", answer: ok + "Transfer-Encoding: chunked" + end + "2\r\nok\r\n0\r\n\r\n",
			body: "ok", reused: true},
		{name: "chunks with extensions", answer: ok + "Transfer-Encoding: chunked" + end +
			"1;a=b\r\no\r\n01 ; c\r\nk\r\n000;d=\"e\"\r\n\r\n", body: "ok", reused: true},
		{name: "chunks with a trailer", answer: ok + "Transfer-Encoding: chunked" + end +
			"2\r\nok\r\n0\r\nX-A: b\r\n\r\n", body: "ok", reused: true},
		{name: "Chunked in capitals", answer: ok + "transfer-encoding: CHUNKED" + end +
			"2\r\nok\r\n0\r\n\r\n", body: "ok", reused: true},
		{name: "204", answer: "HTTP/1.1 204 No Content" + end, status: 204, reused: true},
		{name: "304", answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 9" + end, status: 304,
			reused: true},
		{name: "HEAD", request: "HEAD / HTTP/1.1", answer: ok + "Content-Length: 9" + end,
			fields: "Content-Length: 9", reused: true},
		{name: "HEAD with chunks", request: "HEAD / HTTP/1.1",
			answer: ok + "Transfer-Encoding: chunked" + end, reused: true},
		{name: "Connection: close", answer: ok + "Content-Length: 2\r\nConnection: close" + end + "ok",
			body: "ok"},
		{name: "close among others",
			answer: ok + "Content-Length: 2\r\nConnection: x, CLOSE" + end + "ok", body: "ok"},
		{name: "an option that has close in its name",
			answer: ok + "Content-Length: 2\r\nConnection: x-close" + end + "ok", body: "ok", reused: true},
		{name: "HTTP/1.0", answer: "HTTP/1.0 200 OK\r\nContent-Length: 2" + end + "ok", body: "ok"},
		{name: "HTTP/1.0 that keeps",
			answer: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive" + end + "ok",
			body:   "ok", reused: true},
		// More than was said: what is too much is dropped, and so is the connection.
		{name: "more than the length", answer: ok + "Content-Length: 2" + end + "ok, and more",
			body: "ok"},
		{name: "more than a length of 0", answer: ok + "Content-Length: 0" + end + "more"},
		{name: "more than half of a length for HEAD", request: "HEAD / HTTP/1.1",
			answer: ok + "Content-Length: 9" + end + "more", fields: "Content-Length: 9"},
		{name: "more behind chunks",
			answer: ok + "Transfer-Encoding: chunked" + end + "2\r\nok\r\n0\r\n\r\nmore", body: "ok"},
		{name: "a body for HEAD", request: "HEAD / HTTP/1.1",
			answer: ok + "Content-Length: 2" + end + "ok"},
		{name: "a body of 204", answer: "HTTP/1.1 204 No Content" + end + "ok", status: 204},
		{name: "a body of 304", answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 2" + end + "ok",
			status: 304},
		// Fields that come twice.
		{name: "one length twice", answer: ok + "Content-Length: 2\r\nContent-Length: 2" + end + "ok",
			body:   "ok",
			fields: "Content-Length: 2", reused: true},
		{name: "two lengths", answer: ok + "Content-Length: 2\r\nContent-Length: 3" + end + "ok",
			status: 502},
		{name: "two cookies", answer: ok + "Content-Length: 2\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d" +
			end + "ok", body: "ok",
			fields: "Set-Cookie: a=b\nSet-Cookie: c=d", reused: true},
		{name: "two of another name", answer: ok + "Content-Length: 2\r\nX-A: 1\r\nx-a: 2" + end + "ok",
			body:   "ok",
			fields: "X-A: 1\nX-A: 2", reused: true},
		{name: "fields of the connection",
			answer: ok + "Content-Length: 2\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=60" +
				end + "ok", body: "ok",
			fields: "X-Hop\nKeep-Alive", reused: true},
		{name: "who has answered, and when",
			answer: ok + "Content-Length: 2\r\nServer: theirs\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT" + end +
				"ok", body: "ok",
			fields: "Server: theirs\nDate: Thu, 01 Jan 1970 00:00:00 GMT", reused: true},
		{name: "empty fields", answer: ok + "Content-Length: 2\r\nX-A:\r\nX-B: " + end + "ok", body: "ok",
			fields: "X-A: \nX-B: ", reused: true},
		{name: "no reason", answer: "HTTP/1.1 200\r\nContent-Length: 2" + end + "ok", body: "ok",
			reused: true},
		{name: "a status without a name", answer: "HTTP/1.1 299 \r\nContent-Length: 2" + end + "ok",
			status: 299, body: "ok", reused: true},
		{name: "a lower-case coding beside",
			answer: ok + "Content-Length: 2\r\nContent-Encoding: gzip" + end + "ok", body: "ok",
			fields: "Content-Encoding: gzip", reused: true},
		// Ranges are the upstream's.
		{name: "a range", request: "GET / HTTP/1.1\r\nRange: bytes=0-0",
			answer: "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-0/2\r\nContent-Length: 1" + end +
				"o",
			status: 206, body: "o", fields: "Content-Range: bytes 0-0/2", reused: true},
		{name: "a range that it does not know", request: "GET / HTTP/1.1\r\nRange: bytes=0-0",
			answer: ok + "Content-Length: 2" + end + "ok", body: "ok", reused: true},
		// Errors are the application's, with what it says for a log-in.
		{name: "401",
			answer: "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 2" +
				end + "no", status: 401, body: "no",
			fields: "WWW-Authenticate: Basic realm=x", reused: true},
		{name: "500", answer: "HTTP/1.1 500 Oops\r\nContent-Length: 2" + end + "no", status: 500,
			body: "no", reused: true},
		{name: "hints for a client of HTTP/1.0", request: "GET / HTTP/1.0",
			answer: "HTTP/1.1 103 Early Hints\r\nLink: </a>" + end + ok + "Content-Length: 2" + end + "ok",
			body:   "ok", reused: true},
		{name: "hints that are too long", answer: "HTTP/1.1 103 Early Hints\r\nLink: " +
			strings.Repeat("x", 65<<10) + end + ok + "Content-Length: 2" + end + "ok", status: 502},
		{name: "interim ones", answer: "HTTP/1.1 102 Processing" + end + ok + "Content-Length: 2" + end +
			"ok", body: "ok", reused: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := start(t, func(p *originConn) {
				for req := p.request(); req != nil && req.URL.Path != last; req = p.request() {
					if req.URL.Path == "/again" {
						p.say(hello)
						continue
					}
					p.say("%s", tt.answer)
				}
			})
			f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
				s.IdleTimeout, s.ResponseBuffering = time.Minute, buffering
			})
			line := tt.request
			if line == "" {
				line = "GET / HTTP/1.1"
			}
			method, _, _ := strings.Cut(line, " ")
			c := f.Dial()
			c.Send(line + "\r\nHost: a" + end)
			g := read(c.R, method)
			if g.status == 102 {
				g = read(c.R, method)
			}
			want := tt.status
			if want == 0 {
				want = 200
			}
			if g.status != want || tt.status != 502 && g.body != tt.body || g.err != nil {
				t.Errorf("%d %q, %v; want %d %q", g.status, g.body, g.err, want, tt.body)
			}
			var fields []string
			seen := map[string]bool{}
			for field := range strings.SplitSeq(tt.fields, "\n") {
				name, _, there := strings.Cut(field, ": ")
				if name = http.CanonicalHeaderKey(name); seen[name] || name == "" {
					continue
				}
				seen[name] = true
				values := g.header.Values(name)
				for _, v := range values {
					fields = append(fields, name+": "+v)
				}
				if len(values) == 0 && !there {
					fields = append(fields, field)
				}
			}
			if got := strings.Join(fields, "\n"); got != asInHeader(tt.fields) {
				t.Errorf("fields %q, want %q", got, tt.fields)
			}
			if g := f.get("/again"); g.body != "hello" {
				t.Errorf("the next request: %v", g)
			}
			if n := o.accepted.Load(); (n == 1) != tt.reused {
				t.Errorf("%d connections", n)
			}
			f.get(last)
		})
	}
}

// asInHeader gives names of fields the case that header.Values has.
func asInHeader(fields string) string {
	var all []string
	for field := range strings.SplitSeq(fields, "\n") {
		name, value, there := strings.Cut(field, ": ")
		if name = http.CanonicalHeaderKey(name); there {
			name += ": " + value
		} else {
			name = field
		}
		all = append(all, name)
	}
	return strings.Join(all, "\n")
}

// TestRequestsAsNginx: what an upstream gets of requests that are not quite usual.
func TestRequestsAsNginx(t *testing.T) {
	t.Parallel()
	heads := make(chan string, 1)
	o := start(t, func(p *originConn) {
		for head := p.head(); head != "" && !strings.Contains(head, last); head = p.head() {
			heads <- head
			p.say(hello)
		}
	})
	f := serve(t, modes.Direct, "/", []string{o.addr}, nil)
	for _, tt := range []struct{ request, has, hasNot string }{
		{"GET http://b.example/x?y HTTP/1.1\r\nHost: a", "GET /x?y HTTP/1.1\r\nHost: b.example\r\n", ""},
		{"GET / HTTP/1.0", "GET / HTTP/1.1\r\n", ""},
		{"GET /?a=%20&b HTTP/1.1\r\nHost: a", "GET /?a=%20&b HTTP/1.1\r\n", ""},
		{"PROPFIND / HTTP/1.1\r\nHost: a", "PROPFIND / HTTP/1.1\r\n", ""},
		{"GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nX-A: 2", "\r\nX-A: 1\r\nX-A: 2\r\n", ""},
		{"GET / HTTP/1.1\r\nHost: a\r\nCookie: a=b\r\nCookie: c=d", "\r\nCookie: a=b\r\nCookie: c=d\r\n",
			""},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Hop\r\nX-Hop: 1", "", "X-Hop"},
		{"GET / HTTP/1.1\r\nHost: a\r\nX_A: 1", "", "X_A"},
		{"GET / HTTP/1.1\r\nHost: a\r\nProxy: x", "", "\r\nProxy:"},
		{"GET / HTTP/1.1\r\nHost: a\r\nTE: gzip, trailers\r\nConnection: TE", "", "gzip"},
		{"GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"x\"\r\nRange: bytes=0-1",
			"\r\nIf-None-Match: \"x\"\r\nRange: bytes=0-1\r\n", ""},
		{"GET / HTTP/1.1\r\nHost: a:8080", "\r\nHost: a:8080\r\n", ""},
		{"GET / HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: blah\r\nIf-Range: \"x\"",
			"\r\nIf-Modified-Since: blah\r\nIf-Range: \"x\"\r\n", ""},
		{"GET / HTTP/1.1\r\nHost: a\r\nx.foo: bar", "\r\nx.foo: bar\r\n", ""},
		{"GET / HTTP/1.1\r\nHost: a\r\n_foo: bar", "", "_foo"},
		{"GET / HTTP/1.1\r\nHost: a\r\nVia: 1.0 b, 1.1 c\r\nReferer: x\r\nReferer: y",
			"\r\nReferer: x\r\nReferer: y\r\n", ""},
		{"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 0",
			"\r\nContent-Length: 0\r\n", "100-Continue"},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0", "\r\nContent-Length: 0\r\n",
			"chunked"},
		{"GET //a/./b/../c?d=/../ HTTP/1.1\r\nHost: a", "GET /a/c?d=/../ HTTP/1.1\r\n", ""},
		{"GET /a%20b?c%20d HTTP/1.1\r\nHost: a", "GET /a%20b?c%20d HTTP/1.1\r\n", ""},
		{"GET /? HTTP/1.1\r\nHost: a", "GET /? HTTP/1.1\r\n", ""},
		{"GET http://a? HTTP/1.1\r\nHost: a", "GET /? HTTP/1.1\r\n", ""},
	} {
		c := f.Dial()
		c.Send(tt.request + "\r\n\r\n")
		if g := read(c.R, "GET"); g.status != 200 {
			t.Errorf("%q: %v", tt.request, g)
			continue
		}
		head := <-heads
		if !strings.Contains(head, tt.has) || tt.hasNot != "" && strings.Contains(head, tt.hasNot) {
			t.Errorf("%q: the upstream has got %q", tt.request, head)
		}
		c.Close()
	}
	f.get(last)
}
