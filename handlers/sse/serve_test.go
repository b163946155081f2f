package sse_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// listener follows a topic, and says what happens to it.
type listener struct {
	topic *pubsub.Topic
	sub   *pubsub.Subscription
	log   chan string
	fail  string // where it panics
	hang  string // where it never returns
}

// never does not return, whatever happens to the client.
func (l *listener) never(s *sse.Stream, where string) {
	if where == l.hang {
		l.log <- where + " hangs"
		s.Thread().KeepWaiting(true)
		_ = s.Thread().Sleep(time.Hour)
	}
}

func (l *listener) at(where string) {
	l.log <- where
	if where == l.fail {
		panic(where)
	}
}

func (l *listener) Open(s *sse.Stream) {
	l.sub = s.Subscribe(l.topic, pubsub.Options{}, l.published)
	l.at("open")
	_ = s.Send(sse.Event{Data: []byte("hello")})
	l.never(s, "open")
}

func (l *listener) published(s *sse.Stream, m *pubsub.Message) {
	if m == nil {
		l.at("no more")
		return
	}
	l.at("item")
	switch string(m.Data) {
	case "close":
		s.Close()
	case "flood":
		for large := make([]byte, 1<<20); s.Send(sse.Event{Data: large}) == nil; {
		}
		l.at("flooded")
	case "leave":
		l.sub.Unsubscribe()
	case "stop":
		at := s.Thread().Loop()
		at.Stop(wait.Patience)
		_, _ = s.Thread().AwaitAny(-1, at.Stopped())
		l.topic.Publish([]byte("one"))
		l.topic.Publish([]byte("two"))
	case "sleep":
		_ = s.Thread().Sleep(time.Hour)
	case "bad":
		if err := s.Send(sse.Event{ID: "\n"}); !errors.Is(err, sse.ErrEvent) {
			l.log <- fmt.Sprint(err)
		}
	default:
		_ = s.Send(sse.Event{Data: m.Data})
	}
}

func (l *listener) Closed(s *sse.Stream, err error) {
	l.never(s, "closed")
	_ = s.Comment("the client may have left")
	_ = s.Thread().Sleep(time.Millisecond)
	l.at(fmt.Sprintf("closed: %v", err))
}

func (l *listener) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := receive(t, l.log, w); got != w {
			t.Errorf("got %q, want %q", got, w)
		}
	}
}

// listen serves one listener under path /, and returns its client, which has got the first event.
func listen(t *testing.T, m modes.Mode, l *listener, log conn.AccessLog,
	before func(req *conn.Request, resp *conn.Response)) (*server.Server, io.Reader, *server.Client) {
	t.Helper()
	l.log = make(chan string, 1000)
	s := server.Start(t, m,
		conn.Config{AccessLog: log, Handler: func(req *conn.Request, resp *conn.Response) int {
			if req.Path() != "/" {
				_, _ = resp.WriteString(req.Path())
				return 200
			}
			if before != nil {
				before(req, resp)
			}
			req.Defer(func() { l.log <- "deferred" })
			return sse.Serve(req, resp, l)
		}})
	if l.fail != "" {
		s.Panics.Expect()
	}
	resp, c := get(s, "GET / HTTP/1.1")
	l.expect(t, "open")
	if l.fail != "open" {
		expect(t, resp.Body, dispatched{name: "message", data: "hello"})
	}
	return s, resp.Body, c
}

type lines chan conn.AccessEntry

func (l lines) LogRequest(_ *loop.Loop, e *conn.AccessEntry) bool { l <- *e; return true }
func (l lines) HasRoom(*loop.Loop, conn.Share) bool               { return true }

