package stream

import (
	"crypto/tls"
	"net"
	"time"

	"github.com/lwango/lwango/loop"
)

// TLSConn is TLS over a Conn, of which one thread may read while others write. TLSServer and
// TLSClient make one.
//
// A tls.Conn directly over a Conn is for one thread. It holds locks of package sync while it calls
// the Conn. If one thread waits in a write, and another one reads a damaged record or a request for
// new keys, which a read has to answer, that read blocks the loop, and the write never ends. With a
// TLSConn no call of the Conn waits while crypto/tls holds the lock of its output.
//
// A TLSConn is for the threads of its loop. A second thread that reads gets loop.ErrAwaited. A
// TLSConn does not renegotiate, whatever its tls.Config says.
type TLSConn struct {
	conn *tls.Conn
	s    *Conn

	handshaking   loop.Mutex // held by the thread that shakes hands
	handshakeDone bool
	reading       bool

	// What crypto/tls has written and the stream has not.
	sending  loop.Mutex // held by the thread that writes it to the stream
	held     []byte
	spare    []byte
	writeErr error // of the stream; final, since a part of a record may be isClosed
}

// heldAnswers is how many bytes of answers a reading thread leaves to a thread that writes.
const heldAnswers = 4 << 10

// tlsPiece is how much one call of tls.Conn.Write encrypts into memory.
const tlsPiece = 64 << 10

// TLSServer makes the server's side of a TLS connection over s. The first Read or Write runs the
// handshake, or Handshake does. s belongs to the TLSConn from now on, which closes it.
func TLSServer(s *Conn, config *tls.Config) *TLSConn {
	c := &TLSConn{s: s}
	c.conn = tls.Server((*tlsTransport)(c), config)
	return c
}

// TLSClient is TLSServer for the client's side.
func TLSClient(s *Conn, config *tls.Config) *TLSConn {
	// Renegotiation would hold a lock while it waits.
	if config != nil && config.Renegotiation != tls.RenegotiateNever {
		config = config.Clone()
		config.Renegotiation = tls.RenegotiateNever
	}
	c := &TLSConn{s: s}
	c.conn = tls.Client((*tlsTransport)(c), config)
	return c
}

// Handshake runs the handshake, unless it is complete. If another thread runs it, the caller waits
// for that thread.
func (c *TLSConn) Handshake() error {
	if c.handshakeDone {
		return nil
	}
	t := c.s.loop.Layer().Current()
	if t == nil {
		return errNoThread
	}
	if err := c.handshaking.Lock(t, -1); err != nil { // the stream's limits end it
		return err
	}
	defer c.handshaking.Unlock()
	err := c.conn.Handshake() // keeps its error, unless that is temporary
	if e := c.send(true); err == nil {
		err = e
	}
	c.handshakeDone = err == nil
	return err
}

// Read implements net.Conn. It also sends what crypto/tls answers to the peer, such as an alert.
func (c *TLSConn) Read(p []byte) (int, error) {
	if err := c.Handshake(); err != nil {
		return 0, err
	}
	if c.reading {
		return 0, c.s.opError("read", loop.ErrAwaited)
	}
	c.reading = true
	defer func() { c.reading = false }()
	n, err := c.conn.Read(p)
	_ = c.send(false) // the next write gets the error
	return n, err
}

// Write implements net.Conn. It returns when the stream has taken all of p, or on an error.
func (c *TLSConn) Write(p []byte) (written int, err error) {
	if err := c.Handshake(); err != nil {
		return 0, err
	}
	for {
		piece := p[written:min(written+tlsPiece, len(p))]
		n, err := c.conn.Write(piece)
		if err == nil {
			err = c.send(true)
		}
		if err != nil {
			return written, err
		}
		if written += n; written == len(p) {
			if c.spare = nil; len(c.held) == 0 {
				c.held = nil // an idle connection has no buffer
			}
			return written, nil
		}
	}
}

