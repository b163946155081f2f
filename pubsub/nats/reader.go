package nats

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

const (
	heartbeat = 2 * time.Second        // between two questions for the state of the stream
	lateness  = 2 * time.Second        // how far behind the leader a server that answers may be
	pollEvery = 100 * time.Millisecond // how often the reader ticks while it awaits an answer
	maxAsked  = 16                     // topics that are asked for at once
	room      = 1 << 13                // messages that the client holds until they are read
	perTurn   = 256                    // messages that are read before they are offered
	maxTries  = 6                      // questions without an answer
)

var (
	errSilent  = errors.New("JetStream does not answer")
	errNowhere = errors.New("no server has JetStream")
)

// change is a Follow or an Unfollow of a topic.
type change struct {
	topic   string
	to      *pubsub.Feed // nil: Unfollow
	since   time.Time
	pending []*pubsub.Message // messages of this process that the broker does not have yet
}

// reader is the goroutine that reads. It waits for messages, answers to its questions, and changes.
type reader struct {
	*Engine
	base    *engine.Base
	ended   chan struct{}
	decided chan struct{} // closed once the first attempt to reach the broker has ended
	wakeup  chan struct{} // has an element when there are changes, or the connection has changed

	mu       sync.Mutex
	changes  map[string]change // by topic, the last one of each
	waiting  []*pubsub.Feed    // those that wait for history before the first connection
	closed   bool
	connects int                    // how often the client has connected
	slow     []*natsgo.Subscription // of which the client has dropped messages

	// Of the goroutine.
	conn    *natsgo.Conn
	msgs    chan *natsgo.Msg // what is published
	answers chan *natsgo.Msg
	inbox   string // what subjects of answers begin with
	number  int    // of the last question
	feeds   map[string]*feed
	live    map[string]*feed // by subject
	dirty   []*feed          // have messages to offer
	later   []*feed          // the reader calls their offer again, see retrySoon

	// Of a session, which lasts while the broker answers.
	session         int
	sessionConnects int // connects, when the session began
	up              bool
	down            bool          // Report was called with an error
	behind          int           // feeds that were not read up to their end yet in this session
	queue           []*feed       // to be asked for
	asked           map[int]*feed // by number of the question
	stateAsked      time.Time     // when the state of the stream was asked for
	stateQuestion   int           // number of that question; 0: answered
	known           uint64        // last, when it was asked
	retry           time.Time     // no new session before that
	wait            engine.Backoff
	created         time.Time // when the stream was created
	foreign         string    // origin of its messages without one
	last            uint64    // number in the stream of the last message that is known of
	clockAhead      time.Duration
	checks          []check // in order of time
}

// check is a topic that is to be asked for once more: a server that has answered a question may
// have been behind the one that publishes.
type check struct {
	*feed
	at time.Time
}

func newReader(e *Engine) *reader {
	return &reader{Engine: e, base: e.base, ended: make(chan struct{}),
		decided: make(chan struct{}),
		wakeup:  make(chan struct{}, 1), msgs: make(chan *natsgo.Msg, room),
		answers: make(chan *natsgo.Msg, (maxAsked+1)*(perPage+1)), // room for all answers
		changes: make(map[string]change),
		feeds:   make(map[string]*feed), live: make(map[string]*feed), asked: make(map[int]*feed)}
}

// change is for any goroutine.
func (r *reader) change(c change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		if c.to != nil {
			go c.to.Loaded(nil) // the reader has ended
		}
		return
	}
	r.changes[c.topic] = c
	if r.connects == 0 { // nothing is followed yet
		if c.to == nil {
			delete(r.changes, c.topic)
			return
		}
		r.waiting = append(r.waiting, c.to)
	}
	r.signal()
}

func (r *reader) signal() {
	select {
	case r.wakeup <- struct{}{}:
	default:
	}
}

// slowed is called by the client when it drops messages of a subscription. Later messages would
// show that some are missing, but perhaps none comes.
func (r *reader) slowed(sub *natsgo.Subscription) {
	if sub == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow = append(r.slow, sub)
	r.signal()
}

