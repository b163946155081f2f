package websocket_test

import (
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
)

// member is in a room, and says what happens to it. What a message names happens within it.
type member struct {
	room *pubsub.Topic
	sub  *pubsub.Subscription
	log  chan string
	fail string // where it panics
	hang string // where it never returns
}

// never does not return, whatever happens to the client.
func (m *member) never(c *websocket.Conn, where string) {
	if where == m.hang {
		m.log <- where + " hangs"
		c.Thread().KeepWaiting(true)
		_ = c.Thread().Sleep(time.Hour)
	}
}

func (m *member) at(where string) {
	m.log <- where
	if where == m.fail {
		panic(where)
	}
}

func (m *member) Open(c *websocket.Conn) {
	if m.room != nil {
		m.sub = c.Subscribe(m.room, pubsub.Options{}, m.published)
	}
	m.at("open")
	m.never(c, "open")
}

func (m *member) published(c *websocket.Conn, item *pubsub.Message) {
	if item == nil {
		m.at("no more")
		return
	}
	m.at("item")
	_ = c.WriteMessage(websocket.Text, item.Data)
}

func (m *member) Message(c *websocket.Conn, kind int, p []byte) {
	m.at("message")
	switch string(p) {
	case "sleep":
		_ = c.Thread().Sleep(time.Hour)
	case "block": // the loop
		time.Sleep(20 * time.Millisecond)
		_ = c.WriteMessage(kind, p)
	case "flood":
		for large := make([]byte, 1<<20); c.WriteMessage(kind, large) == nil; {
		}
	case "leave":
		m.sub.Unsubscribe()
	case "publish":
		m.room.Publish([]byte("from within"))
	case "close":
		_ = c.Close(4001, "")
	case "ask": // a conversation within a message
		_ = c.WriteMessage(kind, []byte("name?"))
		_, p, _ = c.ReadMessage()
		_ = c.WriteMessage(kind, append([]byte("hello "), p...))
	case "exit":
		runtime.Goexit()
	default:
		_ = c.WriteMessage(kind, p)
	}
}

func (m *member) Closed(c *websocket.Conn, err *websocket.CloseError) {
	m.never(c, "closed")
	if err := c.WriteMessage(websocket.Text, nil); err == nil {
		m.log <- "written at the end"
	}
	_ = c.Thread().Sleep(time.Millisecond) // the client may have left
	m.at("closed " + err.Error()[len("websocket: closed with "):][:4])
}

// serveMember serves one member, and returns its client.
func serveMember(t *testing.T, m mode, who *member, u *websocket.Upgrader) (*site, *client) {
	t.Helper()
	who.log = make(chan string, 100)
	s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
		req.Defer(func() { who.log <- "deferred" })
		return u.Serve(req, resp, who)
	})
	if who.fail != "" {
		s.Panics.Expect()
	}
	c := upgrade(s)
	who.expect(t, "open")
	return s, c
}

func (m *member) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-m.log:
			if got != w {
				t.Errorf("got %q, want %q", got, w)
			}
		case <-time.After(wait.Patience):
			t.Fatalf("no %q", w)
		}
	}
}

// done checks that nothing else has happened.
func (m *member) done(t *testing.T, s *site) {
	t.Helper()
	m.expect(t, "deferred")
	s.Idle()
	if len(m.log) > 0 {
		t.Errorf("then %q", <-m.log)
	}
}

// TestServe: a connection is idle between what comes, and holds nothing then. What it has
// subscribed to is the connection's.
func TestServe(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		hub := new(pubsub.Hub)
		who := &member{room: hub.Topic("room")}
		s, c := serveMember(t, m, who, new(websocket.Upgrader))
		s.Unworked()
		for range 2 {
			c.Send(frame(0x81, "one") + frame(0x81, "two"))
			c.expect(text("one"), text("two"))
			who.expect(t, "message", "message")
			s.Unworked()
			who.room.Publish([]byte("news"))
			c.expect(text("news"))
			who.expect(t, "item")
			s.Unworked()
		}
		c.Send(frame(0x81, "publish"))
		c.expect(text("from within"))
		who.expect(t, "message", "item")
		c.Send(frame(0x81, "ask"))
		c.expect(text("name?"))
		c.Send(frame(0x89, "p") + frame(0x81, "Ann"))
		c.expect(pong("p"), text("hello Ann"))
		who.expect(t, "message")
		s.Unworked()
		f := frame(0x81, "in pieces")
		for i := range f {
			c.Send(f[i : i+1])
			s.Unworked()
		}
		c.expect(text("in pieces"))
		who.expect(t, "message")
		for range 60 { // its queue holds them
			who.room.Publish([]byte("many"))
		}
		for range 60 {
			c.expect(text("many"))
			who.expect(t, "item")
		}
		c.Send(frame(0x81, "leave"))
		who.expect(t, "message", "no more")
		who.room.Publish([]byte("not for it"))
		c.Send(frame(0x81, "last") + bye)
		c.expect(text("last"))
		c.closed(1000)
		who.expect(t, "message", "closed 1000")
		who.done(t, s)
	}, plain, direct, overTLS, modes.HTTP2, modes.HTTP2TLS)
}

