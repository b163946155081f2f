package pubsub

import (
	"math"
	"time"
)

// Feed takes the messages that an Engine brings for a topic, from one Follow to its Unfollow. After
// that it ignores them. Its methods are for one goroutine, which must not be a loop's.
type Feed struct {
	log       *log
	presences *presences // of PresenceTopic, which has no log
	loading   bool       // Loaded was not called yet
	joined    uint64     // number of the next message when the topic was followed
	depth     int        // see Depth

	// Under the log's lock: all subscriptions; and, during an outage, the timers of those for which
	// Offer has waited, how long it has waited, and the last call of Offer with messages.
	subs      []*Subscription
	timers    map[*Subscription]offerTimer
	waited    time.Duration
	lastOffer time.Time
}

// Depth returns how many messages of history the first subscriber asks for, or later ones may ask
// for, if that is more.
func (f *Feed) Depth() int { return f.depth }

func (f *Feed) join(s *Subscription) {
	s.index = int32(len(f.subs))
	f.subs = append(f.subs, s)
}

func (f *Feed) leave(s *Subscription) {
	last := len(f.subs) - 1
	f.subs[s.index] = f.subs[last]
	f.subs[s.index].index = s.index
	f.subs[last] = nil
	f.subs = f.subs[:last]
	delete(f.timers, s)
}

// Loaded gives the last messages that were published before the topic was followed, in order and
// each once. It may include later ones of this process, which the hub recognises. nil means that
// the engine cannot get the history, and subscribers go on with the messages of this process. If
// the topic has more messages than Depth, history must have at least one more than Depth: so the
// hub learns that it does not have all. Only the first call counts.
func (f *Feed) Loaded(history []*Message) {
	if f.presences != nil {
		f.presences.loaded()
		return
	}
	l := f.log
	l.mu.Lock()
	if l.feed != f || !f.loading {
		l.mu.Unlock()
		return
	}
	f.loading = false
	if len(history) > 0 && l.first <= f.joined { // else a gap would follow the history
		l.replaceHistory(history, f)
	}
	gs := l.groups
	l.mu.Unlock()
	gs.wake()
	l.hub.enforceLimit()
}

// setTopic sets the message's topic to the name that the program knows. It reports whether the
// program may get the message: patterns do not match topics of the server.
func (l *log) setTopic(m *Message) bool {
	if l.isTopic() {
		m.Topic, _ = programName(l.name)
		return true
	}
	topic, ofServer := programName(m.Topic)
	m.Topic = topic
	return !ofServer
}

// replaceHistory replaces all messages from before the Follow by the history of the feed.
func (l *log) replaceHistory(history []*Message, f *Feed) {
	next := l.next.Load()
	var since []*Message
	have := make(map[string]bool)
	for n := f.joined; n < next; n++ {
		m := l.at(n)
		if since = append(since, m); m != nil {
			have[m.ID] = true
		}
	}
	var all []*Message
	for _, m := range history {
		if !have[m.ID] {
			all = append(all, m)
		}
	}
	keep := min(len(all), f.depth) + len(since)
	l.depth = max(l.depth, int32(keep))
	all = append(all, since...)
	for l.len() > 0 {
		l.forgetOldest()
	}
	l.first = next - uint64(len(all))
	l.firstKnown = l.first
	l.ring = newRing(len(all))
	name, _ := programName(l.name)
	for i, m := range all {
		if m == nil {
			continue
		}
		m.Topic = name
		l.ring[(l.first+uint64(i))&uint64(len(l.ring)-1)] = m
		l.bytes += m.size()
		l.hold(m)
	}
	l.shrink(keep)
}

// Deliver gives messages that other processes publish since the topic was followed, in order and
// each once. They are appended at once, as Publish appends those of this process: a subscriber that
// falls behind by more than its queue misses what its Policy says, and holds up no other.
//
// Messages that come faster than they were published, because this process or the other one was cut
// off, are for Offer.
func (f *Feed) Deliver(ms []*Message) {
	if f.presences != nil {
		f.presences.deliver(ms)
		return
	}
	l := f.log
	l.mu.Lock()
	if l.feed != f {
		l.mu.Unlock()
		return
	}
	if f.timers != nil {
		f.endOutage(time.Now())
	}
	l.appendAll(ms)
	l.mu.Unlock()
	l.wake()
	l.hub.enforceLimit()
}

// appendAll appends messages that an engine has brought.
func (l *log) appendAll(ms []*Message) {
	for _, m := range ms {
		switch {
		case m.lost > 0:
			l.appendLost(int(m.lost))
		case l.setTopic(m):
			l.publish(m)
		}
	}
}

// Lost returns what stands for n lost messages among those of Deliver or Offer: the engine knows
// that the broker has dropped n messages at this place before they were read. Subscribers have
// missed them, as if their queue had been too short. n is at least 1.
func Lost(n int) *Message {
	return &Message{lost: int32(min(max(n, 1), math.MaxInt32))}
}

// Offer is Deliver for messages that were published during an outage and come faster than
// subscribers read. It takes as many of the messages as there is room for, in order, and returns
// the rest. It does not block. The engine keeps the rest, and offers it again after about a
// millisecond, before any later messages of the topic.
//
// There is room while no queue is more than half full: the other half is for messages that this
// process publishes meanwhile. "Waiting" for a subscriber means to take nothing more until it has
// read. Offer waits for each subscriber until the subscriber's timer runs out, half a second after
// it first had no room. Each message that the subscriber reads adds 10 ms, and half a queue at
// least 125 ms, up to half a second from then. In all Offer waits for no more than ten seconds.
// Between two calls of Offer a timer runs for 10 ms at most, and not at all while the subscriber's
// loop has not notified it yet: a busy processor is not its fault. So an engine has to offer again
// and again also while its broker is away.
//
// So the messages of an outage wait for a subscriber that reads a hundred of them a second, and a
// subscriber that does not read delays the others once. The outage is over, and each subscriber has
// its time again, ten seconds after the last call of Offer with messages: a publisher that is
// always late must not make the others wait again and again. Calls of Deliver do not count.
//
// A queue group loses nothing: messages that its members do not take may be for another process, so
// Offer takes nothing while its queue is half full.
func (f *Feed) Offer(ms []*Message) (rest []*Message) {
	if len(ms) == 0 {
		return nil
	}
	if f.presences != nil {
		f.presences.deliver(ms)
		return nil
	}
	l := f.log
	l.mu.Lock()
	if l.feed != f {
		l.mu.Unlock()
		return nil
	}
	now := time.Now()
	f.endOutage(now)
	n := f.room(ms, min(now.Sub(f.lastOffer), maxStep))
	f.lastOffer = now
	l.appendAll(ms[:n])
	l.mu.Unlock()
	if n > 0 {
		l.wake()
		l.hub.enforceLimit()
	}
	if n == len(ms) {
		return nil
	}
	return ms[n:]
}

// Progress returns how many messages of a queue group the feed has taken so far, and how many of
// these, from the first on, a member has received or the queue has lost. Once the last member has
// left the numbers do not change, and an engine may give the other messages to another process.
func (f *Feed) Progress() (taken, received uint64) {
	l := f.log
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next.Load() - origin, l.selection.taken - origin
}
