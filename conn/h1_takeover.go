package conn

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
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
	over := c.over(s)
	h := &handed{connection: c, link: s}
	if client := x.req.RemoteAddr(); client != c.remote.addrPort() {
		h.client = new(peer)
		*h.client = peerOf(client)
	}
	c.port.stats.Hijacked++
	r := t.giveUp(over)
	h.of(x, true)
	loop.SetTask(&c.Thread, h)
	loop.SetLocal(&c.Thread, nil)
	x.req.compact()
	x.via = takenOver
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
	c = t.c.over(t.x.req.behind(c))
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

// streams are those of connections that a LightKeeper keeps, while they are attached.
var streams = sync.Pool{New: func() any { return new(stream.Conn) }}

// handed is a connection of HTTP/1.1 that a handler has taken over, and its thread's task from then
// on: while the handler runs, and while a keeper has it.
type handed struct {
	*connection
	takeover
	link   *stream.Conn // what the handler has got, or its TLS is on; nil: nothing is attached
	client *peer        // as proxies have it; nil: it is the connection's
}

// release ends the connection.
func (h *handed) release() {
	if h.line != nil {
		h.line.write(&h.takeover)
	}
	h.port.stats.Hijacked--
	if h.cancel != nil {
		h.cancel(nil)
	}
	switch {
	case h.link == nil:
	case h.tls != nil:
		_ = h.tls.Close() // does not return if the thread is killed, and TLS has no room for its goodbye
	default:
		_ = h.link.Close()
	}
}

// begin leaves the connection to the keeper, and runs h.
func (h *handed) begin(t *loop.Thread) coro.Code {
	h.kept = true
	loop.UnmarkIdle(t)
	return h.Run(t)
}

// leave ends the connection, unless the keeper has it: the handler has returned, has called Goexit,
// or was killed.
func (h *handed) leave(t *loop.Thread) {
	if !h.kept {
		defer h.release()
		h.conclude(t) // if there is a keeper, its handler has not returned
	}
	t.RunDeferred(0)
}

// ClientGone is called by the loop when the client sends no more. It cancels the request's context.
func (h *handed) ClientGone() { h.clientLeft() }

// Describe says what the connection's thread does, for a dump of threads.
func (h *handed) Describe() string {
	return fmt.Sprintf("client %s, hijacked by request %s, route %q",
		h.remote.addrPort(), h.id(), h.route())
}

// Run implements loop.Task.
func (h *handed) Run(t *loop.Thread) coro.Code {
	ended := true
	defer func() { // also when the thread is killed
		if ended {
			h.release()
		}
	}()
	h.attach()
	idle, more, again := h.run(t)
	if !more || t.FD() < 0 { // the keeper has closed it
		h.conclude(t)
		return coro.Abort
	}
	ended = false
	h.detach()
	if h.tls != nil {
		slimTLS(h.tls, 0)
	}
	if again {
		return coro.Yield
	}
	loop.WakeOnNotify(t)
	loop.IdleTimeout(t, idle)
	return coro.WantRead
}

// Notified implements loop.NotifyHandler.
func (h *handed) Notified(d *loop.Descriptor) bool {
	k, ok := h.keeper.(NotifyKeeper)
	return ok && h.tls == nil && h.link == nil && k.Notified(d)
}

// attach gives a LightKeeper its connection, unless it has it.
func (h *handed) attach() {
	k, ok := h.keeper.(LightKeeper)
	if !ok || h.link != nil {
		return
	}
	s, client := streams.Get().(*stream.Conn), h.remote
	if h.client != nil {
		client = *h.client
	}
	s.Own(&h.Thread, client.addrPort())
	s.SetNoWait(true)
	h.link = s
	k.Attach(h.over(s))
}

// detach takes it back.
func (h *handed) detach() {
	k, ok := h.keeper.(LightKeeper)
	if !ok {
		return
	}
	k.Detach()
	if h.tls != nil {
		h.transport().Conn = nil
	}
	*h.link = stream.Conn{}
	streams.Put(h.link)
	h.link = nil
}

// BeforeEnd is called by the loop before it ends the thread, which is idle: a stop kills it.
func (h *handed) BeforeEnd() {
	loop.RunBeforeEnd(&h.Thread, func() {
		defer h.release()
		h.attach()
		h.conclude(&h.Thread)
	})
}
