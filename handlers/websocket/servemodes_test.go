package websocket_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// both gives each mode the same test, in both styles of what talk describes: with the handler's own
// loop, and under Serve.
func both(t *testing.T, f func(t *testing.T, m mode)) {
	run(t, f)
	modes.Run(t, f, serving(direct), serving(overTLS), serving(modes.HTTP2))
}

// bothAtOnce is both for a test that mostly waits: all modes have it at the same time. It returns
// when they have ended.
func bothAtOnce(t *testing.T, f func(t *testing.T, m mode)) {
	t.Run("at once", func(t *testing.T) {
		both(t, func(t *testing.T, m mode) {
			t.Parallel()
			f(t, m)
		})
	})
}

const underServe = ", served"

func serving(m mode) mode {
	m.Name += underServe
	return m
}

var style conn.Key[bool]

// styled is h as the mode wants it.
func styled(m mode, h conn.Handler) conn.Handler {
	if !strings.HasSuffix(m.Name, underServe) {
		return h
	}
	return func(req *conn.Request, resp *conn.Response) int {
		conn.Set(req, &style, true)
		return h(req, resp)
	}
}

// isServed reports whether the request came to a server of a mode of serving.
func isServed(req *conn.Request) bool {
	_, is := conn.Value(req, &style)
	return is
}

// talk is what a program does with a connection, in either style. Without message, open has all of
// the conversation, and the connection ends with it.
type talk struct {
	open    func(c *websocket.Conn)
	message func(c *websocket.Conn, kind int, p []byte) // is called for each that comes
	room    *pubsub.Topic                               // is followed
	options pubsub.Options
	said    func(c *websocket.Conn, m *pubsub.Message) // is called for what is published there
	ends    chan<- error                               // gets what the connection has ended with
}

// choosing is a handler of conversations that a request chooses.
func choosing(u *websocket.Upgrader, of func(req *conn.Request) talk) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		k := of(req)
		if isServed(req) {
			return u.Serve(req, resp, (*servedTalk)(&k))
		}
		c, err := u.Upgrade(req, resp)
		if err != nil {
			return websocket.Status(err)
		}
		k.have(c)
		return 0
	}
}

// talking is a handler of one conversation.
func talking(u *websocket.Upgrader, k talk) conn.Handler {
	return choosing(u, func(*conn.Request) talk { return k })
}

// having lets f have the connection until it returns.
func having(u *websocket.Upgrader, f func(c *websocket.Conn)) conn.Handler {
	return talking(u, talk{open: f})
}

// echo sends messages back.
func echo(u *websocket.Upgrader) conn.Handler { return ending(u, nil) }

// ending is an echo that notes what each of its connections has ended with.
func ending(u *websocket.Upgrader, ends chan<- error) conn.Handler {
	return talking(u, talk{message: back, ends: ends})
}

func back(c *websocket.Conn, kind int, p []byte) { _ = c.WriteMessage(kind, p) }

// have is the handler's own loop.
func (k *talk) have(c *websocket.Conn) {
	sources := []loop.Source{c}
	var sub *pubsub.Subscription
	if k.room != nil {
		sub = k.room.Subscribe(c.Thread(), k.options)
		sources = append(sources, sub)
	}
	if k.open != nil {
		k.open(c)
	}
	if k.message == nil {
		return
	}
	for {
		i, err := c.AwaitAny(-1, sources...)
		switch {
		case err != nil:
		case i == 1:
			if m := sub.Next(); m != nil {
				k.said(c, m)
			}
		default:
			var kind int
			var p []byte
			if kind, p, err = c.ReadMessage(); err == nil {
				k.message(c, kind, p)
			}
		}
		if err != nil {
			if k.ends != nil {
				k.ends <- err
			}
			return
		}
	}
}

// servedTalk is a talk under Serve.
type servedTalk talk

func (k *servedTalk) Open(c *websocket.Conn) {
	if k.room != nil {
		c.Subscribe(k.room, k.options, func(c *websocket.Conn, m *pubsub.Message) {
			if m != nil {
				k.said(c, m)
			}
		})
	}
	if k.open != nil {
		k.open(c)
	}
	if k.message == nil {
		_ = c.Close(websocket.NormalClosure, "")
	}
}

func (k *servedTalk) Message(c *websocket.Conn, kind int, p []byte) { k.message(c, kind, p) }

func (k *servedTalk) Closed(_ *websocket.Conn, err *websocket.CloseError) {
	if k.ends != nil {
		k.ends <- err
	}
}
