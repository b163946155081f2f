package upstream

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/tls/handshake"
	"github.com/lwango/lwango/internal/upstream/http2client"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

var (
	// ErrCut is in the error of a connection that has ended, or failed, before the answer has.
	ErrCut = errors.New("the upstream has closed the connection")

	errBacklog = errors.New("the upstream accepts no connection")
)

// Want is which connection a request wants.
type Want uint8

const (
	// Reused is one that has served other requests, or else a new one. The upstream may close it at
	// the moment at which it is used; so this is for requests that can be sent again.
	Reused Want = iota
	// JustUsed is one that served another request less than a second ago, or else a new one. No
	// upstream in order closes that; those that do are given new ones, see Outlived.
	JustUsed
	// Fresh is a new one. An idle one is closed to make room.
	Fresh
)

// Lease is one request's way to an upstream: which ones the request has tried, and the slot that
// it has. The caller closes the stream of a slot, itself or with Close, unless it gives it back
// with Keep.
type Lease struct {
	// Limit, if it is more than 0, is the time for connecting where that is less than the group's.
	Limit time.Duration

	// Until, if it is not zero, is when Connect gives up at the latest, also the wait for a slot.
	Until time.Time

	// Tries, if it is more than 0, is how many upstreams the request may try, and Within for how long
	// from the first Connect it may begin to try another. With Stay, Connect tries only one.
	Tries  int
	Within time.Duration
	Stay   bool

	// Key is what Hash goes by, and StickyID the number of the upstream that the client comes back to,
	// where the group has a Secret; 0: the request has none.
	Key, StickyID uint64

	// Before is what a new connection begins with, ahead of TLS: a header of the PROXY protocol. The
	// request gets none that has begun in another way.
	Before []byte

	// ServerName is the name that TLS is to be made for, where that is not the same for all requests
	// of the group (byRequest of TLS.Load). The request gets no connection that was made for another
	// one. NoName, if it is not nil, says why the request has none; it is the error of Connect where
	// the upstream speaks TLS.
	ServerName string
	NoName     error

	group *Group
	tried []*backend // those that failed
	many  bool       // there is more than one upstream

	// What Connect wants.
	loop   *loop.Loop // of the thread
	client netip.Addr // known where MaxConns is set, or the request has waited for a slot
	want   Want

	// The slot that the lease has. While Connect waits for it, the goroutine that gives it sets
	// these.
	server *server      // nil: none
	conn   *persistConn // the connection; nil: it is still to be made
	tls    *tls.Conn    // over one that is being made
	files  int64        // the version by which its TLS was made
	others int          // how many servers the request has not tried, besides this one

	mux *http2client.Stream // instead of a connection; nil: none

	asked      int           // upstreams that had the request, and are tried no more
	resent     bool          // see Resend
	outcome    outcome       // of the slot
	tries      int           // slots that the lease has had
	taken      time.Duration // by loop.Now: the slot was given
	answered   bool          // its upstream has begun to answer
	reached    bool          // there is, or was, a connection
	connecting time.Duration // the time that this has taken
	probes     bool          // the slot tells whether a circuit is to be closed
	judged     bool          // it has done so
	rounds     int           // times that all upstreams were tried in vain
	paused     int           // of rounds, those after which there was a pause

	// For Asked.
	last                *server       // that had a slot
	began, spoke, ended time.Duration // by loop.Now; 0: it has not
}

// Lease returns a new lease. It holds nothing until Connect.
func (g *Group) Lease() Lease { return Lease{group: g} }

// Begin makes the zero Lease one of g, as Lease does, and does not write all of it.
func (l *Lease) Begin(g *Group) { l.group = g }

