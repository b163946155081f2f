package upstream

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

var errBacklog = errors.New("the upstream accepts no connection")

// Lease is one request's way to an upstream: which ones the request has tried, and the place that
// it has. The caller closes the stream of a place, itself or with Close, unless it gives it back
// with Keep.
type Lease struct {
	// Limit, if it is more than 0, is the time for connecting where that is less than the group's.
	Limit time.Duration

	group *Group
	at    *member   // whose place it has; nil: none
	tried []bool    // by index; nil: none
	tls   *tls.Conn // over the place's stream; nil: none

	// For Asked.
	last                *member // that had a place
	began, spoke, ended time.Time
}

// Lease returns a new lease. It holds nothing until Connect.
func (g *Group) Lease() Lease { return Lease{group: g} }

// Connect gets a place and a connection: a kept one, which has served other requests, or else a new
// one. fresh: a kept one will not do, and is closed to make room. The lease must have no place, and
// must not have excluded all upstreams.
//
// It tries as many upstreams as it takes. Each of them has its share of ConnectTimeout, so that one
// that does not answer leaves time for the others. The wait for a place has its own limit,
// QueueTimeout: a burst waits there for its turn, and no upstream is at fault.
//
// After an error the lease may still have the place of the upstream that was tried last; Name tells
// which. loop.ErrClientGone and loop.ErrCanceled end the wait; see Busy for the other errors.
func (l *Lease) Connect(t *loop.Thread, fresh bool) (s *stream.Stream, kept bool, err error) {
	now := time.Now()
	if l.began.IsZero() {
		l.began = now
	}
	until := now.Add(l.group.QueueTimeout) // for a place
	rest := l.group.ConnectTimeout
	if l.Limit > 0 {
		rest = min(rest, l.Limit)
	}
	for n := l.untried(); ; n-- {
		p, err := l.group.acquire(t, until, l.tried, fresh)
		if err != nil {
			return nil, false, err
		}
		l.at, l.last = p.member, p.member
		if p.stream != nil {
			if s := p.use(t.Loop()); s != nil {
				l.tls = p.kept.tls
				return s, true, nil
			}
			// The kept connection has ended, and others that were kept with it probably have, too.
			// A new one takes the place.
		}
		share := max(rest/time.Duration(n), time.Millisecond) // the others may have used up all
		begin := time.Now()
		s, err := p.dial(t, share)
		if err == nil && p.peer.tls != nil {
			err = l.secure(s, begin.Add(share))
		}
		rest -= time.Since(begin)
		switch {
		case err == nil:
			return s, false, nil
		case left(err), sysio.Exhausted(err):
			return nil, false, err
		}
		if l.choice() {
			if l.group.Unreached != nil {
				l.group.Unreached(p.name, err)
			}
			if l.blames(err, share) {
				p.refused()
			}
		}
		l.Exclude()
		if n == 1 {
			return nil, false, err
		}
		l.Release()
	}
}

// secure makes TLS on a new stream, or closes it.
func (l *Lease) secure(s *stream.Stream, until time.Time) (err error) {
	defer func() { // also when the thread is killed
		if l.tls == nil {
			_ = s.Close()
		}
	}()
	l.tls, err = l.at.handshake(s, until)
	return err
}

// Over returns what the caller speaks on: s, the place's stream, or TLS over it.
func (l *Lease) Over(s *stream.Stream) net.Conn {
	if l.tls == nil {
		return s
	}
	return l.tls
}

// blames reports whether an error of dialing within that time speaks against the upstream. One that
// had hardly any time may be in order, and a lack of ports is a matter of this machine.
func (l *Lease) blames(err error, share time.Duration) bool {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return false
	case err == errBacklog, errors.Is(err, os.ErrDeadlineExceeded):
		return share >= l.group.ConnectTimeout/time.Duration(2*len(l.group.members))
	}
	return true
}

// choice reports whether there is more than one upstream, so that it matters whether one works.
func (l *Lease) choice() bool { return len(l.group.members) > 1 }

