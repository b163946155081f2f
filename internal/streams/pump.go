package streams

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// end is one end of a connection that is passed on.
type end struct {
	s      *stream.Stream
	over   net.Conn // s, or TLS over s
	duplex stream.Duplex
	pipe   stream.Pipe // bytes that come from the other end, besides those in duplex

	got  int64 // bytes that have come from this end
	bulk int   // of these, how many have come in a row, each read as many as it could take

	ended  bool // there is nothing more to read
	failed bool // and that is not because the peer has ended its half
	shut   bool // the peer was told that nothing more is written
	broken bool // nothing can be written any more
}

func (e *end) begin(s *stream.Stream, over net.Conn) {
	e.s, e.over = s, over
	s.SetNoWait(true)
	s.Duplex(&e.duplex)
}

// plain reports that the end has no TLS.
func (e *end) plain() bool { return net.Conn(e.s) == e.over }

// held returns how many bytes there are for which the end has no room yet.
func (e *end) held() int { return e.duplex.Held() + e.pipe.Held() }

// lose drops what is held: nothing can be written any more.
func (e *end) lose() {
	e.broken = true
	e.pipe.Drop()
	e.s.Duplex(&e.duplex)
}

// sendHeld sends as much of what is held as there is room for.
func (e *end) sendHeld() {
	var err error
	if e.pipe.Held() > 0 {
		_, err = e.pipe.Drain(e.s)
	} else {
		_, err = e.duplex.SendHeld()
	}
	if err != nil {
		e.lose()
	}
}

// pump moves what can be moved in both directions. Then it says for what the loop calls it again.
//
// An upstream that has failed, or does not take what its client sends, does not end the connection
// at once: the client gets what the upstream has said, and what the client goes on to send is
// dropped. A client that has failed does.
func (c *connection) pump(t *loop.Thread) coro.Code {
	client, up := &c.client.end, &c.up
	client.s.Yielded()
	up.s.Yielded()
	for again := false; ; {
		there, back := client.carry(up, true), up.carry(client, false)
		switch {
		case client.failed || client.broken:
			c.result = clientLeft
			return coro.Abort
		case client.ended && up.ended && client.shut && up.shut && client.held() == 0 && up.held() == 0:
			c.result = complete
			if up.failed || up.broken {
				c.result = upstreamFailed
			}
			return coro.Abort
		}
		if up.ended && (up.failed || up.broken) && client.shut && c.linger == 0 {
			c.linger = c.now() + lingerTime
		}
		if there || back {
			c.moved, again = c.now(), false
		}
		left, why := c.left()
		if left <= 0 {
			c.result = why
			return coro.Abort
		}
		if there || back {
			continue
		}
		c.tell()
		if up.s.Wakes(t, !up.ended && client.held() == 0, up.held() > 0) {
			// A read or a write tells why; if not, nothing else will.
			if again {
				up.lose()
				up.ended, up.failed = true, true
			}
			again = true
			continue
		}
		loop.IdleTimeout(t, left)
		switch read, write := !client.ended && up.held() == 0, client.held() > 0; {
		case read && write:
			return coro.WantReadWrite
		case read:
			return coro.WantRead
		case write:
			return coro.WantWrite
		}
		return coro.Suspend
	}
}

// carry moves what has arrived at one end to the other, as far as there is room there. It reports
// whether anything has moved, and whether it should so be called again. With resets, the other end is
// not told of an end that is a failure: it is going to be reset instead.
func (e *end) carry(to *end, resets bool) (moved bool) {
	if held := to.held(); held > 0 {
		to.sendHeld()
		left := to.held()
		if moved = left < held; left > 0 {
			return moved
		}
	}
	if !e.ended {
		switch err := e.pass(to); {
		case err == nil:
			return true
		case errors.Is(err, stream.ErrWouldBlock):
			return moved
		default:
			e.ended, e.failed = true, err != io.EOF
		}
	}
	if to.shut {
		return moved
	}
	to.shut = true
	if to.broken || e.failed && resets {
		return true
	}
	shut := to.over.(interface{ CloseWrite() error })
	if e.failed {
		shut = to.s // without a goodbye of TLS, so that its peer can tell
	}
	if shut.CloseWrite() != nil {
		to.lose()
	}
	// crypto/tls lets the deadline pass behind its last record, which the Duplex may still hold.
	_ = to.s.SetWriteDeadline(time.Time{})
	return true
}

// spliceAt is how many bytes have to come in a row before the next ones go through a pipe. Fewer
// cost more there than by way of a buffer (stream.Stream.WriteTo has the figures).
const spliceAt = 64 << 10

// pass moves what one read returns to the other end, which holds what it has no room for. If that
// end is broken, pass drops it. The error is that of the read.
func (e *end) pass(to *end) error {
	plain := e.plain()
	if plain && !e.s.Unread() && !e.s.Loop().Stopping() {
		return stream.ErrWouldBlock
	}
	if plain && e.bulk >= spliceAt && to.plain() && !to.broken {
		n, err := to.pipe.Fill(e.s, stream.TurnBudget)
		if err != errors.ErrUnsupported {
			if e.got += int64(n); n < spliceAt {
				e.bulk = 0
			}
			if n > 0 {
				to.sendHeld()
			}
			return err
		}
	}
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf) // also when the thread is killed
	n, err := e.over.Read(buf[:])
	if e.bulk += n; n < len(buf) {
		e.bulk = 0
	}
	if n == 0 {
		return err
	}
	e.got += int64(n)
	if !to.broken {
		if _, err := to.over.Write(buf[:n]); err != nil {
			to.lose()
		}
	}
	return nil
}
