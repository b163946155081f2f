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
	heartbeat = 2 * time.Second        // between two looks at the stream
	lateness  = 2 * time.Second        // how far behind a server that answers may be
	often     = 100 * time.Millisecond // while an answer is awaited
	maxAsked  = 16                     // topics that are asked for at once
	room      = 1 << 13                // messages that the client holds until they are read
	perTurn   = 256                    // messages that are read before they are offered
	maxTries  = 6                      // questions without an answer
)

var (
	errSilent  = errors.New("JetStream does not answer")
	errNowhere = errors.New("no server has JetStream")
)

// change is a topic that is to be followed, or not any more.
type change struct {
	topic   string
	to      *pubsub.Feed // nil: not any more
	since   time.Time
	pending []*pubsub.Message // ours that the broker does not have yet
}

// reader is the goroutine that reads. It waits for nothing but what comes: messages, answers to
// what it has asked, and changes.
type reader struct {
	*Engine
	base      *engine.Base
	ended     chan struct{}
	decided   chan struct{} // closed once the broker was reached, or not
	something chan struct{} // has an element when there are changes, or the connection has changed

	mu      sync.Mutex
	changes map[string]change // by topic, the last one of each
	waiting []*pubsub.Feed    // of those, what waits for history while there is no connection yet
	closed  bool
	linked  int                    // how often the client has connected
	slow    []*natsgo.Subscription // of which the client has dropped messages

	// Of the goroutine.
	conn    *natsgo.Conn
	msgs    chan *natsgo.Msg // what is published
	answers chan *natsgo.Msg
	inbox   string // what subjects of answers begin with
	number  int    // of the last question
	feeds   map[string]*feed
	live    map[string]*feed // by subject
	dirty   []*feed          // have messages to offer
	later   []*feed          // have messages for which there was no room, or are to be asked for anew

	// Of a session, which lasts while the broker answers.
	session       int
	met           int // of linked, in this session
	up            bool
	down          bool          // that was reported
	behind        int           // feeds that were not read yet in this session
	queue         []*feed       // to be asked for
	asked         map[int]*feed // by number of the question
	stateAsked    time.Time     // when the state of the stream was asked for
	stateQuestion int           // number of that question; 0: answered
	known         uint64        // last, when it was asked
	retry         time.Time     // no new session before that
	wait          engine.Backoff
	created       time.Time // when the stream was created
	foreign       string    // origin of its messages without one
	last          uint64    // number in the stream of the last message that is known of
	ahead         time.Duration
	checks        []check // in order of time
}

// check is a topic that is to be asked for once more: a server that has answered a question may
// have been behind the one that publishes.
type check struct {
	*feed
	at time.Time
}

func newReader(e *Engine) *reader {
	return &reader{Engine: e, base: e.base, ended: make(chan struct{}),
		decided:   make(chan struct{}),
		something: make(chan struct{}, 1), msgs: make(chan *natsgo.Msg, room),
		answers: make(chan *natsgo.Msg, (maxAsked+1)*(perPage+1)), // all that there may be
		changes: make(map[string]change),
		feeds:   make(map[string]*feed), live: make(map[string]*feed), asked: make(map[int]*feed)}
}

// change is for any goroutine.
func (r *reader) change(c change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		if c.to != nil {
			go c.to.Loaded(nil) // nothing is left to call it
		}
		return
	}
	r.changes[c.topic] = c
	if r.linked == 0 { // nothing is followed yet
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
	case r.something <- struct{}{}:
	default:
	}
}

// slowed is called by the client when it drops messages of a subscription. Those that follow show
// what is missing, but none may follow.
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
	r.linked++
	r.signal()
}

// run reads until the engine's context ends.
func (r *reader) run() {
	defer close(r.ended)
	defer r.close()
	o := r.place.options
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
		r.selections.close() // they give back what they have
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
		case <-r.something:
			r.adapt()
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
			r.attend(now)
			due = now.Add(heartbeat)
		}
		r.ask()
		if next := now.Add(r.idle()); next.Before(due) {
			due = next
		}
	}
}

