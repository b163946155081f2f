// Package tunnel joins two connections whose bytes pass through the server: those of a [[stream]],
// and a client with its upstream behind an upgrade.
//
//	t.Client.Begin(client, client)
//	t.Up.Begin(up, overTLS)
//	for moved, why := t.Move(now, nil); why == tunnel.Open; moved, why = t.Move(now, nil) {
//		// wait, unless bytes have moved, for t.Left(now, limits) at most
//	}
//
// All of a Tunnel is one thread's: two must not share a TLS connection, and neither would know
// whether the other direction is idle. It has a buffer or a pipe only while bytes move. How the
// thread waits is its own matter.
//
//	end.go     End: one of the connections, and how bytes get from one to the other
//	tunnel.go  Tunnel: what ends it, and when
package tunnel

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Conn is a connection below the TLS that may be on it: a *stream.Conn, or a BufferedConn.
type Conn interface {
	net.Conn
	Loop() *loop.Loop
	CloseWrite() error
	SetNoWait(on bool)
	Unread() bool
	ResetOnClose()
}

// BufferedConn is a Conn that keeps by itself what it has no room for, as a stream of HTTP/2 does.
type BufferedConn interface {
	Conn
	Hold(on bool)
	Held() int
	SendHeld() (left int, err error)
}

// Filter looks at what comes from an end before the other one gets it.
type Filter interface {
	// Pass returns what the other end gets of p, which it may overwrite.
	Pass(p []byte) []byte
	// Skips returns how many bytes can come next that need not be looked at. Skip takes n of them.
	Skips() int64
	Skip(n int)
}

// End is one end of a Tunnel.
type End struct {
	s         *stream.Conn  // nil: over is a BufferedConn
	transport net.Conn      // the Conn, or TLS over it
	plain     bool          // it is s
	duplex    stream.Duplex // of s
	pipe      stream.Pipe   // bytes that come from the other end, besides those that the Conn holds

	Got       int64 // bytes that have come from this end and were passed on
	readInRow int   // bytes that were read in a row, each read as much as it could take
	held      int   // Held when bytes were last carried to this end

	Ended  bool // there is nothing more to read
	Failed bool // and that is not because the peer has ended its half
	shut   bool // the peer was told that nothing more is written, or is going to be reset
	broken bool // nothing can be written any more
}

// Begin makes e an end: of a Conn, and of what is spoken over it, which may be the Conn itself.
func (e *End) Begin(c Conn, over net.Conn) {
	c.SetNoWait(true)
	e.transport = over
	if s, ok := c.(*stream.Conn); ok {
		e.s, e.plain = s, over == net.Conn(s)
		s.Duplex(&e.duplex)
		return
	}
	c.(BufferedConn).Hold(true)
}

// Stop ends the mode in which no write waits. What is held does not go out.
func (e *End) Stop() {
	e.pipe.Drop()
	if e.s != nil {
		e.s.Duplex(nil)
	} else if h, ok := e.transport.(BufferedConn); ok {
		h.Hold(false)
	}
}

// conn returns what bytes go over in the end.
func (e *End) conn() Conn {
	if e.s != nil {
		return e.s
	}
	return e.transport.(Conn)
}

// Plain returns the end's socket, if bytes go to it as they are; else nil.
func (e *End) Plain() *stream.Conn {
	if e.plain {
		return e.s
	}
	return nil
}

// Held returns how many bytes there are for which the end has no room yet.
func (e *End) Held() int {
	if e.s == nil {
		return e.transport.(BufferedConn).Held()
	}
	return e.duplex.Held() + e.pipe.Held()
}

// Write writes p, which the end holds if it has no room for it.
func (e *End) Write(p []byte) {
	if len(p) == 0 || e.broken {
		return
	}
	if _, err := e.transport.Write(p); err != nil {
		e.dropHeld()
	}
}

// Fail notes that the connection has ended, which neither a read nor a write tells.
func (e *End) Fail() {
	e.dropHeld()
	e.Ended, e.Failed = true, true
}

// Cut reports whether e's peer, an upstream, has not got all that the other end's has said, or
// cannot tell: an orderly end of e would say that it has. For a client see Tunnel.ClientCut.
func (e *End) Cut(other *End) bool { return other.Failed || other.broken || e.Held() > 0 }