// connected is called by the client each time it has connected.
func (r *reader) connected(*natsgo.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connects++
	r.signal()
}

// run reads until the engine's context ends.
func (r *reader) run() {
	defer close(r.ended)
	defer r.close()
	o := r.target.options
	o.ReconnectedCB = r.connected
	o.DisconnectedErrCB = func(*natsgo.Conn, error) { r.signal() }
	o.AsyncErrorCB = func(_ *natsgo.Conn, sub *natsgo.Subscription, _ error) { r.slowed(sub) }
	o.CustomReconnectDelayCB = func(attempts int) time.Duration {
		var b engine.Backoff
		d := b.Next()
		for range min(attempts, 6) {
			d = b.Next()
		}
		return d
	}
	conn := r.connect(&o)
	if conn == nil {
		return
	}
	r.conn, r.inbox = conn, natsgo.NewInbox()+"."
	defer func() {
		r.selections.close() // queue groups give back their messages
		conn.Close()
	}()
	if _, err := conn.ChanSubscribe(r.inbox+"*", r.answers); err != nil {
		r.fail(err)
	}
	r.connected(conn)
	r.Engine.conn.Store(conn)
	var due time.Time
	for timer := time.NewTimer(0); ; timer.Reset(time.Until(due)) {
		select {
		case <-r.base.Context.Done():
			return
		case <-r.wakeup:
			r.applyChanges()
		case m := <-r.answers:
			r.answered(m)
		case m := <-r.msgs:
			r.published(m)
			for n := 1; n < perTurn && len(r.msgs) > 0; n++ {
				r.published(<-r.msgs)
			}
		case <-timer.C:
		}
		r.flush()
		now := time.Now()
		if !now.Before(due) {
			r.tick(now)
			due = now.Add(heartbeat)
		}
		r.ask()
		if next := now.Add(r.idle()); next.Before(due) {
			due = next
		}
	}
}

// connect connects for the first time. After that the client reconnects itself. It returns nil at
// the end of the context.
func (r *reader) connect(o *natsgo.Options) *natsgo.Conn {
	for {
		conn, err := o.Connect()
		if err == nil {
			return conn
		}
		r.fail(err)
		for now := time.Now(); now.Before(r.retry); now = time.Now() {
			r.mu.Lock()
			waiting := r.waiting
			r.waiting = nil
			r.mu.Unlock()
			for _, to := range waiting { // not under r.mu: a caller with the log's lock may wait for it
				to.Loaded(nil)
			}
			select {
			case <-time.After(r.retry.Sub(now)):
			case <-r.wakeup:
			case <-r.base.Context.Done():
				return nil
			}
		}
	}
}

// idle returns the time until the next tick if nothing comes.
func (r *reader) idle() time.Duration {
	switch {
	case len(r.later) > 0:
		return engine.RetryAfter
	case len(r.asked) > 0 || r.stateQuestion > 0 || !r.up:
		return pollEvery
	}
	return heartbeat / 4
}

func (r *reader) close() {
	r.mu.Lock()
	r.closed = true
	left := r.changes
	r.mu.Unlock()
	for _, c := range left {
		if c.to != nil {
			c.to.Loaded(nil)
		}
	}
	for _, fd := range r.feeds {
		fd.to.Loaded(nil)
	}
}

// applyChanges makes the changes, and checks the connection.
func (r *reader) applyChanges() {
	r.mu.Lock()
	changes, linked, slow := r.changes, r.connects, r.slow
	r.changes, r.waiting, r.slow = make(map[string]change), nil, nil
	r.mu.Unlock()
	for _, c := range changes {
		r.drop(r.feeds[c.topic])
		if c.to != nil {
			r.add(c)
		}
	}
	for _, sub := range slow {
		if fd := r.live[sub.Subject]; fd != nil {
			r.enqueue(fd)
			r.checkLater(fd)
		}
	}
	switch {
	case !r.conn.IsConnected():
		r.disconnected()
	case linked != r.sessionConnects:
		r.sessionConnects = linked
		r.up, r.stateQuestion = false, 0 // earlier questions are lost
		r.askState(time.Now())
	}
}