// TestServeEnds: Closed is called once, whatever ends the connection, and then what the request has
// deferred.
func TestServeEnds(t *testing.T) {
	const hangs = "never returns from "
	for name, row := range map[string]struct {
		fail string
		act  func(s *site, c *client, who *member)
		code int // the client gets; 0: it has left
		want []string
	}{
		"leaves in a conversation": {"", func(_ *site, c *client, _ *member) {
			c.Send(frame(0x81, "ask"))
			c.expect(text("name?"))
			c.Close()
		}, 0, []string{"message", "closed 1006"}},
		"leaves while it is written to": {"", func(_ *site, c *client, who *member) {
			c.Send(frame(0x81, "flood"))
			who.expect(t, "message")
			c.Close()
		}, 0, []string{"closed 1006"}},
		"leaves while the loop is held up": {"", func(_ *site, c *client, who *member) {
			c.Send(frame(0x81, "block"))
			who.expect(t, "message")
			c.Close()
		}, 0, []string{"closed 1006"}},
		"leaves at a stop": {"", func(s *site, c *client, _ *member) {
			go s.Stop(time.Minute)
			if f, err := c.next(); err != nil || f.payload != "\x03\xe9" {
				t.Errorf("got %q, %v", f, err)
			}
			c.Close()
		}, 0, []string{"closed 1001"}},
		hangs + "open": {"", func(s *site, _ *client, who *member) {
			who.expect(t, "open hangs")
			go s.Stop(time.Millisecond)
		}, 1001, nil},
		hangs + "closed": {"", func(s *site, c *client, who *member) {
			c.Send(bye)
			who.expect(t, "closed hangs")
			if f, err := c.next(); err != nil || f.payload != "\x03\xe8" {
				t.Errorf("got %q, %v", f, err)
			}
			go s.Stop(time.Millisecond)
		}, 0, nil},
		"says bye": {"", func(_ *site, c *client, _ *member) { c.Send(bye) }, 1000,
			[]string{"closed 1000"}},
		"leaves": {"", func(_ *site, c *client, _ *member) { c.Close() }, 0, []string{"closed 1006"}},
		"resets": {"", func(_ *site, c *client, _ *member) { c.Reset(); c.Close() }, 0,
			[]string{"closed 1006"}},
		"leaves in a message": {"", func(s *site, c *client, _ *member) {
			c.Send(frame(0x81, "abc")[:7])
			s.Settle()
			c.Close()
		}, 0, []string{"closed 1006"}},
		"leaves in Message": {"", func(s *site, c *client, who *member) {
			c.Send(frame(0x81, "sleep"))
			s.Settle()
			c.Close()
		}, 0, []string{"message", "closed 1006"}},
		"leaves in Closed": {"", func(_ *site, c *client, _ *member) { c.Send(bye); c.Close() }, 0,
			[]string{"closed 1000"}},
		"closes": {"", func(_ *site, c *client, _ *member) { c.Send(frame(0x81, "close") + bye) },
			4001, []string{"message", "closed 4001"}},
		"bad frame": {"", func(_ *site, c *client, _ *member) { c.Send(frame(0x83, "")) }, 1002,
			[]string{"closed 1002"}},
		"open panics": {"open", func(*site, *client, *member) {}, 1011, []string{"closed 1011"}},
		"message panics": {"message", func(_ *site, c *client, _ *member) { c.Send(frame(0x81, "x")) },
			1011, []string{"message", "closed 1011"}},
		"item panics": {"item", func(_ *site, _ *client, who *member) { who.room.Publish(nil) }, 1011,
			[]string{"item", "closed 1011"}},
		"closed panics": {"closed 1000", func(_ *site, c *client, _ *member) { c.Send(bye) }, 1000,
			[]string{"closed 1000"}},
		"exits": {"", func(_ *site, c *client, _ *member) { c.Send(frame(0x81, "exit")) }, 1000,
			[]string{"message", "closed 1000"}},
		"stop": {"", func(s *site, _ *client, _ *member) { go s.Stop(time.Minute) }, 1001,
			[]string{"closed 1001"}},
		"killed in Message": {"", func(s *site, c *client, who *member) {
			c.Send(frame(0x81, "sleep"))
			who.expect(t, "message")
			go s.Stop(time.Millisecond)
		}, 1001, nil}, // Closed waits, and does not return
	} {
		t.Run(name, func(t *testing.T) {
			_, hang, _ := strings.Cut(name, hangs)
			if (name == "killed in Message" || hang == "open") && invariants.Enabled {
				t.Skip("a forced EAGAIN takes the last word from a thread that cannot wait")
			}
			modes.Run(t, func(t *testing.T, m mode) {
				who := &member{room: new(pubsub.Hub).Topic("room"), fail: row.fail, hang: hang}
				s, c := serveMember(t, m, who, new(websocket.Upgrader))
				s.Settle()
				row.act(s, c, who)
				if row.code > 0 {
					f, err := c.next()
					if want := string(binary.BigEndian.AppendUint16(nil, uint16(row.code))); err != nil ||
						f.first != 0x88 || !strings.HasPrefix(f.payload, want) {
						t.Errorf("got %q, %v, want a close with %d", f, err, row.code)
					}
					_, _ = io.WriteString(c, bye)
					c.Close()
				}
				who.expect(t, row.want...)
				who.room.Publish([]byte("for one that has just ended"))
				if who.expect(t, "deferred"); row.code != 1001 && hang == "" && name != "leaves at a stop" {
					s.Idle()
				}
				if len(who.log) > 0 {
					t.Errorf("then %q", <-who.log)
				}
			}, direct, overTLS, modes.HTTP2)
		})
	}
}

