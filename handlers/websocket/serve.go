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

// Handler has the callbacks of a connection under Serve. Its methods are called on the connection's
// thread, one at a time. They are sequential code, which may wait for anything, like a handler of
// requests, and delays only its own connection. Threads that a method starts (Thread.Go) and
// functions that it defers (Thread.Defer) end before the connection is idle, which waits for them.
// A Handler keeps the state of its connection.
//
// A panic is logged and ends the connection with InternalError.
type Handler interface {
	// Open is called first, once the answer to the request has gone out and the handler of the
	// request has returned.
	Open(c *Conn)

	// Message is called for each message. p is valid until it returns, or until it reads or waits by
	// a method of c. It may write, subscribe, close the connection, or read further messages itself.
	Message(c *Conn, kind int, p []byte)

	// Closed is called once, and last, with the error with which the connection has ended, also if
	// Open has panicked. Nothing can be written any more. It may wait although the peer has left; but
	// if a stop has killed the thread, its waits do not return (see coro.Yield).
	Closed(c *Conn, err *CloseError)
}

// Serve answers the request as Upgrade does, and hands the connection to h. The handler of the
// request returns the result at once. While no message, subscription or ping needs it, the
// connection holds no coroutine and no buffer. Of the request it only keeps the context, the line
// in the access log, and functions of Request.Defer, which all end with the connection. So h has to
// copy what it needs of the request.
func (u *Upgrader) Serve(req *conn.Request, resp *conn.Response, h Handler) int {
	c, err := u.upgrade(req, resp)
	if err != nil {
		return Status(err)
	}
	c.handler = h
	if resp.Layer().HandOver((*served)(c)) != nil {
		return http.StatusInternalServerError // of no use any more
	}
	return 0
}

// served is a connection under Serve: a conn.Keeper.
type served Conn

// phase is the progress of a served connection.
type phase uint8

const (
	fresh   phase = iota
	opened        // Open was called
	closed        // Closed was called
	closing       // and it waits for the peer's close frame
)

// stepsPerTurn is how many messages in a row are handled before other threads of the loop get their
// turn.
const stepsPerTurn = 16

// Run implements conn.Keeper.
func (s *served) Run(t *loop.Thread) (idle time.Duration, more bool) {
	c := (*Conn)(s)
	if c.phase == fresh {
		c.phase = opened
		c.handler.Open(c)
	}
	c.leaveGroups()
	c.finishFrame()
	for n := 1; c.phase == opened; n++ {
		if n%stepsPerTurn == 0 {
			t.Yield()
		}
		stopping := t.Loop().Stopping()
		if stopping {
			s.sendFinal()
		}
		some := s.handle()
		if !stopping {
			some = s.deliver() || some
		}
		if c.err == nil {
			some = c.runTimer() || some
		}
		c.release()
		switch {
		case c.err != nil:
			s.close()
		case some:
			if n%stepsPerTurn == 0 {
				s.checkPeer()
			}
		default:
			idle, _ = s.untilIdleTimeout()
			if due := c.untilTimer(); due >= 0 {
				idle = min(idle, max(due, 1))
			}
			// A ping may have waited for room.
			if c.err == nil && idle > 0 && !c.rejoinGroups() {
				return idle, true
			}
			c.leaveGroups()
		}
	}
	return s.finish()
}

// checkPeer keeps a connection alive that always has something to send because its peer reads
// slowly. Input of the peer counts as a sign of life.
func (s *served) checkPeer() {
	c := (*Conn)(s)
	if c.thread.Loop().Stopping() {
		return
	}
	if begun, err := c.advance(); !begun && err == nil {
		_, _ = c.keepAlive()
	}
}

// deliver delivers messages of the mailbox and of subscriptions, one or a few of each, and reports
// whether there were any.
func (s *served) deliver() (some bool) {
	c := (*Conn)(s)
	if box := c.box(); box != nil && c.err == nil && box.Ready() {
		_, some = c.deliver(), true
	}
	for f := c.subscriptions; f != nil && c.err == nil; f = f.next {
		some = f.deliver(c) || some
	}
	return some
}

// Attach is an optional method of a conn.Keeper.
func (s *served) Attach(c net.Conn) {
	if s.activeState == nil {
		s.activeState = activeStates.Get().(*activeState)
	}
	s.link = conn.HijackedOf(c)
	s.tls, _ = c.(*tls.Conn)
}