// send writes what is held to the stream. If another thread does that already, a caller that does
// not need all of it returns at once, unless much is held.
func (c *TLSConn) send(all bool) error {
	if len(c.held) == 0 && !all || c.writeErr != nil {
		return c.writeErr
	}
	if !c.sending.TryLock() {
		if !all && len(c.held) < heldAnswers {
			return nil
		}
		if err := c.sending.Lock(c.s.loop.Layer().Current(), -1); err != nil {
			return err
		}
	}
	sent := false
	defer func() {
		if !sent { // the thread was killed, perhaps in the middle of a record
			c.writeErr = net.ErrClosed
		}
		c.sending.Unlock()
	}()
	for len(c.held) > 0 && c.writeErr == nil {
		b := c.held
		c.held, c.spare = c.spare[:0], nil // others may add to it during the write
		_, c.writeErr = c.s.Write(b)
		c.spare = b
	}
	sent = true
	return c.writeErr
}

// CloseWrite sends close_notify: nothing more will be written.
func (c *TLSConn) CloseWrite() error {
	if err := c.conn.CloseWrite(); err != nil {
		return err
	}
	return c.send(true)
}

// Close implements net.Conn. It sends close_notify, if there is room for that, and does not wait.
func (c *TLSConn) Close() error {
	if c.handshakeDone && c.writeErr == nil && c.conn.CloseWrite() == nil && c.sending.TryLock() {
		for n, err := 0, error(nil); len(c.held) > 0 && err == nil; c.held = c.held[n:] {
			n, err = c.s.TryWrite(c.held)
		}
		c.sending.Unlock()
	}
	return c.s.Close()
}

// ConnectionState returns what the handshake has agreed on.
func (c *TLSConn) ConnectionState() tls.ConnectionState { return c.conn.ConnectionState() }

// NetConn returns the stream.
func (c *TLSConn) NetConn() net.Conn { return c.s }

// LocalAddr implements net.Conn.
func (c *TLSConn) LocalAddr() net.Addr { return c.s.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *TLSConn) RemoteAddr() net.Addr { return c.s.RemoteAddr() }

// SetDeadline implements net.Conn. A write that has exceeded its deadline was the last.
func (c *TLSConn) SetDeadline(at time.Time) error { return c.s.SetDeadline(at) }

// SetReadDeadline implements net.Conn.
func (c *TLSConn) SetReadDeadline(at time.Time) error { return c.s.SetReadDeadline(at) }

// SetWriteDeadline implements net.Conn; see SetDeadline.
func (c *TLSConn) SetWriteDeadline(at time.Time) error { return c.s.SetWriteDeadline(at) }

// tlsTransport is a TLSConn as crypto/tls sees it: the connection below, whose writes do not wait.
type tlsTransport TLSConn

// Read implements net.Conn. It sends what is held first: the peer may wait for that.
func (tr *tlsTransport) Read(p []byte) (int, error) {
	c := (*TLSConn)(tr)
	if err := c.send(false); err != nil {
		return 0, err
	}
	return c.s.Read(p)
}

// Write implements net.Conn.
func (tr *tlsTransport) Write(p []byte) (int, error) {
	if tr.writeErr != nil {
		return 0, tr.writeErr
	}
	tr.held = append(tr.held, p...)
	return len(p), nil
}

// Close implements net.Conn.
func (tr *tlsTransport) Close() error { return tr.s.Close() }

// LocalAddr implements net.Conn.
func (tr *tlsTransport) LocalAddr() net.Addr { return tr.s.LocalAddr() }

// RemoteAddr implements net.Conn.
func (tr *tlsTransport) RemoteAddr() net.Addr { return tr.s.RemoteAddr() }

// SetDeadline implements net.Conn, and does nothing: crypto/tls would set deadlines for an alert,
// whose write does not wait here, and the next writes would have them.
func (tr *tlsTransport) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn, and does nothing.
func (tr *tlsTransport) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn, and does nothing.
func (tr *tlsTransport) SetWriteDeadline(time.Time) error { return nil }
