package pubsub

import "time"

// Feed takes what an Engine brings for a topic, from one Follow to its Unfollow. Afterwards it
// takes nothing. Its methods are for one goroutine, which must not be a loop's.
type Feed struct {
	log     *log
	loading bool   // Loaded was not called yet
	joined  uint64 // number of the next message when the topic was followed
	depth   int    // see Depth

	// Under the log's lock: all subscriptions; what Offer may append before it measures again, and
	// the sum of their positions when it last did.
	subs            []*Subscription
	room, roomBytes int
	sum             uint64

	// Of the goroutine that calls Offer: since when there is no room, zero if there is, when a
	// subscriber was last seen to read since then, and the sum of their positions at that time.
	since, stood time.Time
	read         uint64
}

// Depth returns how many messages of history the subscriber that has had the topic followed wants, or
// a later one may.
func (f *Feed) Depth() int { return f.depth }

func (f *Feed) join(s *Subscription) {
	s.index = int32(len(f.subs))
	f.subs = append(f.subs, s)
	f.room = min(f.room, s.share())
}

func (f *Feed) leave(s *Subscription) {
	last := len(f.subs) - 1
	f.subs[s.index] = f.subs[last]
	f.subs[s.index].index = s.index
	f.subs[last] = nil
	f.subs = f.subs[:last]
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
		since = append(since, l.at(n))
		have[l.at(n).ID] = true
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
		m.Topic = name
		l.ring[(l.first+uint64(i))&uint64(len(l.ring)-1)] = m
		l.bytes += m.size()
		l.hold(m)
	}
	l.shrink(keep)
}

const (
	pause    = time.Millisecond
	standing = 250 * time.Millisecond
	patience = time.Second
)

// Deliver gives messages that other processes have published since the topic was followed, in order
// and each once. It is Offer for an engine that has nothing else to do meanwhile: it waits until all
// of them are taken.
func (f *Feed) Deliver(ms []*Message) {
	for ms = f.Offer(ms); len(ms) > 0; ms = f.Offer(ms) {
		// A signal from each subscriber that reads would always cost all of them something. This
		// loop is rare, and soon over.
		time.Sleep(pause)
	}
}

// Offer gives as many of the messages as there is room for, in order, and returns the others. It
// does not wait. The engine keeps them, and offers them again after about a millisecond, and before
// any later ones of the topic.
//
// After an outage messages come faster than they are published, and faster than subscribers read.
// So, for up to a second, Offer does not overrun the queue of a subscriber that reads; for no more
// than a quarter of a second if no subscriber reads anything. It does not hold back messages again
// for a subscriber for which it has done so in vain, until that has caught up.
//
// A queue group loses nothing: what its members do not take may be for another process, so Offer
// holds it back for as long as its queue is half full.
func (f *Feed) Offer(ms []*Message) (rest []*Message) {
	l := f.log
	for len(ms) > 0 {
		l.mu.Lock()
		if l.feed != f {
			l.mu.Unlock()
			return nil
		}
		n := f.admit(ms)
		now := time.Now()
		if n == 0 && !f.since.IsZero() && !l.shared() &&
			(now.Sub(f.since) >= patience || now.Sub(f.stood) >= standing) {
			f.pass()
			n = f.admit(ms)
		}
		for _, m := range ms[:n] {
			if l.named(m) {
				l.publish(m)
			}
		}
		sum := f.sum
		l.mu.Unlock()
		if n == 0 {
			if f.since.IsZero() {
				f.since, f.stood = now, now
			}
			if sum != f.read {
				f.read, f.stood = sum, now
			}
			return ms
		}
		ms, f.stood = ms[n:], now
		l.wake()
		l.hub.relieve()
	}
	f.since = time.Time{}
	return nil
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

// admit returns how many messages can be appended before a subscriber loses a message for which
// Offer waits.
func (f *Feed) admit(ms []*Message) (n int) {
	bytes := 0
	for _, m := range ms {
		bytes += m.size()
	}
	if f.room < len(ms) || f.roomBytes < bytes {
		f.measure()
	}
	for bytes = 0; n < min(len(ms), f.room) && bytes+ms[n].size() <= f.roomBytes; n++ {
		bytes += ms[n].size()
	}
	if n == 0 && f.room > 0 && f.roomBytes == f.log.hub.Limits.TopicBytes/2 {
		return 1 // it is larger than all that may wait together: it comes alone
	}
	return n
}

// measure looks at all subscribers for the room there is: by number in the fullest queue, and in
// bytes beside what the slowest subscriber has not read. Half of each is left to what is published
// in this process meanwhile.
func (f *Feed) measure() {
	l := f.log
	next := l.next.Load()
	slowest := 0
	f.room, f.sum = MaxQueue, 0
	if l.shared() { // they have one queue
		slowest = min(int(next-l.selection.taken), l.len())
		f.room = max((int(l.depth)+1)/2-slowest, 0)
		f.measureBytes(slowest)
		return
	}
	for _, s := range f.subs {
		unread := s.unread(next)
		if s.late = s.late && unread > 0 || unread > int(s.limit) || unread > l.len(); s.late {
			continue
		}
		f.room = min(f.room, max(s.share()-unread, 0))
		f.sum += next - uint64(unread)
		slowest = max(slowest, unread)
	}
	f.measureBytes(slowest)
}

// measureBytes does so for bytes, where some of the messages are unread.
func (f *Feed) measureBytes(unread int) {
	l := f.log
	next := l.next.Load()
	f.roomBytes = l.hub.Limits.TopicBytes / 2
	for n := next - uint64(unread); n < next; n++ {
		f.roomBytes -= l.at(n).size()
	}
}

// pass stops waiting for the subscribers that have no room, by number or in bytes.
func (f *Feed) pass() {
	next := f.log.next.Load()
	slowest := 0
	each := func(do func(s *Subscription, unread int)) {
		for _, s := range f.subs {
			if !s.late {
				do(s, s.unread(next))
			}
		}
	}
	each(func(_ *Subscription, unread int) { slowest = max(slowest, unread) })
	each(func(s *Subscription, unread int) {
		s.late = unread > 0 && (unread >= s.share() || unread == slowest)
	})
	f.room = 0
}

// share is how much of its queue Offer fills before it waits.
func (s *Subscription) share() int { return (int(s.limit) + 1) / 2 }

// unread returns how many messages wait for s. The caller holds the log's lock.
func (s *Subscription) unread(next uint64) int {
	if s.policy == DropNewest {
		return len(s.extra.own)
	}
	return int(next - s.at)
}
