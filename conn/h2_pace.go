package conn

import (
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// What a stream of HTTP/2 waits for is its client's fault only where the client alone can end it.
// Of an answer that is the window of the stream: as long as that is shut, the stream's pace counts.
// If the window of the connection is shut, all streams with content wait for the client together,
// as one answer of HTTP/1.1 does: the pace of their share counts, and it is enough that any of them
// moves. If the socket has no room, the pace of the session counts. While other streams have their
// turn, none does. Content of a request is the client's fault as long as it has credit.
//
// A client cannot answer what has not reached it yet. On a slow line that is most of what was sent,
// and stands in the kernel's queue. So now and then a wait checks that queue.

// share is the pace of all streams that wait for the window of their connection.
type share struct {
	limit  stream.Limit
	pace   stream.Pace
	flight inFlight
}

// keepsWaiting counts, or does not count, the time from now on as one in which the client keeps the
// connection's streams waiting.
func (s *session) keepsWaiting() {
	if !s.BlockedOnConnWindow() {
		if s.share != nil {
			s.share.limit.StopWait(s.Loop())
			s.share.flight = inFlight{}
		}
		return
	}
	if s.share == nil {
		s.share = new(share)
		setPace(&s.share.pace, s.set, s.set.WriteTimeout)
		s.share.limit.SetPace(&s.share.pace)
	}
	s.share.limit.StartWait(s.Loop())
}

// keepsWaiting is that of a session, for the answer of one stream.
func (st *h2stream) keepsWaiting() {
	switch {
	case st.conn != nil || st.activeState == nil:
	case st.Allowed > 0 && st.Window <= 0:
		st.out.StartWait(st.s.port.loop)
	case st.out.Waiting():
		st.out.StopWait(st.s.port.loop)
		st.outputFlight = inFlight{}
	}
}

// owesInput is keepsWaiting for the content of a request that a thread waits for. A client without
// credit can send nothing.
func (st *h2stream) owesInput() {
	switch {
	case st.conn != nil || st.activeState == nil:
	case st.wantsInput && st.body.flow.Window > 0 && st.s.Inflow.Window > 0:
		st.in.StartWait(st.s.port.loop)
	default:
		st.in.StopWait(st.s.port.loop)
	}
}

// inFlight is what the client has not got of what was sent when it began to keep a stream waiting.
type inFlight struct {
	until int64         // how far that reaches, in bytes that were sent; 0: nobody has checked yet
	taken int64         // how far the client's kernel had taken it at the last check,
	at    time.Duration // which was then, on the loop's clock
}

// checkProgress forgives l what was waited since the last check, if the client was taking what was
// on its way. At the first check nobody knows whether it was: it is enough that something is on its
// way.
func (s *session) checkProgress(l *stream.Limit, w *inFlight, rate int) {
	if !l.Waiting() {
		return
	}
	lp := s.Loop()
	now := lp.Layer().Clock(lp.Time())
	sent := s.stream.Sent()
	taken := sent - int64(s.stream.Unsent())
	switch {
	case w.until == 0:
		if w.until = sent + 1; taken < sent {
			l.ResetWait(lp)
		}
	case w.taken >= w.until-1:
	case taken > w.taken && float64(taken-w.taken) >= float64(rate)*(now-w.at).Seconds():
		l.ResetWait(lp)
	}
	w.taken, w.at = taken, now
}

// waitLimit returns how long a wait may take until the next check; negative: without limit.
func (st *h2stream) waitLimit(input, room bool) (time.Duration, error) {
	d, err := st.limits(input, room)
	if err == stream.ErrTooSlow {
		st.checkProgress(input, room)
		d, err = st.limits(input, room)
	}
	return d, err
}

func (st *h2stream) limits(input, room bool) (time.Duration, error) {
	least := time.Duration(-1)
	if input {
		st.notePings()
		left, err := untilCheck(st.s, &st.in, st.reading.Idle)
		if err != nil {
			return 0, err
		}
		least = left
	}
	if room {
		left, err := untilCheck(st.s, &st.out, st.s.set.WriteTimeout)
		if err != nil {
			return 0, err
		}
		least = shorter(least, left)
		if share := st.s.share; share != nil && !st.out.Timed() {
			left, err = untilCheck(st.s, &share.limit, st.s.set.WriteTimeout)
			least = shorter(least, left)
		}
		return least, err
	}
	return least, nil
}

// slowest returns the pace of the answer that its client has not kept.
func (st *h2stream) slowest() *stream.Pace {
	if share := st.s.share; share != nil && !st.writing.Exceeded() {
		return &share.pace
	}
	return &st.writing
}

// notePings takes the PINGs of the client for a sign of life. That is so in a conversation: whoever
// has keep-alive pings sent wants a silent one to last.
func (st *h2stream) notePings() {
	if at := st.s.pinged; at > 0 && st.x != nil && st.x.resp.HeadSent() {
		st.in.SawActivity(st.s.port.loop, at)
	}
}

// wouldBlock returns the error of a read that does not wait, and finds nothing.
func (st *h2stream) wouldBlock() error {
	st.notePings()
	if _, err := st.in.Left(st.thread.Loop()); err != nil {
		return tooSlowBody(err)
	}
	return stream.ErrWouldBlock
}

func tooSlowBody(err error) error {
	if err == stream.ErrTooSlow {
		return ErrBodyTimeout
	}
	return err
}

// untilCheck is Left of a limit, but that a wait checks several times within the time of silence.
func untilCheck(s *session, l *stream.Limit, silence time.Duration) (time.Duration, error) {
	left, err := l.Left(s.Loop())
	if left > 0 && !l.Timed() {
		left = min(left, max(silence/4, time.Millisecond))
	}
	return left, err
}

// checkProgress checks the client's progress for each of the limits that count.
func (st *h2stream) checkProgress(input, room bool) {
	s := st.s
	if input {
		s.checkProgress(&st.in, &st.inputFlight, st.reading.MinRate)
	}
	if room {
		s.checkProgress(&st.out, &st.outputFlight, st.writing.MinRate)
		if s.share != nil {
			s.checkProgress(&s.share.limit, &s.share.flight, s.share.pace.MinRate)
		}
	}
}

// wait waits until there is input, or room, as long as the client keeps the pace.
func (st *h2stream) wait(input, room bool) error {
	t := &st.thread
	st.wantsInput, st.wantsRoom = input, room
	was := t.KeepWaiting(true) // what ends the wait is st.err
	despite := t.Layer().WaitDespiteFailures(true)
	budget := loop.Budget(0)
	if room {
		budget = t.Layer().SetBudget(0) // an answer goes on
	}
	st.owesInput()
	defer func() { // also when the thread is killed
		st.wantsInput, st.wantsRoom = false, false
		t.KeepWaiting(was)
		t.Layer().WaitDespiteFailures(despite)
		if room {
			t.Layer().SetBudget(budget)
		}
		st.owesInput()
	}()
	for {
		left, err := st.waitLimit(input, room)
		if err != nil {
			return err
		}
		_, err = t.AwaitAny(left, st.self[:]...)
		if err != loop.ErrDeadlineExceeded {
			return err
		}
		st.checkProgress(input, room)
	}
}
