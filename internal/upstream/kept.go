package upstream

import (
	"crypto/tls"
	"slices"
	"time"

	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// kept is a connection between two requests. It rests at the loop that has used it last, which
// alone may touch stream, and which need not register it anew. The descriptor belongs to
// the pool: any loop takes it, and the pool closes it, without asking that loop, which may be busy
// or have ended. So a request never waits where a connection is idle, and no loop can hoard them.
type kept struct {
	fd     int
	loop   *loop.Loop
	stream *stream.Stream // nil: there is no connection
	tls    *tls.Conn      // over stream; nil: none
	until  time.Time
}

// use makes it the stream of a request on l, nil if the connection has ended, or bytes have come
// that no request has asked for.
//
// The loop at which it rests knows that as of its last look at its events. That is too old: the
// bytes that came since may be a second answer to the last request, which the next client would get
// for its own. A look costs less than a microsecond. What comes after it is left to the protocol.
// The connection may end at any moment, too; then the request finds no answer, and is sent again.
func (k kept) use(l *loop.Loop) *stream.Stream {
	if k.loop == l {
		if sysio.Quiet(k.fd) && k.stream.Resume() {
			return k.stream
		}
		k.close()
		return nil
	}
	k.loop.Withdraw(k.fd)
	if sysio.Quiet(k.fd) {
		if s, err := stream.New(l, k.fd); err == nil {
			if k.tls != nil {
				k.tls.NetConn().(*carrier).Conn = s
			}
			return s
		}
	}
	sayGoodbye(k.tls, k.fd)
	sysio.Close(k.fd)
	return nil
}

// close closes the connection. Any goroutine may call it.
func (k kept) close() {
	k.loop.Withdraw(k.fd)
	sayGoodbye(k.tls, k.fd)
	sysio.Close(k.fd)
}

// keep holds a connection for another request.
func (p *peer) keep(k kept) {
	p.idle = append(p.idle, k)
	switch pool := p.pool; {
	case pool.timer == nil:
		pool.timer = time.AfterFunc(time.Until(k.until), pool.closeIdle)
		pool.next = k.until
	case k.until.Before(pool.next):
		pool.timer.Reset(time.Until(k.until))
		pool.next = k.until
	}
}

// idleFor takes a kept connection for a request on l, one of that loop if there is one, the oldest
// or the newest. There must be one.
//
// The oldest, since the upstream may still be at work behind its last answer on a connection, as a
// script of PHP is that has called fastcgi_finish_request; most likely on the latest one. But then
// all connections take turns, and as long as there are requests, those that a burst has left are
// never idle for long enough to be closed.
func (p *peer) idleFor(l *loop.Loop, newest bool) kept {
	i := -1
	for j, k := range p.idle {
		if k.loop == l {
			if i = j; !newest {
				break
			}
		}
	}
	switch {
	case i < 0 && newest:
		i = len(p.idle) - 1
	case i < 0:
		i = 0
	}
	k := p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	return k
}

// closeIdle closes the connections that no request has taken in time.
func (p *Pool) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer, p.next = nil, time.Time{}
	now := time.Now()
	for _, it := range p.peers {
		it.idle = slices.DeleteFunc(it.idle, func(k kept) bool {
			if k.until.After(now) {
				if p.next.IsZero() || k.until.Before(p.next) {
					p.next = k.until
				}
				return false
			}
			k.close()
			return true
		})
	}
	if !p.next.IsZero() {
		p.timer = time.AfterFunc(p.next.Sub(now), p.closeIdle)
	}
}
