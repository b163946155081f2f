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

// Want is the kind of connection that a request wants.
type Want uint8

const (
	// Reused is a connection that has served other requests, or else a new one. The upstream may close
	// it at the moment of its use; so it is for requests that can be sent again.
	Reused Want = iota
	// JustUsed is one that served another request less than a second ago, or else a new one. Upstreams
	// do not usually close such a connection; those that do get new ones, see NoteClosedEarly.
	JustUsed
	// Fresh is a new one. An idle one is closed to make room.
	Fresh
)

// Lease is one request's access to an upstream: the upstreams that it has tried, and its slot. The
// caller closes the stream of a slot, itself or with Close, unless it gives the stream back with
// Keep.
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

	// Key is the key for Hash. StickyID is the number of the upstream to which the client comes back,
	// if the group has a Secret; 0: none.
	Key, StickyID uint64

	// Preface is sent first on a new connection, before TLS: a header of the PROXY protocol. The
	// request gets no connection with another preface.
	Preface []byte

	// ServerName is the name for TLS, if that differs between the requests of the group (byRequest of
	// TLS.Load). The request gets no connection with another name. NoName, if it is not nil, says why
	// the request has no name; it is the error of Connect if the upstream speaks TLS.
	ServerName string
	NoName     error

	group   *Group
	tried   []*backend // those that failed
	several bool       // the group has more than one upstream

	// For Connect.
	loop   *loop.Loop // of the thread
	client netip.Addr // known where MaxConns is set, or the request has waited for a slot
	want   Want

	// The lease's slot. While Connect waits for it, the goroutine that gives the slot sets these.
	server         *server      // nil: none
	conn           *persistConn // the connection; nil: it is still to be made
	tls            *tls.Conn    // over one that is being made
	files          int64        // the version of the files for its TLS
	untriedServers int          // how many other servers the request has not tried

	mux *http2client.Stream // instead of a connection; nil: none

	sentTo         int           // upstreams that had the request and are not tried again
	resent         bool          // see Resend
	outcome        outcome       // of the slot
	tries          int           // slots that the lease has had
	taken          time.Duration // by loop.Now: the slot was given
	answered       bool          // its upstream has begun its answer
	connected      bool          // there is, or was, a connection
	connecting     time.Duration // the time that this has taken
	probesCircuit  bool          // the slot probes a circuit
	outcomeCounted bool          // the outcome was counted
	rounds         int           // how many times all upstreams were tried in vain
	paused         int           // how many rounds were followed by a pause

	// For Asked.
	last                    *server       // that had a slot
	began, firstByte, ended time.Duration // by loop.Now; 0: not yet
}

// Lease returns a new lease, which holds nothing before Connect.
func (g *Group) Lease() Lease { return Lease{group: g} }

// Begin makes the zero Lease one of g, as Group.Lease does, without writing all of it.
func (l *Lease) Begin(g *Group) { l.group = g }

