package pubsub

import (
	"math"
	"time"
)

// Feed takes what an Engine brings for a topic, from one Follow to its Unfollow. Afterwards it
// takes nothing. Its methods are for one goroutine, which must not be a loop's.
type Feed struct {
	log     *log
	loading bool   // Loaded was not called yet
	joined  uint64 // number of the next message when the topic was followed
	depth   int    // see Depth

	// Under the log's lock: all subscriptions; and, of an outage, the clocks of those for which Offer
	// has waited, how long it has, and when it last was given something.
	subs   []*Subscription
	clocks map[*Subscription]clock
	waited time.Duration
	late   time.Time
}

// Depth returns how many messages of history the subscriber that has had the topic followed wants,
// or a later one may.
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
	delete(f.clocks, s)
}

// Loaded gives the last messages that were published before the topic was followed, in order and
// each once. It may include later ones of this process, which the hub recognises. nil means that
// the history cannot be learnt, and subscribers go on with what is known here. If there are more
// than Depth, there must be at least one more in it: so the hub learns that it does not have all.
// Only the first call counts.
func (f *Feed) Loaded(history []*Message) {
	l := f.log
	l.mu.Lock()
	if l.feed != f || !f.loading {
		l.mu.Unlock()
		return
	}
	f.loading = false
	if len(history) > 0 && l.first <= f.joined { // else a gap would follow the history
		l.replace(history, f)
	}
	gs := l.groups
	l.mu.Unlock()
	gs.wake()
	l.hub.relieve()
}

// named gives a message its topic's name, as the program knows it. It reports whether the program
// may know it: what the server publishes matches no pattern.
func (l *log) named(m *Message) bool {
	if l.isTopic() {
		m.Topic, _ = title(l.name)
		return true
	}
	topic, ofServer := title(m.Topic)
	m.Topic = topic
	return !ofServer
}

// replace puts the history of a feed in the place of all messages from before it.
func (l *log) replace(history []*Message, f *Feed) {
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
	l.born = l.first
	l.ring = newRing(len(all))
	name, _ := title(l.name)
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
// What comes faster than it was published, because this process or the other one was cut off, is to
// be given to Offer.
func (f *Feed) Deliver(ms []*Message) {
	l := f.log
	l.mu.Lock()
	if l.feed != f {
		l.mu.Unlock()
		return
	}
	if f.clocks != nil {
		f.settle(time.Now())
	}
	l.take(ms)
	l.mu.Unlock()
	l.wake()
	l.hub.relieve()
}

// take appends what an engine has brought.
func (l *log) take(ms []*Message) {
	for _, m := range ms {
		switch {
		case m.lost > 0:
			l.lose(int(m.lost))
		case l.named(m):
			l.publish(m)
		}
	}
}

// Lost stands, in what is given to Deliver or Offer, for n messages that an engine knows to be lost
// at its place: the broker has dropped them before they were read. Subscribers have missed them, as
// if their queue had been too short. n is at least 1.
func Lost(n int) *Message {
	return &Message{lost: int32(min(max(n, 1), math.MaxInt32))}
}

// Offer is Deliver for what was published during an outage, which comes faster than subscribers
// read. It gives as many of the messages as there is room for, in order, and returns the others. It
// does not wait. The engine keeps them, and offers them again after about a millisecond, and before
// it gives any later ones of the topic.
//
// There is room while no queue is more than half full: the other half is for what is published in
// this process meanwhile. Offer waits for each subscriber until its clock runs out, half a second
// after it first had no room. Each message that it reads puts that off by 10 ms, and half a queue
// by at least 125 ms: to half a second from then at most. In all Offer waits for no more than ten
// seconds. Between two calls of Offer no more than 10 ms pass on these clocks, and none on that of
// a subscriber whose loop has not told it yet: a busy processor is not its fault. So an engine has
// to offer again and again also while its broker is away.
//
// One outage's messages wait for a subscriber that reads a hundred of them a second, and one that
// does not read holds up the others once. The outage is over, and each has its time again, when
// Offer was given nothing for ten seconds: a publisher that is always late must not make the others
// wait again and again, whatever Deliver is given meanwhile.
//
// A queue group loses nothing: what its members do not take may be for another process, so Offer
// holds it back for as long as its queue is half full.
func (f *Feed) Offer(ms []*Message) (rest []*Message) {
	if len(ms) == 0 {
		return nil
	}
	l := f.log
	l.mu.Lock()
	if l.feed != f {
		l.mu.Unlock()
		return nil
	}
	now := time.Now()
	f.settle(now)
	n := f.room(ms, min(now.Sub(f.late), step))
	f.late = now
	l.take(ms[:n])
	l.mu.Unlock()
	if n > 0 {
		l.wake()
		l.hub.relieve()
	}
	if n == len(ms) {
		return nil
	}
	return ms[n:]
}

// Progress returns how many messages of a queue group the feed has taken so far, and how many of
// these a member has received, or the queue has lost: the first ones. Once the last member has left
// the numbers do not change, and an engine may give the others to another process.
func (f *Feed) Progress() (taken, received uint64) {
	l := f.log
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next.Load() - origin, l.selection.taken - origin
}