// dropHeld drops what is held: nothing can be written any more.
func (e *End) dropHeld() {
	e.broken = true
	e.pipe.Drop()
	if e.s != nil {
		e.s.Duplex(&e.duplex)
	}
}

// sendHeld sends as much of what is held as there is room for.
func (e *End) sendHeld() {
	var err error
	switch {
	case e.s == nil:
		_, err = e.transport.(BufferedConn).SendHeld()
	case e.pipe.Held() > 0:
		_, err = e.pipe.Drain(e.s)
	default:
		_, err = e.duplex.SendHeld()
	}
	if err != nil {
		e.dropHeld()
	}
}

// unsent reports whether the peer has not got all that was written.
func (e *End) unsent() bool { return !e.broken && (e.Held() > 0 || e.s != nil && e.s.Unsent() > 0) }

// moveTo moves what has arrived at one end to the other, as far as there is room there. It reports
// whether anything has moved, and whether there may be more to move at once. An end that is a
// failure is not passed on: the other end is going to be reset instead.
func (e *End) moveTo(to *End, f Filter) (moved, again bool) {
	if held := max(to.Held(), to.held); held > 0 { // a BufferedConn has sent some of it since
		to.sendHeld()
		to.held = to.Held()
		if moved = to.held < held; to.held > 0 {
			return moved, false
		}
	}
	if !e.Ended {
		switch passed, err := e.pass(to, f); {
		case err != nil:
			e.Ended, e.Failed = true, err != io.EOF
		case passed:
			to.held = to.Held()
			return true, to.held == 0 && e.unread()
		default:
			return moved, moved
		}
	}
	if to.shut {
		return moved, moved
	}
	to.shut = true
	if to.broken || e.Failed {
		return true, true
	}
	err := to.transport.(interface{ CloseWrite() error }).CloseWrite()
	// A peer that has closed its connection in order need not hear that there is nothing more.
	if err != nil && !(errors.Is(err, syscall.ENOTCONN) && to.Ended && !to.Failed) {
		to.dropHeld()
	}
	// crypto/tls lets the deadline pass behind its last record, which the Duplex may still hold.
	_ = to.conn().SetWriteDeadline(time.Time{})
	return true, true
}

// spliceAt is how many bytes have to come in a row before the next ones go through a pipe. Fewer
// cost more there than by way of a buffer (stream.Conn.WriteTo has the figures).
const spliceAt = 64 << 10

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// unread reports whether a read may find something.
func (e *End) unread() bool {
	switch {
	case e.plain:
		return e.s.Unread() || e.s.Loop().Stopping()
	case e.s != nil:
		return true // TLS may have some
	}
	c := e.transport.(BufferedConn)
	return c.Unread() || c.Loop().Stopping()
}

// pass moves what one read returns to the other end, which holds what it has no room for, and
// reports whether that has found anything. If that end is broken, pass drops it. The error is that
// of the read.
func (e *End) pass(to *End, f Filter) (moved bool, err error) {
	if !e.unread() {
		return false, nil
	}
	if e.readInRow >= spliceAt && !to.broken && e.Plain() != nil && to.Plain() != nil {
		limit := int64(stream.TurnBudget)
		if f != nil {
			limit = min(limit, f.Skips())
		}
		if limit >= spliceAt {
			n, err := to.pipe.Fill(e.s, limit)
			if err != errors.ErrUnsupported {
				if e.Got += int64(n); n < spliceAt {
					e.readInRow = 0
				}
				if n > 0 {
					if f != nil {
						f.Skip(n)
					}
					to.sendHeld()
				}
				return readResult(err)
			}
		}
	}
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf) // also when the thread is killed
	var n int
	if e.plain {
		n, err = e.s.TryRead(buf[:])
	} else {
		n, err = e.transport.Read(buf[:])
	}
	if e.readInRow += n; n < len(buf) {
		e.readInRow = 0
	}
	if n == 0 {
		return readResult(err)
	}
	piece := buf[:n]
	if f != nil {
		piece = f.Pass(piece)
	}
	e.Got += int64(len(piece))
	to.Write(piece)
	return true, nil
}

// readResult returns what the error of a read says: nothing was there, or that is the end.
func readResult(err error) (bool, error) {
	if errors.Is(err, stream.ErrWouldBlock) {
		return false, nil
	}
	return err == nil, err
}