// Connect gets a slot and a connection. The lease must have no slot, and must not have excluded
// all upstreams.
//
// It tries upstreams until one works. Each of them has its share of ConnectTimeout, so that one
// that does not answer leaves time for the others. The wait for a slot has its own limit,
// QueueTimeout: during a burst no upstream is at fault.
//
// With HTTP/2 the lease has a stream instead, and s is nil: see Mux.
//
// A request that asks for a name (ServerName) that the upstream does not have tries no other.
//
// After an error the lease may still have the slot of the upstream that was tried last, which Name
// returns. loop.ErrClientGone and loop.ErrCanceled end the wait; see Busy for the other errors.
func (l *Lease) Connect(t *loop.Thread, want Want) (s *stream.Conn, used bool, err error) {
	l.loop, l.want = t.Loop(), want
	if l.group.limited {
		l.client = t.Layer().Client()
	}
	now := l.now()
	if l.began == 0 {
		l.began = now
	}
	waits := now // the wait for a slot may begin now
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
		l.last, l.several = srv, l.untriedServers+len(l.tried) > 0
		if l.NoName != nil && srv.backend.tls != nil {
			return nil, false, l.NoName
		}
		if l.conn != nil {
			if s := l.conn.use(l.loop, want == Reused); s != nil {
				l.connected = true
				return s, true, nil
			}
			// The reused connection has ended, and others that were idle with it probably have, too. So a
			// new one replaces it.
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
			if err = l.sendPreface(s, until); err == nil && srv.backend.tls != nil {
				err = l.secure(t, s, until)
			}
		}
		took := loop.Now() - begin
		timeLeft -= took
		if err == nil {
			l.connected, l.connecting = true, took
		}
		switch {
		case err == nil && s == nil:
			return nil, used, nil
		case err == nil:
			l.conn = &persistConn{tls: l.tls, born: begin, version: l.files, affinityKey: l.affinityKey()}
			l.tls = nil
			return s, false, nil
		case clientLeft(err), sysio.Exhausted(err), errors.Is(err, handshake.ErrNoSlot):
			return nil, false, err
		}
		fault := l.faultOf(err)
		switch fault {
		case nameFault:
			return nil, false, err
		case upstreamFault:
			blame := srv.most(l.group) >= 0 &&
				l.isServerFault(err, share, l.untriedServers+1+len(l.tried))
			l.outcome = failed
			if srv.noteConnectFailure(l.group, blame) && l.several && l.group.ConnectFailed != nil {
				l.group.ConnectFailed(srv.title(), err)
			}
		}
		more := l.exclude()
		if !more && srv.backend.dnsName != nil && !again && fault == upstreamFault {
			again = true
			srv.resolveAgain()
			begin := loop.Now()
			if err := l.group.lookUpNames(t, max(timeLeft/2, 0), true); err != nil && clientLeft(err) {
				return nil, false, err
			}
			timeLeft -= loop.Now() - begin
			more = l.more()
		}
		if l.Stay {
			return nil, false, err
		}
		if !more {
			if fault != upstreamFault || !l.renew() {
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

// queueUntil returns the end, by loop.Now, of a wait for a slot that begins now.
func (l *Lease) queueUntil(now time.Duration) time.Duration {
	until := after(now, l.group.QueueTimeout)
	if !l.Until.IsZero() {
		until = min(until, loop.Now()+time.Until(l.Until))
	}
	return until
}

// sendPreface sends the preface on a new stream, or closes the stream.
func (l *Lease) sendPreface(s *stream.Conn, until time.Time) (err error) {
	if len(l.Preface) == 0 {
		return nil
	}
	sent := false
	defer func() { // also when the thread is killed
		if !sent {
			_ = s.Close()
		}
	}()
	_ = s.SetWriteDeadline(until)
	if _, err = s.Write(l.Preface); err == nil {
		_ = s.SetWriteDeadline(time.Time{})
		sent = true
	}
	return err
}

// secure makes the TLS handshake on a new stream, or closes the stream.
func (l *Lease) secure(t *loop.Thread, s *stream.Conn, until time.Time) (err error) {
	defer func() { // also when the thread is killed
		if l.tls == nil {
			_ = s.Close()
		}
	}()
	name := l.serverName()
	if l.tls, l.files, err = l.server.handshake(t, s, until, name); err != nil {
		return handshakeError{err}
	}
	if name != "" {
		l.group.addTLSName(name)
	}
	return nil
}

// Transport returns the connection for the caller's protocol: s, the slot's stream, or TLS over it.
func (l *Lease) Transport(s *stream.Conn) net.Conn {
	if l.conn.tls == nil {
		return s
	}
	return l.conn.tls
}

// leastShare is the time that each of many upstreams gets for a connection with TLS, but no more
// than a fourth of ConnectTimeout.
const leastShare = time.Second

// share returns the time for connecting to the upstream of the slot, of the time that is left for
// all upstreams; again says that their name was looked up again.
func (l *Lease) share(timeLeft time.Duration, again bool) time.Duration {
	n := l.untriedServers + 1
	if l.server.backend.dnsName != nil && !again {
		n++ // the name may resolve to other addresses by now
	}
	if l.Tries > 0 {
		n = max(min(n, l.Tries-max(len(l.tried), l.sentTo)), 1)
	}
	if l.Stay {
		n = 1
	}
	share := max(timeLeft/time.Duration(n), min(leastShare, l.limit()/4))
	return max(min(share, timeLeft), time.Millisecond) // the others may have used up the time
}

// isServerFault reports whether an error of dialing within share is the fault of the upstream, one
// of n. An upstream that had hardly any time may work, and a lack of ports is a fault of this
// machine.
func (l *Lease) isServerFault(err error, share time.Duration, n int) bool {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return false
	case err == errBacklog, errors.Is(err, os.ErrDeadlineExceeded):
		all := l.group.ConnectTimeout
		return share >= max(all/time.Duration(2*n), min(leastShare, all/4)/2)
	}
	return true
}

// HasSlot reports whether the request has a slot.
func (l *Lease) HasSlot() bool { return l.server != nil }

// Name returns the name of the slot's upstream in the configuration, "" without a slot.
func (l *Lease) Name() string {
	if l.server == nil {
		return ""
	}
	return l.server.name
}

// Exclude keeps the lease from trying the upstream of its slot again, which has had the request. It
// reports whether the lease may try others; after Resend it may not. The lease must have a slot.
func (l *Lease) Exclude() bool {
	l.sentTo++
	return l.exclude() && !l.resent
}

// exclude is Exclude for an upstream that has not had the request.
func (l *Lease) exclude() bool {
	l.tried = append(l.tried[:len(l.tried):len(l.tried)], l.server.backend)
	return l.more()
}

// more reports whether the lease may try another upstream.
func (l *Lease) more() bool {
	if l.Tries > 0 && max(len(l.tried), l.sentTo) >= l.Tries ||
		l.Within > 0 && loop.Now()-l.began >= l.Within {
		return false
	}
	l.group.pool.mu.Lock()
	defer l.group.pool.mu.Unlock()
	return l.group.hasUntried(l.tried)
}

// GotFirstByte notes that the upstream's answer begins. The lease must have a slot.
func (l *Lease) GotFirstByte() { l.firstByte, l.answered = l.now(), true }

// Undecided reports that neither NoteSuccess nor NoteFailure was called for this slot.
func (l *Lease) Undecided() bool { return l.outcome == unknown }

// NoteSuccess notes that the upstream works. The lease must have a slot.
func (l *Lease) NoteSuccess() {
	l.outcome = worked
	if l.conn != nil && l.conn.stream != nil {
		l.server.stayedOpen(l.taken - l.conn.since)
	}
	l.server.noteSuccess()
	l.reportProbe()
}

// NoteFailure notes that the connection has ended or timed out before the first byte of the answer,
// or that the status of the answer counts as a failure. After some failures in a row the upstream
// is avoided, if there are others. The lease must have a slot.
func (l *Lease) NoteFailure() {
	l.outcome = failed
	l.server.noteFailure(l.group, l.server.most(l.group))
	l.reportProbe()
}

// NoteClosedEarly notes that the connection, a reused one, has ended before the first byte of the
// answer: upstreams that close connections so soon get new ones for requests that must not be sent
// twice. The lease must have a slot.
func (l *Lease) NoteClosedEarly() {
	if l.conn != nil {
		l.server.closedEarly(l.taken-l.conn.since, l.taken)
	}
}

// ExpectStrayInput notes that bytes may arrive on the connection that belong to no request, after
// an answer that has no body although applications may send one. Then the kernel is asked before
// each reuse.
func (l *Lease) ExpectStrayInput() {
	if l.conn != nil {
		l.conn.mayHaveInput = true
	}
}

// Keep gives back the slot and its stream, which may serve another request: the exchange is
// complete, and the caller does not use s any more. limit is how long the upstream keeps the
// connection, 0 if it has named no limit. The lease must have a slot.
func (l *Lease) Keep(s *stream.Conn, limit time.Duration) {
	var pc *persistConn
	if fd, ok := s.PutIdle(); ok {
		pc = l.conn
		pc.fd, pc.loop, pc.stream = fd, s.Loop(), s
		pc.served++
		pc.looks = l.loop.Layer().Polls()
	} else {
		_ = s.Close()
		l.server.closedEarly(0, l.now())
	}
	l.release(pc, limit, l.now())
}

// Close closes the stream of the slot, if it is not nil, and gives back the slot, if the lease has
// one.
func (l *Lease) Close(s *stream.Conn) {
	switch {
	case s == nil: // a stream of HTTP/2 ends with the slot
	case l.conn.tls == nil:
		_ = s.Close()
	default: // not by s.Close, which might yield: a killed thread would not come back
		if fd, err := s.Release(); err == nil {
			sendCloseNotify(l.conn.tls, fd)
			sysio.Close(fd)
		}
	}
	l.Release()
}

// Release gives back the slot, if the lease has one.
func (l *Lease) Release() {
	if l.server != nil {
		l.release(nil, 0, l.now())
	}
}

// Timing returns values for the access log: the upstream of the last slot, and the times from the
// first Connect until its answer began (0: it did not) and until the slot was given back, or until
// now. The times include the waits for a slot, for connections, and for upstreams that were tried
// in vain. name is "" if the request has never had a slot.
func (l *Lease) Timing() (name string, first, whole time.Duration) {
	if l.last == nil {
		return "", 0, 0
	}
	if l.firstByte != 0 {
		first = l.firstByte - l.began
	}
	if l.server != nil {
		return l.last.name, first, l.now() - l.began
	}
	return l.last.name, first, l.ended - l.began
}

// Busy reports that an error of Connect is temporary and no upstream's fault: all connections, the
// queue, an upstream's backlog, or the descriptors, memory or ports of this machine are used up.
// The same request may succeed a little later.
func Busy(err error) bool {
	return errors.Is(err, errQueueFull) || errors.Is(err, errNoSlot) ||
		errors.Is(err, errBacklog) || errors.Is(err, errOpen) || errors.Is(err, errDown) ||
		errors.Is(err, handshake.ErrNoSlot) ||
		errors.Is(err, syscall.EADDRNOTAVAIL) || sysio.Exhausted(err)
}

// clientLeft reports that no client waits for the answer any more.
func clientLeft(err error) bool {
	return errors.Is(err, loop.ErrClientGone) || errors.Is(err, loop.ErrCanceled)
}

// dial makes a connection within limit.
func (b *backend) dial(t *loop.Thread, limit time.Duration) (*stream.Conn, error) {
	d := stream.Dialer{Timeout: limit, Source: b.source}
	s, err := d.Dial(t, b.network, b.address)
	if errors.Is(err, os.ErrDeadlineExceeded) && b.network == "unix" {
		// A connect to a UNIX socket waits only if the listener's queue is full.
		err = errBacklog
	}
	return s, err
}
