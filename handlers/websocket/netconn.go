package websocket

import (
	"errors"
	"io"
	"net"
	"time"
)

// NetConn returns the connection as a net.Conn, for code that moves bytes: a Write is a message of
// kind Text or Binary, and a Read reads on through all messages of any kind. A close of the peer's
// with NormalClosure, GoingAway or without a code is io.EOF, and Close closes with NormalClosure.
// The deadlines are the connection's; see SetReadDeadline. The net.Conn is for the connection's
// thread.
func (c *Conn) NetConn(kind int) net.Conn { return &netConn{Conn: c, kind: kind} }

type netConn struct {
	*Conn
	kind int
	r    io.Reader // the rest of a message; nil: the next one is to come
}

// Read implements net.Conn.
func (n *netConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if n.r == nil {
			_, r, err := n.NextReader()
			if err != nil {
				return 0, ended(err)
			}
			n.r = r
		}
		k, err := n.r.Read(p)
		if err == io.EOF {
			n.r, err = nil, nil
		}
		if k > 0 || err != nil {
			return k, ended(err)
		}
	}
}

// ended returns io.EOF for an orderly end.
func ended(err error) error {
	if e, ok := errors.AsType[*CloseError](err); ok {
		switch e.Code {
		case NormalClosure, GoingAway, NoStatus:
			return io.EOF
		}
	}
	return err
}

// Write implements net.Conn.
func (n *netConn) Write(p []byte) (int, error) {
	if err := n.WriteMessage(n.kind, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements net.Conn.
func (n *netConn) Close() error { return n.Conn.Close(NormalClosure, "") }

// SetDeadline implements net.Conn.
func (n *netConn) SetDeadline(t time.Time) error {
	n.Conn.SetReadDeadline(t)
	n.Conn.SetWriteDeadline(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (n *netConn) SetReadDeadline(t time.Time) error {
	n.Conn.SetReadDeadline(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (n *netConn) SetWriteDeadline(t time.Time) error {
	n.Conn.SetWriteDeadline(t)
	return nil
}
