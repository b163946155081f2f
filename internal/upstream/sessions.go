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

// loopSessions are the connections of HTTP/2 that a loop has to a backend. A slot there is the
// right to send a request on one of them, so the limits of a route are for requests. Only threads
// of the loop may use them: see backend.sessions.
type loopSessions struct {
	all     []*http2client.Session  // that take requests
	dialing *loop.Promise[struct{}] // settled when a connection was made, or not; nil: none is
	joined  int                     // requests that wait for that

	key affinityKey
	// those with an affinity key, of the set that has none; the last was used last
	affine []*loopSessions
}

// maxJoined is how many requests wait for one connection that is being made. The server may let as
// many streams be open on it.
const maxJoined = 100

var (
	errNoHTTP2 = errors.New("the upstream does not offer HTTP/2 (ALPN)")
	errLeft    = errors.New("the client has left whose request was making the connection")
)

// Mux returns the stream of HTTP/2 that the lease has got instead of a connection, nil if the
// upstream speaks another protocol. It is valid until Close.
func (l *Lease) Mux() *http2client.Stream { return l.mux }

// Connected reports whether the lease has a connection, or a stream on one.
func (l *Lease) Connected() bool { return l.conn != nil || l.mux != nil }

// Refused reports that the upstream has certainly not acted on the request that has failed with
// err.
func Refused(err error) bool { return errors.Is(err, http2client.ErrRefused) }

// join begins a stream on a connection of the thread's loop that has room for it, or on a new one.
// Its limit is for that. Requests that come meanwhile wait for the same connection. s is one of
// HTTP/1.1 if the upstream has chosen that.
func (l *Lease) join(t *loop.Thread, limit time.Duration) (s *stream.Conn, used bool, err error) {
	until := time.Now().Add(limit)
	for {
		set := l.sessions()
		for _, s := range set.all {
			// A fresh one is one that was made since the request has failed.
			if s.Room() && (l.want != Fresh || s.Since(loop.At(l.ended))) {
				l.mux, used = s.Stream(t, l.life())
				return nil, used && l.want != Fresh, nil // others may have been the first on a new one
			}
		}
		switch {
		case l.server.older.Load(): // to each request its own connection
			s, err = l.start(t, set, until)
			l.server.drop(l.loop, set)
			return s, false, err
		case set.dialing == nil, set.joined >= maxJoined:
			s, err = l.begin(t, set, until)
			return s, false, err
		}
		err := set.await(t, until)
		// The one that makes the connection may have less time than this one.
		late := errors.Is(err, os.ErrDeadlineExceeded) && time.Until(until) > 0
		if err != nil && err != errLeft && !late {
			return nil, false, err
		}
	}
}

// life returns for how long a connection of HTTP/2 may be used.
func (l *Lease) life() http2client.Life {
	g := l.group
	life := http2client.Life{Idle: g.IdleTimeout, Age: g.KeepaliveTime, Requests: g.KeepaliveRequests}
	if g.MaxIdle == 0 {
		life.Idle = 0
	}
	if len(l.Before) > 0 {
		life.Idle = min(life.Idle, headedFor)
	}
	return life
}

// await waits for the connection that is being made, and returns the error of that.
func (set *loopSessions) await(t *loop.Thread, until time.Time) error {
	dialing := set.dialing
	set.joined++
	defer func() { // also when the thread is killed
		if set.dialing == dialing {
			set.joined--
		}
	}()
	_, err := dialing.Await(t, max(time.Until(until), 0))
	return err
}

// begin is start, for which others wait.
func (l *Lease) begin(t *loop.Thread, set *loopSessions,
	until time.Time) (s *stream.Conn, err error) {
	dialing := new(loop.Promise[struct{}])
	set.dialing, set.joined = dialing, 0
	err = errLeft
	defer func() { // also when the thread is killed
		if set.dialing == dialing {
			set.dialing = nil
		}
		switch {
		case err == nil:
			dialing.Resolve(struct{}{})
			return
		case left(err):
			dialing.Reject(errLeft)
		default:
			dialing.Reject(err)
		}
		l.server.drop(l.loop, set)
	}()
	return l.start(t, set, until)
}

// start makes a connection, and begins a stream on it once both sides have sent the preface of
// HTTP/2: until then nobody knows how many streams the server takes. It returns the connection if
// ALPN has chosen HTTP/1.1.
func (l *Lease) start(t *loop.Thread, set *loopSessions, until time.Time) (*stream.Conn, error) {
	b, lp := l.server.backend, l.loop
	s, err := b.dial(t, max(time.Until(until), time.Millisecond))
	if err != nil {
		return nil, err
	}
	if err := l.preface(s, until); err != nil {
		return nil, err
	}
	if b.tls != nil {
		if err := l.secure(t, s, until); err != nil {
			return nil, err
		}
	}
	over := l.tls
	older := over != nil && over.ConnectionState().NegotiatedProtocol != "h2"
	if b.older.Store(older); older && b.either {
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
	carry := func(c net.Conn) { over.NetConn().(*carrier).Conn = c }
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
	if l.server.outdated(l.files) {
		session.Retire() // with this request: endPersistentConns was called during the handshake
	}
	err = session.Greeted(t, max(time.Until(until), time.Millisecond))
	if greeted = err == nil; errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", ErrCut, err)
	}
	return nil, err
}

// retire has all loops end their connections of HTTP/2 with the requests that are under way.
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
