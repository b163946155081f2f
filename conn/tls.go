package conn

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/lwango/lwango/stream"
)

// socket is the connection as crypto/tls sees it. Reads do not wait, except during the handshake, which cannot be
// interrupted and taken up again; writes wait until all is written or, in a Duplex, held. Deadlines are the exchange's
// business.
type socket struct {
	to        net.Conn // that everything goes to once the connection was hijacked
	c         *connection
	handshake bool
	deadline  time.Time // of the handshake
}

// handshake makes the connection a TLS one.
func (x *exchange) handshake() error {
	c := x.c
	s := &socket{c: c, handshake: true, deadline: c.Loop().Time().Add(x.set.HeaderTimeout)}
	conn := tls.Server(s, c.port.tls)
	if err := conn.Handshake(); err != nil {
		var plain tls.RecordHeaderError
		if errors.As(err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
			_ = x.writeSocket([]byte("HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nThis is an HTTPS port, and the request came in plain HTTP.\n"), nil, false)
			x.lingeringClose()
		}
		x.set.Logger.Debug("tls handshake", "remote", c.remote.addrPort(), "error", err)
		return err
	}
	s.handshake = false
	c.tls = conn
	return nil
}

func looksLikeHTTP(b [5]byte) bool {
	switch string(b[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}

// closeTLS says that no more will be sent, which keeps a cut apart from an end (RFC 8446 section 6.1).
func (x *exchange) closeTLS() {
	if x.c.tls != nil && x.writeErr == nil {
		_ = x.c.tls.CloseWrite()
	}
}

func (s *socket) Read(p []byte) (int, error) {
	if s.to != nil {
		return s.to.Read(p)
	}
	x := s.c.x
	for {
		n, err := x.tryReadSocket(p)
		if err != stream.ErrWouldBlock || !s.handshake {
			return n, err
		}
		left := s.deadline.Sub(s.c.Loop().Time())
		switch {
		case left <= 0:
			return 0, os.ErrDeadlineExceeded
		case s.c.Loop().Stopping(): // no request is in flight yet
			return 0, net.ErrClosed
		}
		err = s.c.WantRead(left)
		if err != nil {
			return 0, err
		}
	}
}

func (s *socket) Write(p []byte) (int, error) {
	if s.to != nil {
		return s.to.Write(p)
	}
	if err := s.c.x.writeSocket(p, nil, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close leaves it to the loop to close what is the exchange's.
func (s *socket) Close() error {
	if s.to != nil {
		return s.to.Close()
	}
	return nil
}

func (s *socket) LocalAddr() net.Addr {
	if s.to != nil {
		return s.to.LocalAddr()
	}
	return net.TCPAddrFromAddrPort(netip.AddrPort{})
}

func (s *socket) RemoteAddr() net.Addr {
	if s.to != nil {
		return s.to.RemoteAddr()
	}
	return net.TCPAddrFromAddrPort(s.c.remote.addrPort())
}

func (s *socket) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

func (s *socket) SetReadDeadline(t time.Time) error {
	if s.to != nil {
		return s.to.SetReadDeadline(t)
	}
	return nil
}

func (s *socket) SetWriteDeadline(t time.Time) error {
	if s.to != nil {
		return s.to.SetWriteDeadline(t)
	}
	return nil
}
