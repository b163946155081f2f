package tcpproxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/tls/handshake"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/clienthello"
	"github.com/lwango/lwango/internal/wire/proxyproto"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// heads are buffers for bytes before the upstream is known: a header of the PROXY protocol, a
// ClientHello. A connection has one only while it reads these.
var heads = sync.Pool{New: func() any { return new([headSize]byte) }}

const headSize = 4 << 10 // larger ones are rare, and get a buffer of their own

// open reads what the choice of the upstream needs, and connects to the upstream. It returns why
// the connection ends, "" if it goes on.
func (c *connection) open(t *loop.Thread) result {
	s, set := &c.client, c.port.service.set
	// A client may close its sending half at once, and wait for the answer.
	t.KeepWaiting(true)
	until := t.Loop().Time().Add(c.tunnel.Began + set.HeaderTimeout - c.now())
	_ = s.SetDeadline(until)
	first, why := c.readFirst()
	if why != "" {
		return why
	}
	over := net.Conn(s)
	if c.port.tls != nil {
		if over, why = c.secure(t, first, until); why != "" {
			return why
		}
		first = nil
	}
	r := c.port.service.route(c.name)
	if r == nil {
		return noRoute
	}
	_ = s.SetDeadline(time.Time{})
	to, why := c.connect(t, r)
	if why != "" {
		return why
	}
	c.up = to
	c.tunnel.Client.Begin(s, over)
	c.tunnel.Up.Begin(to, c.lease.Transport(to))
	c.tunnel.Client.Got = int64(len(first))
	c.tunnel.Up.Write(first)
	return ""
}

// readFirst reads a header of the PROXY protocol and, if TLS is not ended here, the name that the
// client asks for. It returns the bytes that it has read for the upstream, or of TLS.
func (c *connection) readFirst() (first []byte, why result) {
	trusted, byName := c.port.service.trusted != nil, c.port.tls == nil && c.port.service.byName
	if !trusted && !byName {
		return nil, ""
	}
	head := heads.Get().(*[headSize]byte)
	defer heads.Put(head) // also when the thread is killed
	buf := head[:]
	n := 0
	if trusted {
		if n, why = c.readProxyHeader(buf); why != "" {
			return nil, why
		}
	}
	if byName {
		if buf, n, why = c.readClientHello(buf, n); why != "" {
			return nil, why
		}
	}
	return bytes.Clone(buf[:n]), ""
}

// secure ends the client's TLS, whose first bytes were read already. It returns the connection over
// TLS.
func (c *connection) secure(t *loop.Thread, first []byte,
	until time.Time) (over net.Conn, why result) {
	below := new(struct{ net.Conn })
	secure, input := tls.Server(below, c.port.tls), &prefixedConn{&c.client, first}
	ended, err := handshake.Accept(t, c.remote.Addr(), secure, &below.Conn, input, until)
	switch panicked := (*loop.PanicError)(nil); {
	case errors.As(err, &panicked):
		c.port.service.log.Error("stream: panic in a tls handshake", "client", c.remote,
			"panic", panicked.Value, "stack", string(panicked.Stack))
		return nil, handshakeFailed
	case err != nil:
		c.port.service.log.Debug("stream: tls handshake failed", "client", c.remote, "error", err)
		if ended { // otherwise ConnectionState may wait for the handshake's lock
			c.name = strings.ToLower(secure.ConnectionState().ServerName)
		}
		return nil, c.readFailed(err, handshakeFailed)
	case len(input.unread) > 0: // the client's first flight was read, and it waits for the answer
		return nil, handshakeFailed
	}
	below.Conn = &c.client
	state := secure.ConnectionState()
	c.noteTLS(state)
	if state.NegotiatedProtocol == handshake.ChallengeProtocol {
		_ = secure.CloseWrite() // the client leaves in any case
		return nil, challengeAnswered
	}
	return secure, ""
}

