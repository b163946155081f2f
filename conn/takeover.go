package conn

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// hijackedBuffer is the size of the Reader that comes with a hijacked connection. Package
// gorilla/websocket uses the Reader itself if it is larger than 256 bytes.
const hijackedBuffer = 4 << 10

// Hijack hands the connection over to the handler. The handler may then speak another protocol on
// it, after a 101 that it writes itself, for example. c is a *stream.Conn, or with TLS a
// *tls.Conn over one; see HijackedOf. Its RemoteAddr is the client's, as Request.RemoteAddr has it.
// The handler reads c through r, which holds what the client has sent already. From now on only the
// handler limits the connection. c belongs to the request's thread, and is closed when the handler
// returns.
//
// With HTTP/2, a handler can take over the stream of a request that opens a WebSocket, and no
// other. c is then that stream, without a descriptor. What the handler writes first is the head of
// an answer of HTTP/1.1, as over HTTP/1.1; the client gets its fields and, for 101, 200.
//
// What layers and the configuration add to the header of an answer (answer_headers, [headers]) is
// in Header behind Hijack: a handler that writes a 101 writes those fields, too.
//
// After Hijack, Response and Body are of no use but for Header. The access log gets the request's
// line when the connection ends. Hijack gives up the buffers, and the rest of the request as soon
// as the handler does not use it any more.
func (w *Response) Hijack() (c net.Conn, r *bufio.Reader, err error) {
	if err := w.flushForTakeover(); err != nil {
		return nil, nil, err
	}
	return w.via.hijack()
}

// Takeover is the request whose handler has taken over its connection, for the protocol that is
// spoken there. It belongs to the request's thread. Without such a request its methods do nothing.
type Takeover struct{ of *takeover }

// TakeoverOf returns the Takeover of a request's thread.
func TakeoverOf(t *loop.Thread) Takeover { return Takeover{takeoverOf(t)} }

// SetCloseCode notes, for the access log, the code with which a WebSocket has ended.
func (o Takeover) SetCloseCode(code int) {
	if o.of != nil {
		o.of.closeCode = int32(code)
	}
}

// SetMoved notes, for the access log, how many bytes a tunnel has sent to the client and got from
// it.
func (o Takeover) SetMoved(sent, got int64) {
	if o.of != nil {
		o.of.extra().sent, o.of.extra().got = sent, got
	}
}

// RequestID returns the ID of the request.
func (o Takeover) RequestID() string {
	if o.of != nil {
		return o.of.id()
	}
	return ""
}

// Panicked reports whether the handler has panicked after Hijack. It is for a function that the
// handler has deferred with Request.Defer: if the protocol has a way to tell the peer, the function
// can do so.
func (o Takeover) Panicked() bool { return o.of != nil && o.of.panicked }

// detach is Hijack for a connection that other goroutines will use.
func (w *Response) detach() (net.Conn, *bufio.Reader, error) {
	if err := w.flushForTakeover(); err != nil {
		return nil, nil, err
	}
	return w.via.detach()
}

var errNoConnection = fmt.Errorf("conn: a handler that is asked has no connection: %w",
	http.ErrNotSupported)

// withClientAddr returns c with the client's address as the remote one, if proxies have said who
// the client is. What c can do besides stays, such as CloseWrite and sending files.
func (r *Request) withClientAddr(c net.Conn) net.Conn {
	w := r.x.c.proxyHeader()
	if client := r.RemoteAddr(); client.IsValid() && (r.client.IsValid() || w != nil && w.known) {
		switch c := c.(type) {
		case *net.TCPConn:
			return forwardedTCP{c, client}
		case *net.UnixConn:
			return forwardedUNIX{c, client}
		}
	}
	return c
}

// forwardedTCP is a connection with a proxy.
type forwardedTCP struct {
	*net.TCPConn
	client netip.AddrPort
}

// RemoteAddr implements net.Conn.
func (c forwardedTCP) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.client) }

// forwardedUNIX is a connection with a proxy on the same machine.
type forwardedUNIX struct {
	*net.UnixConn
	client netip.AddrPort
}

// RemoteAddr implements net.Conn.
func (c forwardedUNIX) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.client) }

// flushForTakeover sends what must go out before the connection changes hands: the answers to
// earlier requests, and the head of this answer if the handler has decided it. That head then has
// the handler's Connection field, and no framing.
func (w *Response) flushForTakeover() error {
	w.live()
	x := w.x
	switch {
	case refusals[w.phase] != nil:
		return refusals[w.phase]
	case x.subrequest != nil:
		return errNoConnection
	case w.phase == streamed || w.kind == gathered && len(w.buf) > 0:
		if err := w.Flush(); err != nil {
			return err
		}
	case w.header.firstBad() != nil:
		return ErrBadField
	case w.manner != native && w.early != 0:
		w.runHooks(w.early, nil)
		w.decide(w.early, nil)
		w.phase, w.status = streamed, w.early
		x.via.upgrade(&w.plan)
	default:
		w.prepareSwitching()
	}
	x.finishDuplex()
	return x.via.flush()
}

// prepareSwitching makes the header that of a 101 that the handler writes itself.
func (w *Response) prepareSwitching() {
	w.runHooks(cmp.Or(w.early, http.StatusSwitchingProtocols), nil)
	for _, f := range w.x.set.Headers {
		if !has(w.header.fields, f.Name) && f.sendable() {
			w.header.Add(f.Name, f.Value)
		}
	}
}

// hijacked ends the use of body and response.
func (x *exchange) hijacked() {
	x.req.body.over(http.ErrHijacked)
	w := &x.resp
	if a := w.tap; a != nil {
		w.tap = nil
		a.over(errNoConnection)
	}
	w.discard()
	w.phase = hijacked
	if w.status == 0 {
		w.status = http.StatusSwitchingProtocols
	}
	x.count(w.status)
}

// netConn returns the connection netConn below, which belongs to a handler from now on: below
// itself, or the tls.Conn on it.
func (c *connection) netConn(below net.Conn) net.Conn {
	if c.tls == nil {
		return below
	}
	t := c.transport()
	t.Conn, t.hijacked = below, true
	return c.tls
}

// HijackedConn is a connection that a handler has taken over, below the TLS that may be on it: a
// *stream.Conn, or over HTTP/2 the stream of the request. The methods do for both what those of
// stream.Conn say.
type HijackedConn interface {
	net.Conn
	Loop() *loop.Loop
	CloseWrite() error
	SetNoWait(on bool)
	Unread() bool
	Readable() loop.Source
	Writable() loop.Source
	AwaitRead(d time.Duration) error
	TryWrite(p []byte) (int, error)
	ResetOnClose()
	Progress() int64
	SpendOn(n int)
}

var _ HijackedConn = (*stream.Conn)(nil)

// HijackedOf returns what is below the TLS, if any, of a connection that Hijack has returned; nil
// for others.
func HijackedOf(c net.Conn) HijackedConn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if t, ok := c.(*transport); ok {
		c = t.Conn
	}
	h, _ := c.(HijackedConn)
	return h
}
