package conn

import (
	"errors"
	"os"
	"time"

	"github.com/lwango/lwango/internal/wire/proxyproto"
	"github.com/lwango/lwango/stream"
)

// readProxyHeader reads the header of the PROXY protocol, and counts the client that it names. The
// error stream.ErrWouldBlock means that nothing has arrived yet. After any other error, and if the
// client is refused because it has too many connections, the connection must end. What has arrived
// behind the header is left in the buffer.
func (t *turn) readProxyHeader() error {
	c := t.c
	h, fields, err := t.receiveProxyHeader()
	if err != nil {
		if err != stream.ErrWouldBlock {
			c.port.server.noteHeader(t, err)
		}
		return err
	}
	c.state |= named
	if h.Known {
		w := c.proxyHeader()
		w.known, w.local = true, peerOf(h.Destination)
		c.remote = peerOf(h.Source)
	}
	if fields.SSL || !fields.HasSSL && h.Destination.Port() == httpsPort {
		c.state |= secured
	}
	return c.port.server.admission.recount(c, t.set)
}

// receiveProxyHeader reads the header. Its beginning must come within header_timeout, as that of a
// request on a new connection, and then the rest within the same time again.
func (t *turn) receiveProxyHeader() (h proxyproto.Header, fields proxyproto.TLVs, err error) {
	timed := false
	fill := func(begun bool) error {
		if begun && !timed {
			timed = true
			_ = t.stream.SetReadDeadline(t.c.Loop().Time().Add(t.set.HeaderTimeout))
		}
		return t.fill(begun)
	}
	size := 0
	for size == 0 {
		if t.r < t.w {
			if h, size, err = proxyproto.Parse(t.in[t.r:t.w]); err != nil {
				return h, fields, err
			}
		}
		if size == 0 {
			if err := fill(t.r < t.w); err != nil {
				return h, fields, err
			}
		}
	}
	// The rest, up to 64 KiB, comes in pieces. The addresses are all there.
	t.r, size = t.r+h.Fields, size-h.Fields
	for {
		n := min(size, t.w-t.r)
		if h.Fields > 0 {
			fields.Read(t.in[t.r : t.r+n])
		}
		if t.r += n; n == size {
			break
		}
		size -= n
		t.r, t.w = 0, 0
		if err := fill(true); err != nil {
			return h, fields, err
		}
	}
	_ = t.stream.SetReadDeadline(time.Time{})
	return h, fields, nil
}

// noteHeader logs why a trusted proxy's connection ends at its header. A proxy that only looks
// whether the port is open sends none, which is no fault.
func (s *Server) noteHeader(t *turn, err error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errHeaderTooSlow
	default:
		if _, ok := err.(proxyproto.Error); !ok {
			return // the peer has left
		}
	}
	s.refuse(refusedHeader)
	if s.headerNote.now(t.c.Loop()) {
		t.set.Logger.Warn("conn: connection closed, expected a header of the PROXY protocol",
			"peer", t.c.remote.addrPort(), "error", err)
	}
}

var errHeaderTooSlow = errors.New("not complete within header_timeout")

// httpsPort is where a client does not speak http. A proxy whose header does not tell of TLS has
// ended it if the client has connected to this port, and the connection is plain.
const httpsPort = 443
