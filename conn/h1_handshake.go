package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/tls/handshake"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// greeting is the stream of a turn during the handshake. Its reads wait, because a handshake
// that was interrupted cannot be resumed. They do not hold up a stop: no request is in flight yet.
type greeting struct {
	*stream.Conn
	turn  *turn
	rest  []byte // was read behind a header of the PROXY protocol
	begun bool   // the client has sent something
}

// Read implements net.Conn.
func (g *greeting) Read(p []byte) (int, error) {
	if len(g.rest) > 0 {
		n := copy(p, g.rest)
		g.rest, g.begun = g.rest[n:], true
		return n, nil
	}
	for {
		n, err := g.TryRead(p)
		if err != stream.ErrWouldBlock {
			g.begun = g.begun || n > 0
			return n, err
		}
		if g.turn.c.Loop().Stopping() {
			return 0, net.ErrClosed
		}
		if err := g.AwaitInput(); err != nil {
			return 0, err
		}
	}
}

// Write implements net.Conn.
func (g *greeting) Write(p []byte) (int, error) {
	if err := g.turn.wrote(g.Send(p, nil, false)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// handshake makes the connection a TLS connection.
func (t *turn) handshake() error {
	c := t.c
	c.agree(c.port.terms.current()) // the configuration that the handshake meets is no older
	until := c.Loop().Time().Add(t.set.HeaderTimeout)
	_ = t.stream.SetReadDeadline(until)
	g := &greeting{Conn: &t.stream, turn: t, rest: t.in[t.r:t.w]}
	t.r, t.w = 0, 0
	below := new(transport)
	conn := tls.Server(below, c.port.TLS)
	ended, err := handshake.Accept(&c.Thread, c.remote.addrPort().Addr(), conn, &below.Conn, g, until)
	if err == nil && len(g.rest) > 0 {
		// A client waits for the server's answer to its first flight (RFC 8446 section 2; there is
		// no early data here), and that has been read.
		err = errEarly
	}
	if err != nil {
		// One that has left before its turn may have begun, too: then its hello is still unread.
		if (g.begun || len(g.rest) > 0 || sysio.Unread(c.FD())) && !c.Loop().Stopping() {
			c.port.noteHandshake(t, err)
		}
		var plain tls.RecordHeaderError
		var panicked *loop.PanicError
		var refused *tls.CertificateVerificationError
		switch {
		case errors.As(err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader):
			_ = t.wrote(t.stream.Send([]byte(plainRefused), nil, false))
		case errors.As(err, &refused):
			// The client was told; but the reason may be this side's: an authority that has expired.
			t.set.Logger.Warn("conn: client certificate refused", "remote", c.remote.addrPort(),
				"subject", refused.UnverifiedCertificates[0].Subject.String(), "error", refused.Err)
		case errors.As(err, &panicked):
			c.port.server.panics.Add(1)
			t.set.Logger.Error("conn: panic in a tls handshake", "remote", c.remote.addrPort(),
				"panic", panicked.Value, "stack", string(panicked.Stack))
		case ended && ofCallback(err):
			t.set.Logger.Warn("conn: a function of the tls.Config has refused a handshake",
				"remote", c.remote.addrPort(), "error", err)
		}
		if ended {
			t.lingeringClose() // a client that is refused may be sending its request already
		}
		t.set.Logger.Debug("conn: tls handshake failed", "remote", c.remote.addrPort(), "error", err)
		return err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol == handshake.ChallengeProtocol {
		below.attach(&t.stream)
		_ = conn.CloseWrite() // the client leaves in any case
		return errChallenge
	}
	slimTLS(conn, 0) // requests are smaller than a ClientHello
	c.tls = conn
	below.version, below.cipher = state.Version, state.CipherSuite
	if below.http2 = state.NegotiatedProtocol == "h2"; below.http2 {
		below.sni = state.ServerName
	}
	below.attach(&t.stream)
	return nil
}

// noteHandshake counts a handshake that has failed, and logs now and then how many have. A client
// that only looks whether the port is open, or keeps a connection for later, has begun none.
func (p *port) noteHandshake(t *turn, err error) {
	p.stats.FailedHandshakes++
	s := p.server
	s.failedHandshakes.Add(1)
	if s.handshakeNote.now(p.loop) {
		t.set.Logger.Info("conn: tls handshakes failed", "failed", s.failedHandshakes.Swap(0),
			"listener", p.Name, "last", t.c.remote.addrPort(), "error", err)
	}
}

// ofCallback reports whether err, with which a handshake has ended, comes from a function of the
// tls.Config, such as GetCertificate. crypto/tls passes these on as they are; its own errors speak
// of tls, and input and output are the thread's.
func ofCallback(err error) bool {
	return !strings.Contains(err.Error(), "tls: ") && !errors.Is(err, net.ErrClosed) &&
		!errors.Is(err, context.Canceled) && err != errEarly
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

var errChallenge = errors.New("the handshake was for the proof of a name only")

// closeTLS tells the client that no more will be sent, so that the client can tell an end from a
// cut (RFC 8446 section 6.1).
func (t *turn) closeTLS() {
	if t.c.tls != nil && t.writeErr == nil {
		_ = t.wrote(0, t.c.tls.CloseWrite())
	}
}
