package websocket

import (
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
)

// Watch implements loop.Source.
func (c *Conn) Watch(t *loop.Thread) error {
	c.takeBackInput()
	return c.source().Watch(t)
}

// Unwatch implements loop.Source.
func (c *Conn) Unwatch(t *loop.Thread) { c.source().Unwatch(t) }

// Ready implements loop.Source: a message has begun, or AwaitAny has other work for the connection.
func (c *Conn) Ready() bool {
	for c.err == nil && !c.begun && !c.inputEnded &&
		(c.expected.continuation || !c.thread.Loop().Stopping()) {
		if _, n, err := c.next(); n > 0 || err != nil {
			return true
		}
		if !c.fill() && !c.inputEnded {
			return c.r < c.w && c.until == 0 // a message has begun: from now on there is a limit
		}
	}
	return true
}

// AwaitAny waits like Thread.AwaitAny, and serves the connection meanwhile: it answers pings and
// closes, sends pings, and notices peers that do not answer them. A thread that waits for messages
// must use it. If c is among the sources, it is ready when a message has begun; otherwise messages
// wait. The error is that of Thread.AwaitAny, or the *CloseError with which the connection has
// ended, with the index -1.
func (c *Conn) AwaitAny(d time.Duration, sources ...loop.Source) (int, error) {
	c.release()
	var until time.Time
	if d >= 0 {
		until = time.Now().Add(d) // the loop's time is that of its turn
	}
	own := slices.Index(sources, loop.Source(c))
	var room [8]loop.Source // so that adding to the sources allocates nothing
	for {
		if err := c.deliver(); err != nil {
			return -1, err
		}
		begun, err := c.advance()
		if err != nil {
			return -1, err
		}
		if begun && own == 0 {
			return 0, nil
		}
		limit, also := time.Duration(-1), c.thread.Loop().Stopped()
		if !begun { // otherwise the program has to read, and the connection hears nothing until then
			if limit, err = c.keepAlive(); err != nil {
				return -1, err
			}
			if left := c.untilWindowDrop(); left >= 0 {
				limit = min(limit, left)
			}
			also = c
		}
		all := sources
		box := c.box()
		if own < 0 || box != nil {
			all = append(room[:0], sources...)
			if own < 0 {
				all = append(all, also)
			}
			if box != nil {
				all = append(all, box)
			}
		}
		if d >= 0 {
			if left := max(time.Until(until), 0); limit < 0 || left < limit {
				limit = left
			}
		}
		i, err := c.thread.AwaitAny(limit, all...)
		switch {
		case err == nil && box != nil && all[i] == loop.Source(box):
		case err == nil && i == len(sources) && begun:
			return -1, c.fail(GoingAway, "")
		case err == nil && all[i] == loop.Source(c) && (!c.begun || own < 0):
			// c was ready, but not for a message that the caller waits for.
		case err == loop.ErrDeadlineExceeded && (d < 0 || c.thread.Loop().Time().Before(until)):
			// The limit was keepAlive's.
		default:
			return i, err
		}
	}
}

// keepAlive sends a ping after a long silence, and ends the connection of a peer that has not
// answered one. It returns how long the thread may wait until something comes or keepAlive is to be
// called again: 0 after a ping, which may have waited for room.
func (c *Conn) keepAlive() (time.Duration, error) {
	if c.r < c.w || c.expected.continuation { // a frame or a message has begun
		left := c.messageLeft()
		if left <= 0 {
			return 0, c.failProtocol(errTooSlow)
		}
		return left, nil
	}
	interval, idle, pings := c.set.keepAlive()
	now := c.now()
	switch silent := now - c.lastInput; {
	case !c.pingDue && silent >= interval, silent >= idle && c.readsFastEnough(idle-interval):
		c.pingDue, c.progress = true, c.link.Progress()
		if pings {
			if c.control(opPing, nil); c.err != nil {
				return 0, c.err
			}
		}
		c.lastInput = c.now() - interval // the peer is not to blame if this thread is late
		return 0, nil
	case silent >= idle:
		c.link.ResetOnClose()
		return 0, c.setError(errSilent)
	}
	if !c.pingDue {
		idle = interval
	}
	return idle - (now - c.lastInput), nil
}

// readsFastEnough reports whether the peer has read, in the last d, at least at the pace that a
// write demands. Then the peer is alive even if it sends nothing: megabytes may stand before the
// ping, in its kernel and in ours.
func (c *Conn) readsFastEnough(d time.Duration) bool {
	within := c.set.writeTimeout()
	if c.set.WriteTimeout < 0 {
		within = defaultWriteTimeout
	}
	return c.link.Progress()-c.progress >= max(int64(writePiece*(float64(d)/float64(within))),
		leastProgress)
}

// leastProgress is more than a peer's kernel takes while its program reads nothing.
const leastProgress = 4 << 10