// TestServe: a stream that has nothing to send holds nothing. Its end is the end of an answer,
// behind which the connection goes on.
func TestServe(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		l := &listener{topic: new(pubsub.Hub).Topic("news")}
		log := make(lines, 10)
		s, body, c := listen(t, m, l, log, nil)
		s.Unworked()
		for _, text := range []string{"one", "two", strings.Repeat("long ", 100_000)} {
			l.topic.Publish([]byte(text))
			expect(t, body, dispatched{name: "message", data: text})
			l.expect(t, "item")
			s.Unworked()
		}
		for range 60 {
			l.topic.Publish([]byte("many"))
		}
		for range 60 {
			l.expect(t, "item")
		}
		expect(t, body, make60("many")...)
		l.topic.Publish([]byte("bad"))
		l.expect(t, "item")
		s.Skip(16 * time.Second)
		b := make([]byte, 3)
		if _, err := io.ReadFull(body, b); err != nil || string(b) != ": \n" {
			t.Errorf("%q, %v, want a comment", b, err)
		}
		s.Unworked()
		if len(log) > 0 {
			t.Error("logged before its end")
		}
		l.topic.Publish([]byte("close"))
		if _, err := io.Copy(io.Discard, body); err != nil {
			t.Errorf("the end: %v", err)
		}
		l.expect(t, "item", "closed: <nil>", "deferred")
		e := receive(t, log, "a line")
		if e.Status != 200 || e.Hijacked || e.Bytes < 500_000 || e.Method != "GET" {
			t.Errorf("logged %+v", e)
		}
		if !m.HTTP2 {
			c.Send("GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
			if a := c.Answer("GET"); a.Text != "/next" {
				t.Errorf("then %q", a.Text)
			}
		}
		c.Close()
		s.Idle()
	}, modes.Plain, modes.Direct, modes.OverTLS, modes.HTTP2, modes.HTTP2TLS)
}

func make60(text string) (all []dispatched) {
	for range 60 {
		all = append(all, dispatched{name: "message", data: text})
	}
	return all
}

// TestServeEnds: Closed is called once, whatever ends the stream, and the client can tell a cut
// from an end.
func TestServeEnds(t *testing.T) {
	const hangs = "never returns from "
	for name, row := range map[string]struct {
		fail string
		act  func(s *server.Server, c *server.Client, l *listener)
		cut  bool
		want []string
	}{
		"leaves": {"", func(_ *server.Server, c *server.Client, _ *listener) { c.Close() }, true,
			[]string{"closed: client gone"}},
		"resets": {"", func(_ *server.Server, c *server.Client, _ *listener) { c.Reset(); c.Close() },
			true,
			[]string{"closed: client gone"}},
		"leaves at work": {"", func(s *server.Server, c *server.Client, l *listener) {
			l.topic.Publish([]byte("sleep"))
			l.expect(t, "item")
			s.Settle()
			c.Close()
		}, true, []string{"closed: client gone"}},
		"leaves while it is written to": {"", func(_ *server.Server, c *server.Client, l *listener) {
			l.topic.Publish([]byte("flood"))
			l.expect(t, "item")
			c.Close()
			l.expect(t, "flooded")
			if end := receive(t, l.log, "the end"); !strings.HasPrefix(end, "closed: ") ||
				end == "closed: <nil>" {
				t.Error(end) // with which error depends on where the write was
			}
		}, true, nil},
		hangs + "open": {"", func(s *server.Server, _ *server.Client, l *listener) {
			l.expect(t, "open hangs")
			go s.Stop(time.Millisecond)
		}, true, nil},
		hangs + "closed": {"", func(s *server.Server, c *server.Client, l *listener) {
			c.Close()
			l.expect(t, "closed hangs")
			go s.Stop(time.Millisecond)
		}, true, nil},
		"closes": {"", func(_ *server.Server, _ *server.Client, l *listener) {
			l.topic.Publish([]byte("close"))
		},
			false, []string{"item", "closed: <nil>"}},
		"open panics": {"open", func(*server.Server, *server.Client, *listener) {}, true,
			[]string{"closed: <nil>"}},
		"item panics": {"item", func(_ *server.Server, _ *server.Client, l *listener) {
			l.topic.Publish([]byte("x"))
		}, true, []string{"item", "closed: <nil>"}},
		"closed panics": {"closed: <nil>", func(_ *server.Server, _ *server.Client, l *listener) {
			l.topic.Publish([]byte("close"))
		}, true, []string{"item", "closed: <nil>"}},
		"stop": {"", func(s *server.Server, _ *server.Client, _ *listener) { go s.Stop(time.Minute) },
			false,
			[]string{"closed: http: Server closed"}},
		"killed at work": {"", func(s *server.Server, _ *server.Client, l *listener) {
			l.topic.Publish([]byte("sleep"))
			l.expect(t, "item")
			go s.Stop(time.Millisecond)
		}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, hang, _ := strings.Cut(name, hangs)
			modes.Run(t, func(t *testing.T, m modes.Mode) {
				l := &listener{topic: new(pubsub.Hub).Topic("news"), fail: row.fail, hang: hang}
				s, body, c := listen(t, m, l, nil, nil)
				s.Settle()
				row.act(s, c, l)
				if strings.HasPrefix(name, "leaves") || name == "resets" || hang == "closed" {
				} else if _, err := io.Copy(io.Discard, body); (err != nil) != row.cut {
					t.Errorf("the end: %v", err)
				}
				l.expect(t, row.want...)
				l.topic.Publish([]byte("for one that has just ended"))
				l.expect(t, "deferred")
				c.Close()
				if !strings.Contains(name, "stop") && !strings.Contains(name, "killed") && hang == "" {
					s.Idle()
				}
				if len(l.log) > 0 {
					t.Errorf("then %q", <-l.log)
				}
			}, modes.Direct, modes.OverTLS, modes.HTTP2)
		})
	}
}