// Connect gets a slot and a connection. The lease must have no slot, and must not have excluded
// all upstreams.
//
// It tries as many upstreams as it takes. Each of them has its share of ConnectTimeout, so that one
// that does not answer leaves time for the others. The wait for a slot has its own limit,
// QueueTimeout: a burst waits there for its turn, and no upstream is at fault.
//
// With HTTP/2 the lease has a stream instead, and s is nil: see Mux.
//
// A request that asks for a name (ServerName) that the upstream does not have tries no other.
//
// After an error the lease may still have the slot of the upstream that was tried last; Name tells
// which. loop.ErrClientGone and loop.ErrCanceled end the wait; see Busy for the other errors.
func (l *Lease) Connect(t *loop.Thread, want Want) (s *stream.Conn, used bool, err error) {
	l.loop, l.want = t.Loop(), want
	if l.group.MaxConns > 0 {
		l.client = loop.ClientOf(t)
	}
	now := l.now()
	if l.began == 0 {
		l.began = now
	}
	waits := now // a wait for a slot is as good as begun
	timeLeft := l.limit()
	if l.group.hasNames {
		begin := loop.Now()
		if err := l.group.lookUpNames(t, timeLeft/2, false); err != nil {
			return nil, false, err
		}
		timeLeft -= loop.Now() - begin
		now = l.now()
	}
	for again := false; ; {
		if l.paused < l.rounds {
			if err := l.pause(t); err != nil {
				return nil, false, err
			}
			now = l.now()
		}
		w, err := l.acquire(t, now)
		if w != nil {
			err = w.await(t, l.queueUntil(waits))
		}
		if err != nil {
			return nil, false, err
		}
		srv := l.server
		l.last, l.many = srv, l.others+len(l.tried) > 0
		if l.NoName != nil && srv.backend.tls != nil {
			return nil, false, l.NoName
		}
		if l.conn != nil {
			if s := l.conn.use(l.loop, want == Reused); s != nil {
				l.reached = true
				return s, true, nil
			}
			// The reused connection has ended, and others that were idle with it probably have, too.
			// A new one replaces it.
			srv.closedEarly(now-l.conn.since, now)
			l.conn = nil
		}
		if !l.Until.IsZero() {
			timeLeft = min(timeLeft, time.Until(l.Until))
		}
		share := l.share(timeLeft, again)
		begin := loop.Now()
		var s *stream.Conn
		if srv.http2 {
			s, used, err = l.join(t, share)
		} else if s, err = srv.dial(t, share); err == nil {
			until := loop.At(begin + share)
			if err = l.preface(s, until); err == nil && srv.backend.tls != nil {
				err = l.secure(t, s, until)
			}
		}
		took := loop.Now() - begin
		timeLeft -= took
		if err == nil {
			l.reached, l.connecting = true, took
		}
		switch {
		case err == nil && s == nil:
			return nil, used, nil
		case err == nil:
			l.conn = &persistConn{tls: l.tls, born: begin, version: l.files, affinityKey: l.affinityKey()}
			l.tls = nil
			return s, false, nil
		case left(err), sysio.Exhausted(err), errors.Is(err, handshake.ErrNoSlot):
			return nil, false, err
		}
		fault := l.faultOf(err)
		switch fault {
		case named:
			return nil, false, err
		case theirs:
			blame := l.blames(err, share, l.others+1+len(l.tried))
			l.outcome = failed
			if srv.refused(l.group, blame) && l.many && l.group.Unreached != nil {
				l.group.Unreached(srv.title(), err)
			}
		}
		more := l.exclude()
		if !more && srv.backend.dnsName != nil && !again && fault == theirs {
			again = true
			srv.resolveAgain()
			begin := loop.Now()
			if err := l.group.lookUpNames(t, max(timeLeft/2, 0), true); err != nil && left(err) {
				return nil, false, err
			}
			timeLeft -= loop.Now() - begin
			more = l.more()
		}
		if l.Stay {
			return nil, false, err
		}
		if !more {
			if fault != theirs || !l.renew() {
				return nil, false, err
			}
			timeLeft, again = l.limit(), false
			waits = l.now()
		}
		l.Release()
		now = l.now()
	}
}

// limit returns the time for connecting.
func (l *Lease) limit() time.Duration {
	d := l.group.ConnectTimeout
	if l.Limit > 0 {
		d = min(d, l.Limit)
	}
	if !l.Until.IsZero() {
		d = max(min(d, time.Until(l.Until)), 0)
	}
	return d
}

// queueUntil returns when, by loop.Now, a wait for a slot ends that begins now.
func (l *Lease) queueUntil(now time.Duration) time.Duration {
	until := after(now, l.group.QueueTimeout)
	if !l.Until.IsZero() {
		until = min(until, loop.Now()+time.Until(l.Until))
	}
	return until
}

