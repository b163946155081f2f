package conn

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"
)

// socket is the connection as crypto/tls sees it. Reads do not wait, except during the handshake, which cannot be
// interrupted and taken up again; writes wait until all is written. Deadlines are the exchange's business.
type socket struct {
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
		x.set.Logger.Debug("tls handshake", "remote", c.remote, "error", err)
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
	x := s.c.x
	for {
		n, err := x.tryReadSocket(p)
		if err != errWouldBlock || !s.handshake {
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
	if err := s.c.x.writeSocket(p, nil, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *socket) Close() error                     { return nil } // the loop closes
func (s *socket) LocalAddr() net.Addr              { return net.TCPAddrFromAddrPort(netip.AddrPort{}) }
func (s *socket) RemoteAddr() net.Addr             { return net.TCPAddrFromAddrPort(s.c.remote) }
func (s *socket) SetDeadline(time.Time) error      { return nil }
func (s *socket) SetReadDeadline(time.Time) error  { return nil }
func (s *socket) SetWriteDeadline(time.Time) error { return nil }