// TestServeNeedsHandler: an answer that is encoded holds its coroutine, and is the same else.
func TestServeNeedsHandler(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		l := &listener{topic: new(pubsub.Hub).Topic("news")}
		s, body, c := listen(t, m, l, nil, func(_ *conn.Request, resp *conn.Response) {
			resp.SetMaxRate(1 << 20)
		})
		s.On(func(l *loop.Loop) {
			if n := l.Stats().Working; n != 1 {
				t.Errorf("%d coroutines work", n)
			}
		})
		for _, text := range []string{"one", "two"} {
			l.topic.Publish([]byte(text))
			expect(t, body, dispatched{name: "message", data: text})
			l.expect(t, "item")
		}
		l.topic.Publish([]byte("close"))
		if _, err := io.Copy(io.Discard, body); err != nil {
			t.Errorf("the end: %v", err)
		}
		l.expect(t, "item", "closed: <nil>", "deferred")
		c.Close()
		s.Idle()
	}, modes.Direct, modes.OverTLS, modes.HTTP2)
}

// TestServeManyStop: thousands of idle streams end soon.
func TestServeManyStop(t *testing.T) {
	const many = 500
	hub := new(pubsub.Hub)
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			return sse.Serve(req, resp, quiet{hub.Topic("all")})
		}})
	var all []*http.Response
	for range many {
		resp, _ := get(s, "GET / HTTP/1.1")
		all = append(all, resp)
	}
	s.Unworked()
	began := time.Now()
	go s.Stop(wait.Patience)
	for _, resp := range all {
		must.Get(io.Copy(io.Discard, resp.Body))(t)
	}
	if d := time.Since(began); d > wait.Patience/2 {
		t.Errorf("the stop took %v", d)
	}
}

// quiet follows a topic.
type quiet struct{ topic *pubsub.Topic }

func (q quiet) Open(s *sse.Stream) {
	s.Subscribe(q.topic, pubsub.Options{}, func(s *sse.Stream, m *pubsub.Message) {
		if m != nil {
			_ = s.Send(sse.Event{Data: m.Data})
		}
	})
	_ = s.Send(sse.Event{Data: []byte("hello")})
}
func (quiet) Closed(*sse.Stream, error) {}

// TestServeSendsLast: what was published when the server stops comes before the end.
func TestServeSendsLast(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		l := &listener{topic: new(pubsub.Hub).Topic("news")}
		_, body, _ := listen(t, m, l, nil, nil)
		l.topic.Publish([]byte("stop"))
		expect(t, body, dispatched{name: "message", data: "one"},
			dispatched{name: "message", data: "two"})
		if _, err := io.Copy(io.Discard, body); err != nil {
			t.Errorf("the end: %v", err)
		}
		l.expect(t, "item", "item", "item", "closed: http: Server closed")
	}, modes.Direct, modes.OverTLS, modes.HTTP2)
}