// preface sends what comes before all else on a new stream, or closes it.
func (l *Lease) preface(s *stream.Conn, until time.Time) (err error) {
	if len(l.Before) == 0 {
		return nil
	}
	sent := false
	defer func() { // also when the thread is killed
		if !sent {
			_ = s.Close()
		}
	}()
	_ = s.SetWriteDeadline(until)
	if _, err = s.Write(l.Before); err == nil {
		_ = s.SetWriteDeadline(time.Time{})
		sent = true
	}
	return err
}

// secure makes TLS on a new stream, or closes it.
func (l *Lease) secure(t *loop.Thread, s *stream.Conn, until time.Time) (err error) {
	defer func() { // also when the thread is killed
		if l.tls == nil {
			_ = s.Close()
		}
	}()
	name := l.serverName()
	if l.tls, l.files, err = l.server.handshake(t, s, until, name); err != nil {
		return unshaken{err}
	}
	if name != "" {
		l.group.learn(name)
	}
	return nil
}

// Over returns what the caller speaks on: s, the slot's stream, or TLS over it.
func (l *Lease) Over(s *stream.Conn) net.Conn {
	if l.conn.tls == nil {
		return s
	}
	return l.conn.tls
}

// leastShare is the time that each of many upstreams gets for a connection, with TLS, if
// ConnectTimeout is four times as long, and otherwise a fourth of that.
const leastShare = time.Second

// share returns the time for connecting to the upstream of the slot, of the time that is left for
// all that may be tried; again says that their name was looked up again.
func (l *Lease) share(timeLeft time.Duration, again bool) time.Duration {
	n := l.others + 1
	if l.server.backend.dnsName != nil && !again {
		n++ // the name may resolve to others by now
	}
	if l.Tries > 0 {
		n = max(min(n, l.Tries-max(len(l.tried), l.asked)), 1)
	}
	if l.Stay {
		n = 1
	}
	share := max(timeLeft/time.Duration(n), min(leastShare, l.limit()/4))
	return max(min(share, timeLeft), time.Millisecond) // the others may have used up all
}

// blames reports whether an error of dialing within that time speaks against one of n upstreams.
// One that had hardly any time may be in order, and a lack of ports is a matter of this machine.
func (l *Lease) blames(err error, share time.Duration, n int) bool {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return false
	case err == errBacklog, errors.Is(err, os.ErrDeadlineExceeded):
		all := l.group.ConnectTimeout
		return share >= max(all/time.Duration(2*n), min(leastShare, all/4)/2)
	}
	return true
}

// Held reports whether the request has a slot.
func (l *Lease) Held() bool { return l.server != nil }

// Name returns the upstream of the slot as the configuration has it, "" without a slot.
func (l *Lease) Name() string {
	if l.server == nil {
		return ""
	}
	return l.server.name
}

// Exclude keeps the lease from trying the upstream of its slot again, which has had the request. It
// reports whether there are others that it may try; after Resend there are none. There must be a
// slot.
func (l *Lease) Exclude() bool {
	l.asked++
	return l.exclude() && !l.resent
}

// exclude is Exclude for an upstream that has not had the request.
func (l *Lease) exclude() bool {
	l.tried = append(l.tried[:len(l.tried):len(l.tried)], l.server.backend)
	return l.more()
}

// more reports whether the lease may try another upstream than those that it has tried.
func (l *Lease) more() bool {
	if l.Tries > 0 && max(len(l.tried), l.asked) >= l.Tries ||
		l.Within > 0 && loop.Now()-l.began >= l.Within {
		return false
	}
	l.group.pool.mu.Lock()
	defer l.group.pool.mu.Unlock()
	return l.group.has(l.tried)
}

// Spoke notes that the upstream's answer begins. There must be a slot.
func (l *Lease) Spoke() { l.spoke, l.answered = l.now(), true }

// Undecided reports that neither Works nor Broke has been called since there is this slot.
func (l *Lease) Undecided() bool { return l.outcome == unknown }

// Works notes that the upstream does. There must be a slot.
func (l *Lease) Works() {
	l.outcome = worked
	if l.conn != nil && l.conn.stream != nil {
		l.server.stayedOpen(l.taken - l.conn.since)
	}
	l.server.spoke()
	l.reportProbe()
}