// untried returns how many upstreams may be tried.
func (l *Lease) untried() int {
	n := len(l.group.members)
	for _, tried := range l.tried {
		if tried {
			n--
		}
	}
	return n
}

// Held reports whether the request has a place.
func (l *Lease) Held() bool { return l.at != nil }

// Name returns the upstream of the place as the configuration has it, "" without a place.
func (l *Lease) Name() string {
	if l.at == nil {
		return ""
	}
	return l.at.name
}

// Exclude keeps the lease from trying the upstream of its place again. It reports whether there are
// others to try. There must be a place.
func (l *Lease) Exclude() bool {
	if l.tried == nil {
		l.tried = make([]bool, len(l.group.members))
	}
	l.tried[l.at.index] = true
	return l.untried() > 0
}

// Spoke notes that the upstream's answer begins, so the upstream works. There must be a place.
func (l *Lease) Spoke() {
	l.spoke = time.Now()
	if l.choice() {
		l.at.spoke()
	}
}

// Broke notes that the connection has ended, or stood still for too long, before a byte of the
// answer. After some of these in a row the upstream is passed over. There must be a place.
func (l *Lease) Broke() {
	if l.choice() {
		l.at.broke()
	}
}

// Keep gives the place back, and with it its stream, which may serve another request: the caller
// has sent and received all of this one, and does not use s any more. There must be a place.
func (l *Lease) Keep(s *stream.Stream) {
	var k kept
	if fd, ok := s.Rest(); ok {
		k = kept{fd: fd, loop: s.Loop(), stream: s, tls: l.tls}
	} else {
		_ = s.Close()
	}
	l.release(k)
}

// Close closes the stream of the place, if it is not nil, and gives the place back, if there is
// one.
func (l *Lease) Close(s *stream.Stream) {
	switch {
	case s == nil:
	case l.tls == nil:
		_ = s.Close()
	default: // not by way of s, which might yield: a thread that is killed would not come back
		if fd, err := s.Release(); err == nil {
			sayGoodbye(l.tls, fd)
			sysio.Close(fd)
		}
	}
	l.Release()
}

// Release gives the place back, if there is one.
func (l *Lease) Release() {
	if l.at != nil {
		l.release(kept{})
	}
}

func (l *Lease) release(k kept) {
	l.group.release(l.at, k)
	l.at, l.tls, l.ended = nil, nil, time.Now()
}

// Asked returns what the access log says of the request: the upstream that had the last place, and
// the times from the first Connect until its answer began (0: it did not) and until the place was
// given back, or until now. They have in them the wait for a place, for connections, and for
// upstreams that were tried in vain. name is "" if the request has never had a place.
func (l *Lease) Asked() (name string, first, whole time.Duration) {
	if l.last == nil {
		return "", 0, 0
	}
	if !l.spoke.IsZero() {
		first = l.spoke.Sub(l.began)
	}
	if l.at != nil {
		return l.last.name, first, time.Since(l.began)
	}
	return l.last.name, first, l.ended.Sub(l.began)
}

// Busy reports that an error of Connect is about this moment, and no upstream's fault: all
// connections, the queue, an upstream's backlog, or the descriptors, memory or ports of this
// machine are used up. The same request may succeed a little later.
func Busy(err error) bool {
	return errors.Is(err, errQueueFull) || errors.Is(err, errNoPlace) ||
		errors.Is(err, errBacklog) ||
		errors.Is(err, syscall.EADDRNOTAVAIL) || sysio.Exhausted(err)
}

// left reports that no client waits for the answer any more.
func left(err error) bool {
	return errors.Is(err, loop.ErrClientGone) || errors.Is(err, loop.ErrCanceled)
}

// dial makes a connection within limit.
func (p *peer) dial(t *loop.Thread, limit time.Duration) (*stream.Stream, error) {
	if p.named {
		return p.dialName(t, limit)
	}
	s, err := stream.Dial(t, p.network, p.address, limit)
	if errors.Is(err, os.ErrDeadlineExceeded) && p.network == "unix" {
		// That takes time for one reason only: the listener's queue is full.
		err = errBacklog
	}
	return s, err
}
