package gateway_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// answers are what an application sends, and what must come of it: status, some fields, body.
var answers = []struct {
	name, method, raw string
	status            int
	fields, body      string
}{
	{"Status", "GET", "Status: 404 Nope\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello", 404, "X-A: b",
		"hello"},
	{"a status line", "GET", "HTTP/1.1 404 Nope\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello", 404,
		"X-A: b", "hello"},
	{"a status line without a reason", "GET", "HTTP/1.0 201\r\nContent-Length: 0\r\n\r\n", 201, "",
		""},
	{"that of HTTP/2, as uWSGI repeats the request's", "GET",
		"HTTP/2.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "", "x"},
	{"neither", "GET", "Content-Type: text/plain\n\nhello", 200, "Content-Type: text/plain", "hello"},
	{"Location", "GET", "Location: /x\r\n\r\n", 302, "Location: /x", ""},
	{"no length", "GET", "Status: 200\r\n\r\nhello", 200, "Content-Length: -", "hello"},
	{"no length and no body", "GET", "Status: 200\r\n\r\n", 200, "Content-Length: -", ""},
	{"204", "GET", "Status: 204\r\n\r\n", 204, "", ""},
	{"304 with the length of what is not sent", "GET", "Status: 304\r\nContent-Length: 5\r\n\r\n", 304,
		"", ""},
	{"HEAD", "HEAD", "Status: 200\r\nContent-Length: 5\r\n\r\n", 200, "Content-Length: 5", ""},
	{"HEAD with a body", "HEAD", "Status: 200\r\nContent-Length: 5\r\n\r\nhello", 200,
		"Content-Length: 5", ""},
	{"a body that is longer than announced", "GET", "Content-Length: 5\r\n\r\nhello world", 200, "",
		"hello"},
	{"fields of the connection", "GET",
		"Status: 200\r\nConnection: X-A\r\nX-A: b\r\nKeep-Alive: x\r\nX-B: c\r\n\r\n", 200,
		"X-A: -\nKeep-Alive: -\nX-B: c", ""},
	{"hide_header", "GET", "Status: 200\r\nX-Powered-By: z\r\n\r\n", 200, "X-Powered-By: -", ""},
	{"interim responses", "GET",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" +
			"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "", "hello"},
	{"Status: 103 is none", "GET", "Status: 103\r\n\r\nhello", 200, "", "hello"},
	{"a coding, which is not the application's affair", "GET",
		"Transfer-Encoding: chunked\r\n\r\nhello", 200, "", "hello"},
}

func (g got) check(t *testing.T, what string, status int, fields, body string) {
	t.Helper()
	if g.err != nil || g.status != status || g.body != body {
		t.Errorf("%s: %d %q, %v; want %d %q", what, g.status, g.body, g.err, status, body)
		return
	}
	for line := range strings.Lines(fields) {
		name, want, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if have := g.header.Get(name); have != want && !(want == "-" && have == "") {
			t.Errorf("%s: %s is %q, want %q", what, name, have, want)
		}
	}
}

// TestAnswers gives each answer whole, and in two pieces, cut at every byte.
func TestAnswers(t *testing.T) {
	for _, tt := range answers {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, p protocol) {
				var cut atomic.Int32
				s := serve(t, p, "/", []string{application(t, p, "unix", func(r *request) {
					at := cut.Load()
					r.reply(tt.raw[:at])
					r.reply(tt.raw[at:])
				})}, func(s *upstreams.Gateway) { s.HideHeader = []string{"x-powered-by"} })
				for at := range len(tt.raw) {
					cut.Store(int32(at))
					g := s.ask(tt.method+" /", nil, "")
					g.check(t, fmt.Sprint("cut at ", at), tt.status, tt.fields, tt.body)
					if tt.name == "interim responses" && fmt.Sprint(g.interim) != "[103]" {
						t.Errorf("interim responses %v", g.interim)
					}
				}
			})
		})
	}
}

