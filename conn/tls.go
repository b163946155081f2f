package conn

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// transport is the net.Conn below the connection's tls.Conn: the stream of the exchange that serves
// the connection, or after a hijack the one that the handler owns.
type transport struct {
	net.Conn // nil while the connection is idle
	hijacked bool

	version, cipher uint16 // what was agreed on, for the access log
}

// transport returns the net.Conn below c.tls.
func (c *connection) transport() *transport { return c.tls.NetConn().(*transport) }

// attach puts TLS on the stream of x, whose reads do not wait from now on. exchange.read waits
// instead, after it has sent what the client may be waiting for.
func (t *transport) attach(x *exchange) {
	if !t.hijacked {
		x.stream.SetNoWait(true)
		t.Conn = &x.stream
	}
}

func (t *transport) detach() {
	if !t.hijacked {
		t.Conn = nil
	}
}

// SetWriteDeadline does not change the limits of an exchange: crypto/tls gives its last record five
// seconds, and a slow client may need longer to make room for it.
func (t *transport) SetWriteDeadline(by time.Time) error {
	if !t.hijacked {
		return nil
	}
	return t.Conn.SetWriteDeadline(by)
}

// greeting is the stream of an exchange during the handshake. Its reads wait, because a handshake
// that was interrupted cannot be resumed. They do not hold up a stop: no request is in flight yet.
type greeting struct {
	*stream.Stream
	loop *loop.Loop
	rest []byte // was read behind a header of the PROXY protocol
}

// Read implements net.Conn.
func (g *greeting) Read(p []byte) (int, error) {
	if len(g.rest) > 0 {
		n := copy(p, g.rest)
		g.rest = g.rest[n:]
		return n, nil
	}
	for {
		n, err := g.TryRead(p)
		if err != stream.ErrWouldBlock {
			return n, err
		}
		if g.loop.Stopping() {
			return 0, net.ErrClosed
		}
		if err := g.AwaitInput(); err != nil {
			return 0, err
		}
	}
}

// handshake makes the connection a TLS connection.
func (x *exchange) handshake() error {
	c := x.c
	_ = x.stream.SetReadDeadline(c.Loop().Time().Add(x.set.HeaderTimeout))
	g := &greeting{&x.stream, c.Loop(), x.in[x.r:x.w]}
	x.r, x.w = 0, 0
	t := &transport{Conn: g}
	conn := tls.Server(t, c.port.tls)
	err := conn.Handshake()
	if err == nil && len(g.rest) > 0 {
		// A client waits for the server's answer to its first flight (RFC 8446 section 2; there is
		// no early data here), and that has been read.
		err = errEarly
	}
	if err != nil {
		var plain tls.RecordHeaderError
		if errors.As(err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
			_ = x.wrote(x.stream.Send([]byte(plainRefused), nil, false))
			x.lingeringClose()
		}
		x.set.Logger.Debug("conn: tls handshake failed", "remote", c.remote.addrPort(), "error", err)
		return err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol == challengeProtocol {
		t.attach(x)
		_ = conn.CloseWrite() // the client leaves in any case
		return errChallenge
	}
	slimTLS(conn, 0) // requests are smaller than a ClientHello
	c.tls = conn
	t.version, t.cipher = state.Version, state.CipherSuite
	t.attach(x)
	return nil
}

var errEarly = errors.New("data from before the handshake is left")

// plainRefused is the answer to a request in plain HTTP on a port for TLS.
const plainRefused = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\n" +
	"Connection: close\r\n\r\nThis is an HTTPS port, and the request came in plain HTTP.\n"

func looksLikeHTTP(b [5]byte) bool {
	switch string(b[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}

// challengeProtocol is the protocol by which an authority verifies a name. It is a handshake and
// nothing else, and no request may follow (RFC 8737 section 4): for example, the client has not shown
// the certificate that others must show.
const challengeProtocol = "acme-tls/1"

var errChallenge = errors.New("the handshake was for the proof of a name only")

// closeTLS tells the client that no more will be sent, so that the client can tell an end from a
// cut (RFC 8446 section 6.1).
func (x *exchange) closeTLS() {
	if x.c.tls != nil && x.writeErr == nil {
		_ = x.wrote(0, x.c.tls.CloseWrite())
	}
}

// Farewell is called by the loop before it closes the connection, which is idle. A TLS client is
// told, as closeTLS does it, if its socket has room.
func (c *connection) Farewell() {
	if c.tls == nil || c.transport().hijacked {
		return
	}
	t := c.transport()
	t.Conn = lastWords{fd: c.FD()}
	_ = c.tls.CloseWrite()
	t.Conn = nil
}

// lastWords is a socket that is written to once, without a wait.
type lastWords struct {
	net.Conn // nil
	fd       int
}

// Write implements net.Conn.
func (w lastWords) Write(p []byte) (int, error) {
	n, errno := sysio.Send(w.fd, p, false)
	if errno != 0 {
		return n, errno
	}
	return n, nil
}