// TestServeKeepsAlive: idle connections get pings, and end without an answer.
func TestServeKeepsAlive(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		who := new(member)
		s, c := serveMember(t, m, who,
			&websocket.Upgrader{PingInterval: time.Minute, IdleTimeout: 2 * time.Minute})
		for range 3 {
			s.Skip(61 * time.Second)
			c.expect(received{0x89, ""})
			s.Unworked()
			c.Send(frame(0x8a, ""))
			s.Settle()
		}
		s.Skip(61 * time.Second)
		c.expect(received{0x89, ""})
		s.Skip(61 * time.Second)
		_, _ = io.Copy(io.Discard, c.R)
		who.expect(t, "closed 1006")
		who.done(t, s)
	}, direct, overTLS, modes.HTTP2)
}

// TestServeManyStop: thousands of idle connections get 1001 soon, and are told so once.
func TestServeManyStop(t *testing.T) {
	const many = 1000
	closed := make(chan int, many)
	hub := new(pubsub.Hub)
	var u websocket.Upgrader
	s := start(t, direct, func(req *conn.Request, resp *conn.Response) int {
		return u.Serve(req, resp, counter{hub.Topic("all"), closed})
	})
	var all []*client
	for range many {
		all = append(all, upgrade(s))
	}
	s.Unworked()
	began := time.Now()
	stopped := make(chan struct{})
	go func() { s.Stop(2 * wait.Patience); close(stopped) }()
	for _, c := range all {
		c.closed(1001)
	}
	took := time.Since(began)
	<-stopped
	for range many {
		if code := <-closed; code != 1001 {
			t.Fatal(code)
		}
	}
	if took > wait.Patience/4 && !race.Enabled {
		t.Errorf("the stop took %v", took)
	}
}

type counter struct {
	room   *pubsub.Topic
	closed chan int
}

func (m counter) Open(c *websocket.Conn) {
	if m.room != nil {
		c.Subscribe(m.room, pubsub.Options{}, prepared)
	}
}
func (counter) Message(c *websocket.Conn, kind int, p []byte) { _ = c.WriteMessage(kind, p) }
func (m counter) Closed(_ *websocket.Conn, err *websocket.CloseError) {
	if m.closed != nil {
		m.closed <- err.Code
	}
}

var toText = pubsub.Shared(func(data []byte) *websocket.PreparedMessage {
	m, _ := websocket.Prepare(websocket.Text, data)
	return m
})

func prepared(c *websocket.Conn, m *pubsub.Message) {
	if m != nil {
		_ = c.WritePrepared(toText(m))
	}
}

// TestServeHandlerPanics: the handler of the request, behind Serve.
func TestServeHandlerPanics(t *testing.T) {
	who := &member{log: make(chan string, 10)}
	s := start(t, direct, func(req *conn.Request, resp *conn.Response) int {
		_ = new(websocket.Upgrader).Serve(req, resp, who)
		panic("layer")
	})
	s.Panics.Expect()
	c := upgrade(s)
	if f, err := c.next(); err != nil || f.first != 0x88 || f.payload != "\x03\xf3" {
		t.Errorf("got %q, %v", f, err)
	}
	c.Close()
	s.Idle()
	if len(who.log) > 0 {
		t.Error(<-who.log)
	}
}

// BenchmarkServed is BenchmarkEcho under Serve.
func BenchmarkServed(b *testing.B) {
	s := start(b, serving(plain), echo(new(websocket.Upgrader)))
	c := upgrade(s)
	message := []byte(frame(0x82, strings.Repeat("x", 125)))
	answer := make([]byte, 127)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.Write(message)
		must.Get(io.ReadFull(c.R, answer))(b)
	}
}
