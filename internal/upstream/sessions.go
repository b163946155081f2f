package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/upstream/http2client"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// loopSessions has the connections of HTTP/2 of a loop to a backend. A slot there is the right to
// send a request on one of them, so the limits of a route are for requests. Only threads of the
// loop may use them: see backend.sessions.
type loopSessions struct {
	all     []*http2client.Session  // that take requests
	dialing *loop.Promise[struct{}] // settled once it was made or has failed; nil: none
	waiting int                     // requests that wait for that

	key affinityKey
	// in the set without an affinity key: the sets with one; the last was used last
	affine []*loopSessions
}

// maxWaiting is how many requests wait for one connection that is being made. The server may allow
// as many streams on it.
const maxWaiting = 100

var (
	errNoHTTP2    = errors.New("the upstream does not offer HTTP/2 (ALPN)")
	errClientLeft = errors.New("the client has left whose request was making the connection")
)

// Mux returns the stream of HTTP/2 that the lease has instead of a connection, nil if the upstream
// speaks another protocol. It is valid until Close.
func (l *Lease) Mux() *http2client.Stream { return l.mux }

// Connected reports whether the lease has a connection, or a stream on one.
func (l *Lease) Connected() bool { return l.conn != nil || l.mux != nil }

// Refused reports that the upstream has certainly not acted on the request that has failed with
// err.
func Refused(err error) bool { return errors.Is(err, http2client.ErrRefused) }

// join begins a stream on a connection of the thread's loop that has room for it, or, within limit,
// on a new one. Requests that arrive meanwhile wait for the same connection. s is a connection of
// HTTP/1.1 if the upstream has chosen that.
func (l *Lease) join(t *loop.Thread, limit time.Duration) (s *stream.Conn, used bool, err error) {
	until := time.Now().Add(limit)
	for {
		set := l.sessions()
		for _, s := range set.all {
			// A Fresh connection was made after the request has failed.
			if s.Room() && (l.want != Fresh || s.Since(loop.At(l.ended))) {
				l.mux, used = s.Stream(t, l.life())
				return nil, used && l.want != Fresh, nil // the stream may be the second on a new connection
			}
		}
		switch {
		case l.server.http1ByALPN.Load(): // to each request its own connection
			s, err = l.start(t, set, until)
			l.server.drop(l.loop, set)
			return s, false, err
		case set.dialing == nil, set.waiting >= maxWaiting:
			s, err = l.begin(t, set, until)
			return s, false, err
		}
		err := set.await(t, until)
		// The request that makes the connection may have less time than this one.
		late := errors.Is(err, os.ErrDeadlineExceeded) && time.Until(until) > 0
		if err != nil && err != errClientLeft && !late {
			return nil, false, err
		}
	}
}

// life returns how long a connection of HTTP/2 may be used.
func (l *Lease) life() http2client.Lifetime {
	g := l.group
	life := http2client.Lifetime{Idle: g.IdleTimeout, Age: g.KeepaliveTime,
		Requests: g.KeepaliveRequests}
	if g.MaxIdle == 0 {
		life.Idle = 0
	}
	if len(l.Preface) > 0 {
		life.Idle = min(life.Idle, proxyHeaderIdle)
	}
	return life
}

// await waits for the connection that is being made, and returns its error.
func (set *loopSessions) await(t *loop.Thread, until time.Time) error {
	dialing := set.dialing
	set.waiting++
	defer func() { // also when the thread is killed
		if set.dialing == dialing {
			set.waiting--
		}
	}()
	_, err := dialing.Await(t, max(time.Until(until), 0))
	return err
}

// begin is start with a promise for which other requests wait.
func (l *Lease) begin(t *loop.Thread, set *loopSessions,
	until time.Time) (s *stream.Conn, err error) {
	dialing := new(loop.Promise[struct{}])
	set.dialing, set.waiting = dialing, 0
	err = errClientLeft
	defer func() { // also when the thread is killed
		if set.dialing == dialing {
			set.dialing = nil
		}
		switch {
		case err == nil:
			dialing.Resolve(struct{}{})
			return
		case clientLeft(err):
			dialing.Reject(errClientLeft)
		default:
			dialing.Reject(err)
		}
		l.server.drop(l.loop, set)
	}()
	return l.start(t, set, until)
}

// start makes a connection, and begins a stream on it once both sides have sent the connection
// preface of HTTP/2: until then it is unknown how many streams the server allows. It returns the
// connection if ALPN has chosen HTTP/1.1.
func (l *Lease) start(t *loop.Thread, set *loopSessions, until time.Time) (*stream.Conn, error) {
	b, lp := l.server.backend, l.loop
	s, err := b.dial(t, max(time.Until(until), time.Millisecond))
	if err != nil {
		return nil, err
	}
	if err := l.sendPreface(s, until); err != nil {
		return nil, err
	}
	if b.tls != nil {
		if err := l.secure(t, s, until); err != nil {
			return nil, err
		}
	}
	over := l.tls
	older := over != nil && over.ConnectionState().NegotiatedProtocol != "h2"
	if b.http1ByALPN.Store(older); older && b.orHTTP1 {
		return s, nil
	}
	l.tls = nil
	if older {
		_ = s.Close()
		return nil, errNoHTTP2
	}
	fd, err := s.Release()
	if err != nil {
		return nil, err
	}
	carry := func(c net.Conn) { over.NetConn().(*loopConn).Conn = c }
	session, err := http2client.Start(lp, fd, over, carry, l.life(), func(s *http2client.Session) {
		set.all = slices.DeleteFunc(set.all, func(other *http2client.Session) bool { return other == s })
		b.drop(lp, set)
	})
	if err != nil {
		sysio.Close(fd)
		return nil, err
	}
	set.all = append(set.all, session)
	greeted := false
	defer func() { // also when the thread is killed
		if !greeted {
			l.mux.Close()
			l.mux = nil
			session.Retire()
		}
	}()
	l.mux, _ = session.Stream(t, l.life())
	if l.server.madeBefore(l.files) {
		session.Retire() // with this request: endPersistentConns was called during the handshake
	}
	err = session.AwaitSettings(t, max(time.Until(until), time.Millisecond))
	if greeted = err == nil; errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", ErrCut, err)
	}
	return nil, err
}

// retire makes all loops end their connections of HTTP/2 with the requests that are under way.
func (b *backend) retire() {
	b.sessions.Range(func(l, set any) bool {
		_ = l.(*loop.Loop).Post(func() { // a loop that has ended has none
			all := set.(*loopSessions)
			for _, s := range append(slices.Clone(all.affine), all) {
				s.retire()
			}
		})
		return true
	})
}
