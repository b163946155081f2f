package conn

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// hijack implements carrier. Nothing holds the turn any more, nor does the exchange, which is the
// handler's as long as the handler wants it: there may be thousands of such connections for hours.
func (t *turn) hijack() (net.Conn, *bufio.Reader, error) {
	c, x := t.c, t.x
	s := new(stream.Conn) // a part of the turn would hold all of it
	s.Own(&c.Thread, x.req.RemoteAddr())
	over := c.netConn(s)
	h := &h1Hijacked{connection: c, conn: s}
	if client := x.req.RemoteAddr(); client != c.remote.addrPort() {
		h.client = new(peer)
		*h.client = peerOf(client)
	}
	c.port.stats.Hijacked++
	r := t.giveUp(over)
	setOwner(x, h, true)
	c.Thread.Layer().SetLocal(nil)
	x.req.compact()
	x.carry(takenOver)
	c.turn = nil
	*t = turn{}
	return over, r, nil
}

// detach implements carrier.
func (t *turn) detach() (net.Conn, *bufio.Reader, error) {
	c, err := t.stream.Detach()
	if err != nil {
		_ = t.fail(err)
		return nil, nil, err
	}
	c = t.c.netConn(t.x.req.withClientAddr(c))
	return c, t.giveUp(c), nil
}

// giveUp makes turn and exchange stop using a connection that belongs to c now, and returns the
// Reader for c.
func (t *turn) giveUp(c net.Conn) *bufio.Reader {
	x := t.x
	rest := bytes.Clone(t.in[t.r:t.w])
	t.r = t.w
	_ = t.fail(http.ErrHijacked)
	x.hijacked()
	if len(rest) == 0 {
		return bufio.NewReaderSize(c, hijackedBuffer)
	}
	r := bufio.NewReaderSize(
		io.MultiReader(bytes.NewReader(rest), c), max(len(rest), hijackedBuffer))
	_, _ = r.Peek(len(rest)) // users of r ask r.Buffered
	return r
}

// streams are those of connections that a lightKeeper keeps, while they are attached.
var streams = sync.Pool{New: func() any { return new(stream.Conn) }}

// h1Hijacked is a connection of HTTP/1.1 that a handler has taken over.
type h1Hijacked struct {
	*connection
	takeover
	conn   *stream.Conn // what the handler has got, or its TLS is on; nil: nothing is attached
	client *peer        // as proxies have it; nil: it is the connection's
}

// Run implements loop.Task.
func (h *h1Hijacked) Run(t *loop.Thread) coro.Code { return runKeeper(h, t) }

// BeforeEnd is an optional method of a loop.Task.
func (h *h1Hijacked) BeforeEnd() { endKeeper(h, &h.Thread) }

// ClientGone implements loop.Task.
func (h *h1Hijacked) ClientGone() { h.clientLeft() }

// Client is an optional method of a loop.Task.
func (h *h1Hijacked) Client() netip.Addr { return clientOf(h) }

// Describe says what the connection's thread does, for a dump of threads.
func (h *h1Hijacked) Describe() string { return describe(h, "hijacked") }

func (h *h1Hijacked) failed(what string, args ...any) { logFailed(h, what, args) }

// exchange implements record: the handler may use its request, but nothing else does.
func (h *h1Hijacked) exchange() *exchange { return nil }

// peer implements owner.
func (h *h1Hijacked) peer() peer {
	if h.client != nil {
		return *h.client
	}
	return h.remote
}

// giveUp implements owner. Hijack has given up the request.
func (h *h1Hijacked) giveUp(t *loop.Thread) { t.Layer().UnmarkIdle() }

// attach implements owner. It gives a lightKeeper its connection, unless it has it.
func (h *h1Hijacked) attach() {
	k, ok := h.keeper.(lightKeeper)
	if !ok || h.conn != nil {
		return
	}
	s := streams.Get().(*stream.Conn)
	s.Own(&h.Thread, h.peer().addrPort())
	s.SetNoWait(true)
	h.conn = s
	k.Attach(h.netConn(s))
}

// begin implements owner.
func (h *h1Hijacked) begin(*loop.Thread) {}

// lasts implements owner. The keeper may have closed the connection.
func (h *h1Hijacked) lasts(t *loop.Thread) bool { return t.FD() >= 0 }

// rest implements owner. It takes its connection from a lightKeeper.
func (h *h1Hijacked) rest(*loop.Thread) coro.Code {
	if k, ok := h.keeper.(lightKeeper); ok {
		k.Detach()
		if h.tls != nil {
			h.transport().Conn = nil
		}
		*h.conn = stream.Conn{}
		streams.Put(h.conn)
		h.conn = nil
	}
	if h.tls != nil {
		slimTLS(h.tls, 0)
	}
	return coro.WantRead
}

// complete implements owner.
func (h *h1Hijacked) complete(*loop.Thread) coro.Code { return coro.Abort }

// release implements owner. It closes the connection.
func (h *h1Hijacked) release(*loop.Thread) {
	if h.line != nil {
		h.line.write(&h.takeover)
	}
	h.port.stats.Hijacked--
	if h.cancel != nil {
		h.cancel(nil)
	}
	switch {
	case h.conn == nil:
	case h.tls != nil:
		_ = h.tls.Close() // does not return if the thread is killed, and TLS has no room for its goodbye
	default:
		_ = h.conn.Close()
	}
}

// Notified is an optional method of a loop.Task.
func (h *h1Hijacked) Notified(d *loop.Descriptor) bool {
	k, ok := h.keeper.(notifyKeeper)
	return ok && h.tls == nil && h.conn == nil && k.Notified(d)
}
