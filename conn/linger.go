package conn

import (
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// A lingering close (RFC 9112 section 9.6) takes two steps: a socket that is closed with input unread is reset, and a
// reset can take the answer away from a client that has not read it yet. So the server closes its sending half first, and
// reads and drops what the client still sends: a client may send all of a large body before it reads that the body is
// refused. For the loop such a connection is idle: it holds no coroutine and no buffer between events, and gives way to
// others like any idle one.

// Limits of a lingering close. They are variables for the tests alone.
var (
	lingerTime    = 30 * time.Second // in all
	lingerSilence = 5 * time.Second  // in which nothing comes
)

// lingerSpan is how long a turnBudget lasts: of a client that sends without end, the server takes 25 MB in a second, and
// spends no more of the processor than that costs.
const lingerSpan = 10 * time.Millisecond

// close flushes and leaves the rest to the loop, which closes the socket. Input that is known to be unread makes it
// a lingering close.
func (x *exchange) close() {
	if x.flush() != nil {
		return
	}
	if x.r < x.w || x.req.body.unread() {
		x.lingeringClose()
		return
	}
	x.closeTLS()
}

// closeAfter closes behind an answer. A client that did not ask for the end may be sending its next request already.
func (x *exchange) closeAfter() {
	if x.req.head.Persistent() {
		x.lingeringClose()
		return
	}
	x.close()
}

// lingeringClose begins a lingering close. The caller does nothing more with the connection; Run leaves it to a lingering.
func (x *exchange) lingeringClose() {
	c := x.c
	if x.flush() != nil {
		return
	}
	x.closeTLS()
	c.lingers = x.writeErr == nil && unix.Shutdown(c.FD(), unix.SHUT_WR) == nil
}

// lingering is the body of a connection that is being closed.
type lingering struct {
	*connection
	began    time.Time
	end      time.Time
	stopping bool // and end is the one for that

	spanned time.Time // begin of the present lingerSpan
	dropped int       // bytes in it
}

// linger makes a lingering the body of c's thread, and returns its word to the loop.
func (c *connection) linger() coro.Code {
	c.tls = nil
	l := &lingering{connection: c, began: c.Loop().Time()}
	l.end = l.began.Add(lingerTime)
	if c.standing == refused {
		l.end = l.began.Add(lingerSilence) // its place is wanted for others that are refused
	}
	loop.Become(&c.Thread, l)
	c.KeepWaiting(true) // its end comes behind what is still to be read
	return l.Run(&c.Thread)
}

// Run is the loop's: something has come, or the pause is over.
func (l *lingering) Run(t *loop.Thread) coro.Code {
	now := t.Loop().Time()
	if t.Loop().Stopping() && !l.stopping { // a stop is not to wait for clients that keep their end open
		l.stopping = true
		if soon := now.Add(lingerSilence / 10); soon.Before(l.end) {
			l.end = soon
		}
	}
	if l.standing != refused {
		loop.Expendable(t, l.began, true)
	}
	buf := buffers.Get().(*[streamAt]byte)
	defer buffers.Put(buf)
	if now.Sub(l.spanned) >= lingerSpan {
		l.spanned, l.dropped = now, 0
	}
	for l.dropped < turnBudget {
		left := l.end.Sub(now)
		if left <= 0 {
			return coro.Abort
		}
		n, errno := loop.Own(t).Recv(buf[:])
		switch {
		case errno == unix.EAGAIN:
			loop.IdleTimeout(t, min(left, lingerSilence))
			return coro.WantRead
		case errno != 0 || n == 0:
			return coro.Abort
		}
		l.dropped += n
	}
	loop.IdleTimeout(t, lingerSpan-now.Sub(l.spanned))
	return coro.Suspend
}

// Overdue is the loop's: nothing has come for long. A client that takes its answer has the time of connection.Overdue, but
// neither a stop nor those that are refused next wait for that; what the kernel has it sends on.
func (l *lingering) Overdue() time.Duration {
	if l.stopping || l.standing == refused {
		return 0
	}
	return l.connection.Overdue()
}

// Left is the loop's; the end is still to be read.
func (l *lingering) Left() {}