// connect connects for the first time. Later on the client does so itself. It returns nil at the
// end of the context.
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
			for _, to := range waiting { // what was called with its lock held may wait for r.mu
				to.Loaded(nil)
			}
			select {
			case <-time.After(r.retry.Sub(now)):
			case <-r.something:
			case <-r.base.Context.Done():
				return nil
			}
		}
	}
}

// idle returns how long the reader may do nothing if nothing comes.
func (r *reader) idle() time.Duration {
	switch {
	case len(r.later) > 0:
		return engine.Soon
	case len(r.asked) > 0 || r.stateQuestion > 0 || !r.up:
		return often
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

// adapt makes the changes, and looks at the connection.
func (r *reader) adapt() {
	r.mu.Lock()
	changes, linked, slow := r.changes, r.linked, r.slow
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
			r.want(fd)
			r.checkLater(fd)
		}
	}
	switch {
	case !r.conn.IsConnected():
		r.disconnected()
	case linked != r.met:
		r.met = linked
		r.up, r.stateQuestion = false, 0 // what was asked before is lost
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
		fd.to.Loaded(nil) // subscribers shall not wait that long for history
	}
	r.retry = time.Now().Add(r.wait.Next())
}

// attend does what is due.
func (r *reader) attend(now time.Time) {
	switch {
	case !r.conn.IsConnected():
		if !r.down || r.waitedFor() {
			r.disconnected()
		}
	case r.stateQuestion > 0 && now.Sub(r.stateAsked) > engine.Patience:
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
		// One of several servers may have failed, and the others have not noticed yet.
		delete(r.asked, n)
		fd.asked = false
		r.want(fd)
	}
	for len(r.checks) > 0 && !now.Before(r.checks[0].at) {
		r.want(r.checks[0].feed)
		r.checks = r.checks[1:]
	}
	later := r.later
	r.later = nil
	for _, fd := range later {
		fd.again = false
		fd.offer()
	}
}

// waitedFor reports whether subscribers wait for history.
func (r *reader) waitedFor() bool {
	for _, fd := range r.feeds {
		if !fd.told {
			return true
		}
	}
	return false
}

// checkLater has a topic asked for once more.
func (r *reader) checkLater(fd *feed) {
	r.checks = append(r.checks, check{fd, time.Now().Add(lateness)})
}

// question publishes a question, and returns its number.
func (r *reader) question(subject string, data []byte) (n int) {
	r.number++
	if err := r.conn.PublishRequest(subject, r.inbox+strconv.Itoa(r.number), data); err != nil {
		r.signal() // the connection has changed, or it is asked anew when no answer comes
	}
	return r.number
}

// askState asks for the state of the stream.
func (r *reader) askState(now time.Time) {
	r.stateAsked, r.known = now, r.last
	r.stateQuestion = r.question("$JS.API.STREAM.INFO."+r.place.stream, nil)
}

// published takes a message that was published.
func (r *reader) published(m *natsgo.Msg) {
	if fd := r.live[m.Subject]; fd != nil {
		fd.news(m)
	}
}

// answered takes an answer, or a part of it.
func (r *reader) answered(m *natsgo.Msg) {
	n, _ := strconv.Atoi(strings.TrimPrefix(m.Subject, r.inbox))
	fd := r.asked[n]
	switch {
	case n == r.stateQuestion && n > 0:
		r.stateQuestion = 0
		r.informed(m)
	case fd != nil:
		fd.answer(n, m)
	} // else nothing waits for it any more
}

// flush offers what was read.
func (r *reader) flush() {
	for _, fd := range r.dirty {
		fd.dirty = false
		fd.offer()
	}
	r.dirty = r.dirty[:0]
}

// want has a topic asked for what comes after the last message that was read.
func (r *reader) want(fd *feed) {
	if r.up && !fd.gone && !fd.asked && !fd.queued {
		fd.queued = true
		r.queue = append(r.queue, fd)
	}
}

// ask asks for topics, for no more at once than the client has room for the answers.
func (r *reader) ask() {
	for len(r.queue) > 0 && len(r.asked) < maxAsked {
		fd := r.queue[0]
		r.queue = r.queue[1:]
		if fd.queued = false; !fd.gone {
			fd.ask()
		}
	}
}