// Detach is an optional method of a conn.Keeper.
func (s *served) Detach() {
	c := (*Conn)(s)
	if l, ok := c.link.(*stream.Conn); ok && c.pingDue {
		c.progress -= l.ProgressOffset()
	}
	c.link, c.tls = nil, nil
	x := c.extra
	if !c.begun && !c.expected.continuation && c.buf == nil && c.message == nil &&
		(x == nil || x.reader == nil) && c.err == nil && !c.pingDue {
		*c.activeState = activeState{}
		activeStates.Put(c.activeState)
		c.activeState = nil
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
		x.readBy == 0 && x.writeBy == 0 && x.readLimit == 0 && x.writeWindow == nil &&
		x.readWindow == nil &&
		x.box == nil && x.reader == nil && x.writer == nil && x.pingSentAt == 0 && x.roundTrip == 0 &&
		x.timer == nil && x.unsentFrame == nil && x.finalDeadline == 0
}

// handle handles a message, if one is there. It waits for the rest only of a long message: a short
// one is read into the buffer first. It drops the unread part of the last message.
func (s *served) handle() bool {
	c := (*Conn)(s)
	begun, _ := c.advance()
	if begun && c.extra != nil && c.extra.reader != nil {
		if c.skip() != nil {
			return false
		}
		begun, _ = c.advance()
	}
	for begun && c.fitsBuffer() && c.frame.length > int64(c.w-c.r) {
		if !c.fill() {
			if c.inputEnded {
				_ = c.setError(c.extra.readErr)
			} else if c.kind == Text && !c.mayBeText() {
				_ = c.failProtocol(errUTF8)
			}
			return false
		}
	}
	if !begun {
		return false
	}
	if kind, p, err := c.ReadMessage(); err == nil {
		c.handler.Message(c, kind, p)
	}
	return true
}

// fitsBuffer reports whether the frame that has begun is a message that fits into the buffer.
func (c *Conn) fitsBuffer() bool {
	h := &c.frame
	return h.fin && !c.compressed && c.total == h.length && c.at == 0 && h.length <= bufferSize
}

// mayBeText reports whether the part of a short text that has arrived can become UTF-8.
func (c *Conn) mayBeText() bool {
	b := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(b)
	p := b[:copy(b[:], c.buffered())]
	mask(c.frame.key, 0, p)
	_, ok := validUTF8(p)
	return ok
}

// untilIdleTimeout returns how long the connection may be idle.
func (s *served) untilIdleTimeout() (idle time.Duration, err error) {
	c := (*Conn)(s)
	by := c.readLeft()
	if by == 0 {
		return 0, c.failProtocol(errLate)
	}
	if !c.begun {
		idle, err = c.keepAlive()
		if keeps := c.untilWindowDrop(); keeps >= 0 {
			idle = min(idle, keeps)
		}
	} else if idle = c.messageLeft(); idle <= 0 {
		return 0, c.failProtocol(errTooSlow)
	}
	if by > 0 {
		idle = min(idle, by)
	}
	return idle, err
}

// close ends the subscriptions, and calls the handler's Closed.
func (s *served) close() {
	c, was := (*Conn)(s), s.phase
	c.phase = closed
	for c.subscriptions != nil {
		c.subscriptions.end()
		c.subscriptions = c.subscriptions.next
	}
	conn.TakeoverOf(c.thread).SetCloseCode(c.err.Code)
	c.releaseMessages()
	if c.extra != nil {
		c.extra.timer = nil
	}
	if was == fresh { // the handler of the request has panicked
		return
	}
	c.thread.KeepWaiting(true)
	c.handler.Closed(c, c.err)
	c.releaseMessages()
}

// finish is Conn.finish without holding a coroutine.
func (s *served) finish() (idle time.Duration, more bool) {
	c := (*Conn)(s)
	now, limit := c.exactNow(), closeWait
	if c.thread.Loop().Stopping() {
		limit /= 10
	}
	if c.phase == closed {
		c.phase = closing
		if c.closeReceived {
			return 0, false
		}
		c.closeReceived = true
		if c.framingLost {
			c.closeWrite()
		}
		c.until = now + limit
	}
	c.until = min(c.until, now+limit)
	for !c.drop() {
		late := c.exactNow() >= c.until
		if !c.fill() {
			return max(c.until-now, 0), !late && !c.inputEnded
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
		case conn.TakeoverOf(t).Panicked():
			code = InternalError
		case t.Loop().Stopping():
			code = GoingAway
		}
		defer func() { // also when the thread was killed, and there is no room for the close frame
			if c.err == nil {
				_ = c.setError(errCut)
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
