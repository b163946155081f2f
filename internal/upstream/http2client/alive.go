package http2client

import (
	"errors"
	"time"
)

// Lifetime says for how long connections are used.
type Lifetime struct {
	Idle     time.Duration // without a stream; 0: a connection ends with its last one
	Age      time.Duration // since it was made; 0 or less: any
	Requests int           // that it has served; 0 or less: any
}

// liveness is what a session knows of its time, by the loop's clock.
type liveness struct {
	limits    Lifetime // of the stream that was begun last
	born      time.Duration
	served    int
	lastFrame time.Duration // when the last frame has come
	idleSince time.Duration // since when it has no user, if it has none

	pinged         time.Duration // when the last PING was sent
	pingPending    bool          // nothing has come since
	lastServerPing time.Duration // when the server's last PING has come; 0: none has
	noAnswerSince  bool          // no answer, and no part of one, has come since
}

const (
	// pingAfter is how long nothing comes before the server is asked whether it is there, while it
	// owes an answer. Servers of gRPC take pings that come more often than every five minutes for a
	// flood, unless they have sent part of an answer in between; and the third of these ends the
	// connection. So a long silence has one early PING.
	pingAfter = 10 * time.Second
	pingAgain = 5*time.Minute + time.Second
	// pingWait is how long it may be silent then.
	pingWait = 10 * time.Second
	// blockTimeout is how long a field block may take.
	blockTimeout = 10 * time.Second
)

// errSilent is the error of a server that does not answer a PING, or takes nothing.
var errSilent = errors.New("the connection is dead")

// now returns the time of this turn.
func (s *Session) now() time.Duration {
	l := s.thread.Loop()
	return l.Layer().Clock(l.Time())
}

// nextDeadline returns when something has to be done if nothing comes.
func (s *Session) nextDeadline() time.Duration {
	at := s.lastFrame + pingAfter
	switch {
	case s.pingPending:
		at = s.pinged + pingWait
	case s.noAnswerSince:
		at = s.pinged + pingAgain
	}
	if s.Block.Stream != 0 {
		at = min(at, s.blockFrom+blockTimeout)
	}
	return at
}

// idleTimeout returns how long the session may be idle from now on.
func (s *Session) idleTimeout() time.Duration {
	if s.users == 0 {
		return max(s.idleSince+s.limits.Idle-s.now(), time.Millisecond)
	}
	return max(s.nextDeadline()-s.now(), time.Millisecond)
}

// IdleTimedOut is called by the loop when that time has passed.
func (s *Session) IdleTimedOut() time.Duration {
	switch {
	case s.users == 0:
		s.stopStreams()
		return 0
	case s.now() < s.nextDeadline():
	case s.pingPending, s.Block.Stream != 0 && s.now() >= s.blockFrom+blockTimeout:
		s.fail(errSilent)
		return 0
	default:
		s.ping()
	}
	return s.idleTimeout()
}

// ping asks the server whether it is there.
func (s *Session) ping() {
	s.pinged, s.pingPending, s.noAnswerSince = s.now(), true, true
	s.Ping(0, "lwango\x00c")
	s.wake()
}

// finished reports that the session, which has no streams, is of no more use.
func (s *Session) finished() bool {
	return s.closing || s.streamLimit == 0 || s.limits.Idle <= 0 || s.servedEnough() ||
		s.thread.Loop().Stopping()
}

// servedEnough reports that the connection has served as long, or as many requests, as it may.
func (s *Session) servedEnough() bool {
	return s.limits.Age > 0 && s.now()-s.born >= s.limits.Age ||
		s.limits.Requests > 0 && s.served >= s.limits.Requests
}

// LastPing returns when the last PING of the server has come, by the loop's clock; 0: none has.
func (st *Stream) LastPing() time.Duration { return st.s.lastServerPing }

// Since reports whether the connection was made at t or later.
func (s *Session) Since(t time.Time) bool { return s.born >= s.thread.Loop().Layer().Clock(t) }