// TestCutAnswers closes the connection behind every byte of an answer: the client gets an error, or
// an answer that is cut, unless only the body is not there and nothing has said how long it is.
func TestCutAnswers(t *testing.T) {
	for _, length := range []bool{true, false} {
		t.Run(fmt.Sprint("length ", length), func(t *testing.T) {
			each(t, func(t *testing.T, p protocol) {
				head := "HTTP/1.1 200 OK\r\nX-A: b\r\n\r\n"
				if length {
					head = "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 40000\r\n\r\n"
				}
				raw := head + strings.Repeat("x", 40000)
				var cut atomic.Int32
				s := serve(t, p, "/", []string{application(t, p, "tcp", func(r *request) {
					r.reply(raw[:cut.Load()])
				})}, nil)
				for at := range len(head) + 20 {
					if at > len(head)+10 {
						at += 39970
					}
					cut.Store(int32(at))
					g := s.ask("GET /", nil, "")
					switch {
					case at < len(head):
						if g.status != 502 {
							t.Errorf("%d bytes: %+v", at, g)
						}
					case length && at < len(raw):
						if g.err == nil && g.status != 502 { // 502 if none of it has gone out
							t.Errorf("%d bytes: %d, a body of %d bytes, and no error", at, g.status, len(g.body))
						}
					case g.err != nil || g.status != 200 || g.body != raw[len(head):at]:
						t.Errorf("%d bytes: %d %v", at, g.status, g.err)
					}
				}
			})
		})
	}
}

// sink is what takes an answer in place of a client, and tells of its end.
type sink struct{ ended func(sound bool) }

func (sink) Inform(int, []conn.Field)         {}
func (sink) Head(*conn.SentHead) bool         { return false }
func (sink) Write(*loop.Thread, []byte) error { return nil }
func (sink) Flush()                           {}
func (s sink) End(_ []conn.Field, sound bool) { s.ended(sound) }
func (sink) Over(error)                       {}

// TestUnsureEnd: an answer whose end only the connection tells may be one that was cut, for a
// cache.
func TestUnsureEnd(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p protocol) {
		at := application(t, p, "unix", func(r *request) {
			r.reply("Status: 200\r\n" + strings.ReplaceAll(r.get("QUERY_STRING"), "%0A", "\n") + "\r\nhello")
		})
		r := must.Get(build(p, handlers.Env{Prefix: "/"}, []string{at}, nil))(t)
		ended := make(chan bool, 1)
		s := module.Start(t, modes.Direct, "/", func(req *conn.Request, _ *conn.Response) int {
			req.Layer().StartBackground(r.Handler, sink{func(sound bool) { ended <- sound }}, nil)
			return 200
		})
		for query, want := range map[string]bool{"": false, "Content-Length:5%0A": true} {
			_ = s.Request("GET /?"+query, nil, "")
			if sound := <-ended; sound != want {
				t.Errorf("%q: sound %v", query, sound)
			}
		}
	})
}

// TestGarbage: what is no answer is 502.
func TestGarbage(t *testing.T) {
	for _, tt := range []struct{ name, raw, log string }{
		{"text", "hello\r\n\r\n", "not a name, colon and value"},
		{"binary", "\x00\x01\x02\n\n", "not a name, colon and value"},
		{"a status line that has no number", "HTTP/1.1 OK\r\n\r\n", "no version and number"},
		{"a status of two digits", "HTTP/1.1 20 OK\r\n\r\n", "no version and number"},
		{"a status line without a version", "HTTP/ 200 OK\r\n\r\n", "no version and number"},
		{"a version that is none", "HTTP/x 200 OK\r\n\r\n", "no version and number"},
		{"a control character in the reason", "HTTP/1.1 200 a\x01b\r\n\r\n", "control character"},
		{"a status line that is not the first", "X: y\r\nHTTP/1.1 200 OK\r\n\r\n",
			"not a name, colon and value"},
		{"two statuses", "HTTP/1.1 200 OK\r\nStatus: 404\r\n\r\n", "two different statuses"},
		{"101", "HTTP/1.1 101 Switching\r\n\r\n", "no version and number"},
		{"a long head", "X: " + strings.Repeat("a", 5000) + "\r\n\r\n", "exceeds the limit"},
		{"interim responses without end", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 65),
			"too many interim"},
		{"two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
			"two different Content-Length"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, p protocol) {
				s := serve(t, p, "/", []string{application(t, p, "unix", func(r *request) { r.reply(tt.raw) })},
					func(s *upstreams.Gateway) { s.MaxHeaderSize = 4096 })
				if g := s.ask("GET /", nil, ""); g.status != 502 || !strings.Contains(s.log.String(), tt.log) {
					t.Errorf("%+v\n%s", g, s.log)
				}
			})
		})
	}
}