// Broke notes that the connection has ended, or stood still for too long, before a byte of the
// answer, or that this has said that the upstream does not work. After some of these in a row the
// upstream is passed over, if there are others. There must be a slot.
func (l *Lease) Broke() {
	l.outcome = failed
	l.server.broke(l.group)
	l.reportProbe()
}

// Outlived notes that the connection, a reused one, has ended before a byte of the answer:
// upstreams that close them so soon get new ones for what must not be sent twice. There must be a
// slot.
func (l *Lease) Outlived() {
	if l.conn != nil {
		l.server.closedEarly(l.taken-l.conn.since, l.taken)
	}
}

// Doubt notes that something may come on the connection that belongs to no request, behind an
// answer that has no body though applications send one. Then the kernel is asked before each use.
func (l *Lease) Doubt() {
	if l.conn != nil {
		l.conn.doubtful = true
	}
}

// Keep gives the slot back, and with it its stream, which may serve another request: the caller
// has sent and received all of this one, and does not use s any more. limit is for how long the
// upstream keeps the connection, 0 if it has not said that. There must be a slot.
func (l *Lease) Keep(s *stream.Conn, limit time.Duration) {
	var pc *persistConn
	if fd, ok := s.PutIdle(); ok {
		pc = l.conn
		pc.fd, pc.loop, pc.stream = fd, s.Loop(), s
		pc.served++
		pc.looks = l.loop.Polls()
	} else {
		_ = s.Close()
		l.server.closedEarly(0, l.now())
	}
	l.release(pc, limit, l.now())
}

// Close closes the stream of the slot, if it is not nil, and gives the slot back, if there is
// one.
func (l *Lease) Close(s *stream.Conn) {
	switch {
	case s == nil: // a stream of HTTP/2 ends with the slot
	case l.conn.tls == nil:
		_ = s.Close()
	default: // not by way of s, which might yield: a thread that is killed would not come back
		if fd, err := s.Release(); err == nil {
			sendCloseNotify(l.conn.tls, fd)
			sysio.Close(fd)
		}
	}
	l.Release()
}

// Release gives the slot back, if there is one.
func (l *Lease) Release() {
	if l.server != nil {
		l.release(nil, 0, l.now())
	}
}

// Asked returns what the access log says of the request: the upstream that had the last slot, and
// the times from the first Connect until its answer began (0: it did not) and until the slot was
// given back, or until now. They have in them the wait for a slot, for connections, and for
// upstreams that were tried in vain. name is "" if the request has never had a slot.
func (l *Lease) Asked() (name string, first, whole time.Duration) {
	if l.last == nil {
		return "", 0, 0
	}
	if l.spoke != 0 {
		first = l.spoke - l.began
	}
	if l.server != nil {
		return l.last.name, first, l.now() - l.began
	}
	return l.last.name, first, l.ended - l.began
}

// Busy reports that an error of Connect is about this moment, and no upstream's fault: all
// connections, the queue, an upstream's backlog, or the descriptors, memory or ports of this
// machine are used up. The same request may succeed a little later.
func Busy(err error) bool {
	return errors.Is(err, errQueueFull) || errors.Is(err, errNoSlot) ||
		errors.Is(err, errBacklog) || errors.Is(err, errOpen) || errors.Is(err, errDown) ||
		errors.Is(err, handshake.ErrNoSlot) ||
		errors.Is(err, syscall.EADDRNOTAVAIL) || sysio.Exhausted(err)
}

// left reports that no client waits for the answer any more.
func left(err error) bool {
	return errors.Is(err, loop.ErrClientGone) || errors.Is(err, loop.ErrCanceled)
}

// dial makes a connection within limit.
func (b *backend) dial(t *loop.Thread, limit time.Duration) (*stream.Conn, error) {
	d := stream.Dialer{Timeout: limit, Source: b.source}
	s, err := d.Dial(t, b.network, b.address)
	if errors.Is(err, os.ErrDeadlineExceeded) && b.network == "unix" {
		// That takes time for one reason only: the listener's queue is full.
		err = errBacklog
	}
	return s, err
}
