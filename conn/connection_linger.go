package conn

import (
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// A lingering close (RFC 9112 section 9.6) takes two steps: a socket that is closed with input
// unread is reset, and a reset can take the answer away from a client that has not read it yet. So
// the server closes its sending half first, and reads and drops what the client still sends: a
// client may send all of a large body before it reads that the body is refused. For the loop such a
// connection is idle: it holds no coroutine and no buffer between events, and gives way to others
// like any idle one.

// Limits of a lingering close. They are variables only for the tests.
var (
	lingerTime    = 30 * time.Second // in all
	lingerSilence = 5 * time.Second  // in which nothing comes
)

// lingerSpan is the time in which the server reads at most one turnBudget. From a client that sends
// without end it takes 25 MB in a second, and spends no more processor time than that costs.
const lingerSpan = 10 * time.Millisecond

// lingering is the task of a connection that is being closed.
type lingering struct {
	*connection
	began    time.Time
	end      time.Time
	stopping bool // a stop has begun, and end is early enough for it

	spanned time.Time // begin of the present lingerSpan
	dropped int       // bytes in it
}

func (c *connection) newLingering(now time.Time) *lingering {
	l := &lingering{connection: c, began: now, end: now.Add(lingerTime)}
	if c.admission == refused {
		l.end = now.Add(lingerSilence) // other refused connections need its place
	}
	return l
}

// linger makes a lingering the task of c's thread. The present task runs it before it returns.
func (c *connection) linger() *lingering {
	c.tls = nil
	l := c.newLingering(c.Loop().Time())
	c.port.stats.Lingering++
	c.Thread.Layer().SetTask(l)
	c.KeepWaiting(true) // the client's end comes behind input that is still unread
	return l
}

// Run is called by the loop when something has come, or when the pause is over.
func (l *lingering) Run(t *loop.Thread) coro.Code {
	now := t.Loop().Time()
	if t.Loop().Stopping() && !l.stopping {
		l.stopping = true // a stop does not wait for clients that keep their end open
		if soon := now.Add(lingerSilence / 10); soon.Before(l.end) {
			l.end = soon
		}
	}
	if l.admission != refused {
		t.Layer().MarkIdle(l.began, true)
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
		n, errno := t.Layer().Descriptor().Recv(buf[:])
		switch {
		case errno == unix.EAGAIN:
			t.Layer().IdleTimeout(min(left, lingerSilence))
			return coro.WantRead
		case errno != 0 || n == 0:
			return coro.Abort
		}
		l.dropped += n
	}
	t.Layer().IdleTimeout(lingerSpan - now.Sub(l.spanned))
	return coro.Suspend
}

// IdleTimedOut is called by the loop when nothing has come for long. A client that still takes its
// answer gets the time of connection.IdleTimedOut. A stop does not wait for that, and a refused
// connection makes way for the next one; the kernel sends what it has all the same.
func (l *lingering) IdleTimedOut() time.Duration {
	if l.stopping || l.admission == refused {
		return 0
	}
	return l.connection.IdleTimedOut()
}

// ClientGone is called by the loop, and does nothing: the client's end is still to be read.
func (l *lingering) ClientGone() {}

// Ended is called by the loop when the thread has ended.
func (l *lingering) Ended() {
	if l.admission != refused {
		l.port.stats.Lingering--
	}
	l.connection.Ended()
}

// Describe says what the thread does, for a dump of threads.
func (l *lingering) Describe() string {
	return "client " + l.remote.addrPort().String() + ", lingering"
}
