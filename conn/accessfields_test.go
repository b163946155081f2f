package conn_test

import (
	"crypto/tls"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
)

// TestAccessLogFields: what was read, over which TLS, and which upstream was asked.
func TestAccessLogFields(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		log := new(entries)
		s := start(t, m, conn.Config{AccessLog: log, Handler: byPath(map[string]conn.Handler{
			"/read": func(req *conn.Request, resp *conn.Response) int {
				_, _ = io.Copy(io.Discard, req.Body())
				req.Layer().ReplaceHeader("X-Long", strings.Repeat("x", 500))
				return 204
			},
			"/up": func(req *conn.Request, resp *conn.Response) int {
				status, _, err := req.Subrequest("/", func(req *conn.Request, _ *conn.Response) int {
					req.Layer().SetUpstream("asked", 1, 2)
					return 204
				})
				if status != 204 || err != nil {
					return 500
				}
				if req.RawQuery() == "" {
					req.Layer().SetUpstream("there", time.Second, time.Minute)
				}
				return 204
			},
		})})
		c := s.Dial()
		ask := func(text string) conn.AccessEntry {
			t.Helper()
			c.Do("POST", text)
			e := log.one(t)
			if m.TLS != (e.TLSVersion == tls.VersionTLS13) || m.TLS != (e.CipherSuite != 0) {
				t.Errorf("TLS %x, %x", e.TLSVersion, e.CipherSuite)
			}
			return e
		}
		const head = "POST /read HTTP/1.1\r\nHost: a\r\n"
		for _, row := range []struct{ rest, body string }{
			{"\r\n", ""},
			{"Content-Length: 5\r\n\r\n", "hello"},
			{"Content-Length: 5000\r\n\r\n", strings.Repeat("x", 5000)},
			{"Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"},
		} {
			want := len(head + row.rest + row.body)
			if strings.Contains(row.rest, "chunked") {
				want = len(head+row.rest) + 5
			}
			if e := ask(head + row.rest + row.body); e.Received != int64(want) {
				t.Errorf("%q: %d received, want %d", row.rest, e.Received, want)
			}
		}
		e := ask("POST /up HTTP/1.1\r\nHost: a\r\n\r\n")
		if e.Upstream != "there" || e.UpstreamFirst != time.Second || e.UpstreamTime != time.Minute {
			t.Errorf("%+v", e)
		}
		if e := ask("POST /up?none HTTP/1.1\r\nHost: a\r\n\r\n"); e.Upstream != "" {
			t.Errorf("%+v", e)
		}
		c.Do("GET", "GET / HTTP/1.1\r\nbad\r\n\r\n")
		if e := log.one(t); e.Received == 0 || e.Status != 400 {
			t.Errorf("refused: %+v", e)
		}
	}, plain, direct, overTLS)
}

// TestLogTo: a request's line goes to the log that was chosen for it, and the next one's not; a
// connection that crowds that log waits for it.
func TestLogTo(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		own, all := &entries{asked: make(chan struct{}, 1)}, new(entries)
		s := start(t, m, conn.Config{AccessLog: all, Handler: byPath(map[string]conn.Handler{
			"/own": func(req *conn.Request, _ *conn.Response) int {
				req.Layer().LogTo(own)
				return 204
			},
			"/hijack": func(req *conn.Request, resp *conn.Response) int {
				req.Layer().LogTo(own)
				if c, _, err := resp.Hijack(); err == nil {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
				return 0
			},
			"/": hello,
		})})
		c := s.Dial()
		for _, path := range []string{"/own", "/", "/own", "/", "/"} {
			c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			log := all
			if path == "/own" {
				log = own
			}
			if e := log.one(t); string(e.Target) != path {
				t.Errorf("%s: %s", path, e.Target)
			}
		}
		own.full.Store(true)
		send(t, c, "GET /own HTTP/1.1\r\nHost: a\r\n\r\n"+get)
		c.Answer("GET")
		<-own.asked
		own.full.Store(false)
		c.Answer("GET")
		own.one(t)
		all.one(t)
		if m.HTTP2 {
			return
		}
		c.Do("GET", "GET /hijack HTTP/1.1\r\nHost: a\r\n\r\n")
		if e := own.one(t); !e.Hijacked {
			t.Errorf("%+v", e)
		}
	}, plain, direct, modes.HTTP2)
}

// nowhere is an access log that reads every entry and keeps none.
type nowhere struct{ ids int }

func (n *nowhere) LogRequest(_ *loop.Loop, e *conn.AccessEntry) bool {
	n.ids += len(e.ID)
	return true
}

func (n *nowhere) HasRoom(*loop.Loop, conn.Share) bool { return true }

// TestAccessLogAllocates: an entry costs no allocation, in the server's log or in another one.
func TestAccessLogAllocates(t *testing.T) {
	own := new(nowhere)
	h := func(to bool) conn.Handler {
		return func(req *conn.Request, _ *conn.Response) int {
			if to {
				req.Layer().LogTo(own)
			}
			return 204
		}
	}
	s := start(t, direct, conn.Config{Handler: h(false)})
	without := s.Allocs(get)
	for _, to := range []bool{false, true} {
		s.Configure(conn.Config{Handler: h(to), AccessLog: new(nowhere)})
		if with := s.Allocs(get); with > without+0.5 {
			t.Errorf("%v allocations, %v without a log", with, without)
		}
	}
	if own.ids == 0 {
		t.Error("nothing was logged")
	}
}