func (r *reader) disconnected() {
	err := r.conn.LastError()
	if err == nil {
		err = errors.New("not connected")
	}
	r.fail(err)
}

// fail ends the session.
func (r *reader) fail(err error) {
	r.up, r.down, r.stateQuestion = false, true, 0
	r.decide()
	r.base.Report(r, err)
	clear(r.asked)
	r.queue, r.behind, r.checks = nil, 0, nil
	for _, fd := range r.feeds {
		fd.asked, fd.queued, fd.tries = false, false, 0
		fd.to.Loaded(nil) // subscribers must not wait that long for history
	}
	r.retry = time.Now().Add(r.wait.Next())
}

// tick does the work whose time has come.
func (r *reader) tick(now time.Time) {
	switch {
	case !r.conn.IsConnected():
		if !r.down || r.waitedFor() {
			r.disconnected()
		}
	case r.stateQuestion > 0 && now.Sub(r.stateAsked) > engine.AnswerTimeout:
		r.fail(errSilent)
	case r.stateQuestion == 0 &&
		(r.up && now.Sub(r.stateAsked) > heartbeat || !r.up && now.After(r.retry)):
		r.askState(now)
	}
	for n, fd := range r.asked {
		if !now.After(fd.deadline) {
			continue
		}
		if fd.tries++; fd.tries == maxTries {
			r.fail(errSilent)
			break
		}
		// One of several servers may have failed, and the others may not have noticed yet.
		delete(r.asked, n)
		fd.asked = false
		r.enqueue(fd)
	}
	for len(r.checks) > 0 && !now.Before(r.checks[0].at) {
		r.enqueue(r.checks[0].feed)
		r.checks = r.checks[1:]
	}
	later := r.later
	r.later = nil
	for _, fd := range later {
		fd.retrying = false
		fd.offer()
	}
}

// waitedFor reports whether subscribers wait for history.
func (r *reader) waitedFor() bool {
	for _, fd := range r.feeds {
		if !fd.loaded {
			return true
		}
	}
	return false
}

// checkLater makes the reader ask for a topic once more, after lateness.
func (r *reader) checkLater(fd *feed) {
	r.checks = append(r.checks, check{fd, time.Now().Add(lateness)})
}

// question publishes a question, and returns its number.
func (r *reader) question(subject string, data []byte) (n int) {
	r.number++
	if err := r.conn.PublishRequest(subject, r.inbox+strconv.Itoa(r.number), data); err != nil {
		r.signal() // the connection has changed, or the question is asked anew later
	}
	return r.number
}

// askState asks for the state of the stream.
func (r *reader) askState(now time.Time) {
	r.stateAsked, r.known = now, r.last
	r.stateQuestion = r.question("$JS.API.STREAM.INFO."+r.target.stream, nil)
}

// published takes a message that was published.
func (r *reader) published(m *natsgo.Msg) {
	if fd := r.live[m.Subject]; fd != nil {
		fd.arrived(m)
	}
}

// answered takes an answer, or a part of it.
func (r *reader) answered(m *natsgo.Msg) {
	n, _ := strconv.Atoi(strings.TrimPrefix(m.Subject, r.inbox))
	fd := r.asked[n]
	switch {
	case n == r.stateQuestion && n > 0:
		r.stateQuestion = 0
		r.stateAnswered(m)
	case fd != nil:
		fd.answer(n, m)
	} // else the question was given up
}

// flush offers the messages that were read.
func (r *reader) flush() {
	for _, fd := range r.dirty {
		fd.dirty = false
		fd.offer()
	}
	r.dirty = r.dirty[:0]
}

// enqueue queues a question for the messages of a topic after the last one that was read.
func (r *reader) enqueue(fd *feed) {
	if r.up && !fd.gone && !fd.asked && !fd.queued {
		fd.queued = true
		r.queue = append(r.queue, fd)
	}
}

// ask asks the queued questions, as far as the client has room for the answers.
func (r *reader) ask() {
	for len(r.queue) > 0 && len(r.asked) < maxAsked {
		fd := r.queue[0]
		r.queue = r.queue[1:]
		if fd.queued = false; !fd.gone {
			fd.ask()
		}
	}
}
