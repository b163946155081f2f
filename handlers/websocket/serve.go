package websocket

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Handler is what a connection does under Serve. Its methods are called on the connection's thread,
// one at a time. They are sequential code, which may wait for anything, as a handler of requests
// may, and holds up nothing but its own connection. Threads that a method starts (Thread.Go), and
// what it defers (Thread.Defer), end before the connection is idle, and hold it up until then. What
// the connection has to remember is the Handler's.
//
// A panic is logged and ends the connection with InternalError.
type Handler interface {
	// Open is called first, once the answer to the request has gone out and the handler of the
	// request has returned.
	Open(c *Conn)

	// Message is called for each message. p is valid until it returns, or until it reads or waits by
	// a method of c. It may write, subscribe, close the connection, or read further messages itself.
	Message(c *Conn, kind int, p []byte)

	// Closed is called once, and last, with what the connection has ended with; also if Open has
	// panicked. Nothing can be written any more. Its waits go on although the peer has left; but if a
	// stop has killed the thread, they do not return (see coro.Yield).
	Closed(c *Conn, err *CloseError)
}

// Serve answers the request as Upgrade does, and lets h have the connection. The handler of the
// request returns the result at once. Between messages, what the connection has subscribed to, and
// pings that are due, the connection holds no coroutine and no buffer, and nothing of the request
// but its context, its line in the access log, and what was deferred by Request.Defer, which all
// end with the connection. So h has to take from the request what it needs.
func (u *Upgrader) Serve(req *conn.Request, resp *conn.Response, h Handler) int {
	c, err := u.upgrade(req, resp)
	if err != nil {
		return Status(err)
	}
	c.h = h
	if resp.Layer().HandOver((*served)(c)) != nil {
		return http.StatusInternalServerError // of no use any more
	}
	return 0
}

// served is a connection under Serve: a conn.Keeper.
type served Conn

// phase is how far a served connection is.
type phase uint8

const (
	fresh   phase = iota
	opened        // Open was called
	closed        // Closed was called
	closing       // and the peer's answer to the close frame is waited for
)

// stepsPerTurn is how many messages in a row are handled before other threads of the loop get their
// turn.
const stepsPerTurn = 16

// Run implements conn.Keeper.
func (s *served) Run(t *loop.Thread) (idle time.Duration, more bool) {
	c := (*Conn)(s)
	if c.phase == fresh {
		c.phase = opened
		c.h.Open(c)
	}
	c.stepOut()
	c.finishFrame()
	for n := 1; c.phase == opened; n++ {
		if n%stepsPerTurn == 0 {
			t.Yield()
		}
		stopping := t.Loop().Stopping()
		if stopping {
			s.sendLast()
		}
		some := s.handle()
		if !stopping {
			some = s.deliver() || some
		}
		if c.err == nil {
			some = c.then() || some
		}
		c.release()
		switch {
		case c.err != nil:
			s.close()
		case some:
			if n%stepsPerTurn == 0 {
				s.look()
			}
		default:
			idle, _ = s.left()
			if due := c.untilDue(); due >= 0 {
				idle = min(idle, max(due, 1))
			}
			// A ping may have waited for room.
			if c.err == nil && idle > 0 && !c.stepIn() {
				return idle, true
			}
			c.stepOut()
		}
	}
	return s.finish()
}

// look keeps a connection alive that always has something to send: its peer takes it slowly. What
// has come from the peer meanwhile counts.
func (s *served) look() {
	c := (*Conn)(s)
	if c.thread.Loop().Stopping() {
		return
	}
	if begun, err := c.advance(); !begun && err == nil {
		_, _ = c.keepAlive()
	}
}

// deliver delivers what has come for the connection from elsewhere, of each subscription one
// message or a few, and reports whether there was something.
func (s *served) deliver() (some bool) {
	c := (*Conn)(s)
	if box := c.box(); box != nil && c.err == nil && box.Ready() {
		_, some = c.deliver(), true
	}
	for f := c.follows; f != nil && c.err == nil; f = f.next {
		some = f.deliver(c) || some
	}
	return some
}

// Attach implements conn.LightKeeper.
func (s *served) Attach(c net.Conn) {
	if s.work == nil {
		s.work = works.Get().(*work)
	}
	s.link = conn.LinkOf(c)
	s.tls, _ = c.(*tls.Conn)
}

// Detach implements conn.LightKeeper.
func (s *served) Detach() {
	c := (*Conn)(s)
	if l, ok := c.link.(*stream.Conn); ok && c.asked {
		c.taken -= l.Counted()
	}
	c.link, c.tls = nil, nil
	x := c.extra
	if !c.begun && !c.want.continuation && c.buf == nil && c.message == nil &&
		(x == nil || x.reader == nil) && c.err == nil && !c.asked {
		*c.work = work{}
		works.Put(c.work)
		c.work = nil
	}
	if x != nil {
		if x.input = nil; x.empty() {
			c.extra = nil
		}
	}
}

