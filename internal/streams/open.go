package streams

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/clienthello"
	"github.com/lwango/lwango/internal/networks"
	"github.com/lwango/lwango/internal/proxyproto"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// buffers are for what comes before the upstream is known, and for bytes that do not come in bulk. A
// connection has one only while it runs.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

const bufferSize = 2 * clienthello.MaxSize

// open reads what the client has to say before its upstream is known, and connects to that. It
// returns why the connection ends, "" if it goes on.
func (c *connection) open(t *loop.Thread) result {
	s, set := &c.client.stream, c.port.service.set
	// A client may end its half at once: it has said all, and waits for the answer.
	t.KeepWaiting(true)
	_ = s.SetReadDeadline(t.Loop().Time().Add(c.began + set.HeaderTimeout - c.now()))
	_ = s.SetWriteDeadline(t.Loop().Time().Add(c.began + set.HeaderTimeout - c.now()))
	buf := buffers.Get().(*[bufferSize]byte)
	defer func() { buffers.Put(buf) }() // also when the thread is killed
	n, over, why := 0, net.Conn(s), result("")
	if c.port.service.trusted != nil {
		if n, why = c.introduce(buf[:]); why != "" {
			return why
		}
	}
	switch {
	case c.port.tls != nil:
		secure := tls.Server(&early{s, slices.Clone(buf[:n])}, c.port.tls)
		n = 0
		if err := secure.Handshake(); err != nil {
			return c.unheard(err, handshakeFailed)
		}
		c.secured(secure.ConnectionState())
		over = secure
	case len(c.port.service.names) > 0:
		if n, why = c.greeting(buf[:], n); why != "" {
			return why
		}
	}
	r := c.port.service.route(c.name)
	if r == nil {
		return noRoute
	}
	_ = s.SetDeadline(time.Time{})
	if set.MaxTime > 0 {
		if c.lease.Limit = c.began + set.MaxTime - c.now(); c.lease.Limit <= 0 {
			return maxTime
		}
	}
	limit := c.lease.Limit
	c.lease = r.group.Lease()
	c.lease.Limit, c.lease.Before = limit, c.header(r)
	if r.Balance == "ip_hash" {
		b, _ := networks.Of(c.remote.Addr()).MarshalBinary()
		c.lease.Key = upstream.AppendHash(0, b)
	}
	to, _, err := c.lease.Connect(t, upstream.Fresh)
	switch {
	case err == nil:
	case upstream.Busy(err):
		c.port.service.log.Debug("stream: no upstream", "client", c.remote, "error", err)
		return upstreamBusy
	default:
		c.port.service.log.Debug("stream: no upstream", "client", c.remote, "error", err)
		return upstreamFailed
	}
	c.lease.Works()
	t.KeepWaiting(false) // its end is an event like others from now on
	c.lease.Before = nil
	c.client.begin(s, over)
	c.up.begin(to, c.lease.Over(to))
	if n > 0 {
		c.client.got = int64(n)
		if _, err := c.up.over.Write(buf[:n]); err != nil {
			c.up.lose()
		}
	}
	return ""
}

// unheard returns what the failure of a read before the upstream is known means.
func (c *connection) unheard(err error, otherwise result) result {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return headerTimeout
	case errors.Is(err, io.EOF), c.Gone():
		return clientLeft
	}
	return otherwise
}

// introduce reads the header of the PROXY protocol, and counts the client that it names. It returns
// how many bytes of buf have come behind the header.
func (c *connection) introduce(buf []byte) (n int, why result) {
	s := &c.client.stream
	var h proxyproto.Header
	size := 0
	for size == 0 {
		k, err := s.Read(buf[n : n+min(len(buf)-n, proxyproto.MaxAddresses)])
		if err != nil {
			return 0, c.unheard(err, clientLeft)
		}
		n += k
		if h, size, err = proxyproto.Parse(buf[:n]); err != nil {
			c.port.service.log.Debug("stream: no PROXY header", "peer", c.remote, "error", err)
			return 0, noHeader
		}
	}
	for n < size { // the fields behind the addresses, which say nothing that an upstream gets
		size -= n
		var err error
		if n, err = s.Read(buf[:min(size, len(buf))]); err != nil {
			return 0, c.unheard(err, clientLeft)
		}
	}
	n = copy(buf, buf[size:n])
	if h.Known {
		c.remote, c.local = h.Source, h.Destination
	}
	if !c.count() {
		c.port.service.refuse(tooManyOfClient, c.remote.Addr())
		return 0, tooManyHeld
	}
	return n, ""
}

// greeting reads on behind n bytes of buf until it is known what name a client of TLS asks for. What
// is no TLS asks for none.
func (c *connection) greeting(buf []byte, n int) (_ int, why result) {
	for {
		name, done, err := clienthello.ServerName(buf[:n])
		switch {
		case done, err == clienthello.ErrNoTLS:
			c.name = name
			return n, ""
		case err != nil:
			c.port.service.log.Debug("stream: no ClientHello", "client", c.remote, "error", err)
			return n, handshakeFailed
		}
		k, err := c.client.stream.Read(buf[n:])
		if n += k; err != nil {
			if err == io.EOF && n > 0 {
				return n, "" // it has said all, and that is no ClientHello
			}
			return n, c.unheard(err, clientLeft)
		}
	}
}

// header returns what goes ahead of the client's bytes.
func (c *connection) header(r *route) []byte {
	local := c.local
	if r.ProxyProtocol != "" && !local.IsValid() {
		if a, ok := c.client.stream.LocalAddr().(*net.TCPAddr); ok {
			local = a.AddrPort()
			local = netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
		}
	}
	switch r.ProxyProtocol {
	case "v1":
		return proxyproto.Append1(nil, c.remote, local)
	case "v2":
		return proxyproto.Append2(nil, c.remote, local)
	}
	return nil
}

// early is a stream whose first bytes were read already.
type early struct {
	*stream.Stream
	rest []byte
}

// Read implements net.Conn.
func (e *early) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		e.rest = nil
		return e.Stream.Read(p)
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}