// connect connects to an upstream of the route.
func (c *connection) connect(t *loop.Thread, r *route) (to *stream.Conn, why result) {
	set := c.port.service.set
	c.lease = r.group.Lease()
	if set.MaxTime > 0 {
		left := c.tunnel.Began + set.MaxTime - c.now()
		if left <= 0 {
			return nil, maxTime
		}
		c.lease.Until = t.Loop().Time().Add(left)
	}
	c.lease.Preface = c.header(r)
	c.lease.Key = r.keyOf(c.remote.Addr(), c.name)
	t.KeepWaiting(!t.Layer().HungUp()) // see ClientGone
	to, _, err := c.lease.Connect(t, upstream.Fresh)
	if err == nil {
		c.lease.NoteSuccess()
		c.lease.GotFirstByte() // for {connect}
		c.lease.Preface = nil
		t.KeepWaiting(false) // from now on, its end is an event like others
		return to, ""
	}
	switch {
	case errors.Is(err, loop.ErrClientGone), errors.Is(err, loop.ErrCanceled):
		return nil, clientLeft
	case set.MaxTime > 0 && c.now() >= c.tunnel.Began+set.MaxTime:
		return nil, maxTime
	case upstream.Busy(err):
		why = upstreamBusy
	default:
		why = upstreamFailed
	}
	args := []any{"client", c.remote, "error", err}
	if c.lease.HasSlot() {
		args = append(args, "upstream", c.lease.Name())
	}
	c.port.service.log.Error("stream: no upstream", args...)
	return nil, why
}

// readFailed returns the result of a failed read before the upstream is known.
func (c *connection) readFailed(err error, otherwise result) result {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return headerTimeout
	case errors.Is(err, io.EOF), c.Gone():
		return clientLeft
	}
	return otherwise
}

// readProxyHeader reads the header of the PROXY protocol, and counts the client that it names. It
// returns how many bytes of buf follow the header.
func (c *connection) readProxyHeader(buf []byte) (n int, why result) {
	s := &c.client
	var h proxyproto.Header
	size := 0
	for size == 0 {
		k, err := s.Read(buf[n : n+min(len(buf)-n, proxyproto.MaxAddresses)])
		if err != nil {
			return 0, c.readFailed(err, clientLeft)
		}
		n += k
		if h, size, err = proxyproto.Parse(buf[:n]); err != nil {
			c.port.service.log.Debug("stream: no PROXY header", "peer", c.remote, "error", err)
			return 0, noHeader
		}
	}
	for n < size { // the fields after the addresses, which no upstream gets
		size -= n
		var err error
		if n, err = s.Read(buf[:min(size, len(buf))]); err != nil {
			return 0, c.readFailed(err, clientLeft)
		}
	}
	n = copy(buf, buf[size:n])
	if h.Known {
		c.remote, c.local = h.Source, h.Destination
	}
	if !c.port.service.admits(c.remote.Addr()) {
		c.port.service.refuse(denied, c.remote.Addr())
		return 0, clientDenied
	}
	if !c.count() {
		c.port.service.refuse(tooManyOfClient, c.remote.Addr())
		return 0, tooManyConnections
	}
	return n, ""
}

// readClientHello reads on after n bytes of buf until it has the name that a client of TLS asks
// for. Bytes that are no TLS ask for none. It returns a larger buffer if it needs one.
func (c *connection) readClientHello(buf []byte, n int) (_ []byte, _ int, why result) {
	for {
		name, done, err := clienthello.ServerName(buf[:n])
		switch {
		case done, err == clienthello.ErrNoTLS:
			c.name = name
			return buf, n, ""
		case err != nil:
			c.port.service.log.Debug("stream: no ClientHello", "client", c.remote, "error", err)
			return buf, n, handshakeFailed
		}
		if n == len(buf) { // ServerName refuses more than its MaxSize
			buf = append(buf, make([]byte, len(buf))...)
		}
		k, err := c.client.Read(buf[n:])
		if n += k; err != nil {
			if err == io.EOF && n > 0 {
				return buf, n, "" // the client has ended, without a ClientHello
			}
			return buf, n, c.readFailed(err, clientLeft)
		}
	}
}

// header returns the header of the PROXY protocol for the upstream, if any.
func (c *connection) header(r *route) []byte {
	local := c.local
	if r.ProxyProtocol != "" && !local.IsValid() {
		if a, ok := c.client.LocalAddr().(*net.TCPAddr); ok {
			local = a.AddrPort()
			local = netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
		}
	}
	return proxyproto.Append(nil, r.ProxyProtocol, c.remote, local)
}

// prefixedConn is a stream whose first bytes were read already.
type prefixedConn struct {
	*stream.Conn
	unread []byte
}

// Read implements net.Conn.
func (e *prefixedConn) Read(p []byte) (int, error) {
	if len(e.unread) == 0 {
		e.unread = nil
		return e.Conn.Read(p)
	}
	n := copy(p, e.unread)
	e.unread = e.unread[n:]
	return n, nil
}