// empty reports whether there is nothing in x.
func (x *extra) empty() bool {
	return x.input == nil && x.early == nil && x.readErr == nil &&
		x.readBy == 0 && x.writeBy == 0 && x.readLimit == 0 && x.sent == nil && x.got == nil &&
		x.box == nil && x.reader == nil && x.writer == nil && x.pinged == 0 && x.trip == 0 &&
		x.then == nil && x.rest == nil && x.lastBy == 0
}

// handle handles a message, if one is there. Its rest is waited for here only if the message is
// long: a short one comes into the buffer first. What a method has not read of the last one is
// dropped.
func (s *served) handle() bool {
	c := (*Conn)(s)
	begun, _ := c.advance()
	if begun && c.extra != nil && c.extra.reader != nil {
		if c.skip() != nil {
			return false
		}
		begun, _ = c.advance()
	}
	for begun && c.short() && c.frame.length > int64(c.w-c.r) {
		if !c.fill() {
			if c.over {
				_ = c.broken(c.extra.readErr)
			} else if c.kind == Text && !c.mayBeText() {
				_ = c.violated(errUTF8)
			}
			return false
		}
	}
	if !begun {
		return false
	}
	if kind, p, err := c.ReadMessage(); err == nil {
		c.h.Message(c, kind, p)
	}
	return true
}

// short reports whether the frame that has begun is a message that fits into the buffer.
func (c *Conn) short() bool {
	h := &c.frame
	return h.fin && !c.packed && c.total == h.length && c.at == 0 && h.length <= bufferSize
}

// mayBeText reports whether what has come of a short text can become UTF-8.
func (c *Conn) mayBeText() bool {
	b := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(b)
	p := b[:copy(b[:], c.buffered())]
	mask(c.frame.key, 0, p)
	_, ok := validUTF8(p)
	return ok
}

// left returns how long the connection may be idle.
func (s *served) left() (idle time.Duration, err error) {
	c := (*Conn)(s)
	by := c.readLeft()
	if by == 0 {
		return 0, c.violated(errLate)
	}
	if !c.begun {
		idle, err = c.keepAlive()
		if keeps := c.windowLeft(); keeps >= 0 {
			idle = min(idle, keeps)
		}
	} else if idle = c.messageLeft(); idle <= 0 {
		return 0, c.violated(errTooSlow)
	}
	if by > 0 {
		idle = min(idle, by)
	}
	return idle, err
}

// close ends what the connection has subscribed to, and tells the handler of the end.
func (s *served) close() {
	c, was := (*Conn)(s), s.phase
	c.phase = closed
	for c.follows != nil {
		c.follows.end()
		c.follows = c.follows.next
	}
	conn.SetCloseCode(c.thread, c.err.Code)
	c.letGo()
	if c.extra != nil {
		c.extra.then = nil
	}
	if was == fresh { // the handler of the request has panicked
		return
	}
	c.thread.KeepWaiting(true)
	c.h.Closed(c, c.err)
	c.letGo()
}

// finish is Conn.finish that does not hold a coroutine.
func (s *served) finish() (idle time.Duration, more bool) {
	c := (*Conn)(s)
	now, limit := c.exactly(), closeWait
	if c.thread.Loop().Stopping() {
		limit /= 10
	}
	if c.phase == closed {
		c.phase = closing
		if c.answered {
			return 0, false
		}
		c.answered = true
		if c.lost {
			c.closeWrite()
		}
		c.until = now + limit
	}
	c.until = min(c.until, now+limit)
	for !c.drop() {
		late := c.exactly() >= c.until
		if !c.fill() {
			return max(c.until-now, 0), !late && !c.over
		}
		if late {
			break
		}
	}
	return 0, false
}

// End implements conn.Keeper.
func (s *served) End(t *loop.Thread) {
	c := (*Conn)(s)
	if c.phase < closed {
		code := NormalClosure
		switch {
		case conn.Panicked(t):
			code = InternalError
		case t.Loop().Stopping():
			code = GoingAway
		}
		defer func() { // also when the thread was killed, and there is no room for the close frame
			if c.err == nil {
				_ = c.broken(errCut)
			}
			if s.close(); c.phase < closing {
				_ = c.finish()
			}
		}()
		_ = c.fail(code, "")
	} else if c.phase == closed {
		_ = c.finish() // Closed has panicked
	}
}
