package pubsub

import "strings"

// Engine carries the messages of a Hub to other processes and theirs to the hub. Its methods are called by those who
// publish and subscribe, on their loops and with locks held: they must not wait, and must not call the hub.
//
// What it brings it gives to Loaded and Deliver, from a goroutine of its own.
type Engine interface {
	// Publish is called once for each message that is published here, for each topic in order.
	Publish(topic string, m *Message)

	// Follow asks for what others publish to a topic, and first of all for its history: Loaded must be called, before
	// long, with nil where it is not to be had. Some subscriptions wait for it.
	Follow(topic string)

	// Unfollow ends that: nobody is subscribed to the topic any more.
	Unfollow(topic string)
}

// Connect has e carry the topics, from now on. It is called before anybody subscribes, and once.
func (h *Hub) Connect(e Engine) {
	h.init()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.engine = e
}

// Origin is what the IDs of the messages begin with that are published here, up to the dash. Behind it there is a
// number in base 36, which in each topic rises from one message to the next.
func (h *Hub) Origin() string {
	h.init()
	return h.origin
}

// Deliver is for an Engine: messages that others have published, in order, each but once.
func (h *Hub) Deliver(topic string, ms []*Message) {
	if l := h.find(topic); l != nil {
		l.mu.Lock()
		var gs groups
		if l.subs > 0 { // else it is not followed any more
			for _, m := range ms {
				gs = l.publish(m)
			}
		}
		l.mu.Unlock()
		gs.wake()
	}
}

// Loaded is for an Engine: the last messages that a topic has, in order, each but once, whether they were published here
// or elsewhere. Those published since the topic is followed come as Deliver's would; the others are its history.
//
// If what there is cannot be learnt, ms is nil. Subscribers go on with what is known here, and when Loaded is called
// again, they get what was published meanwhile.
func (h *Hub) Loaded(topic string, ms []*Message) {
	l := h.find(topic)
	if l == nil {
		return
	}
	l.mu.Lock()
	if l.subs > 0 {
		l.load(ms)
	}
	gs := l.groups
	l.mu.Unlock()
	gs.wake()
}

// SetCarried is for an Engine: whether it reaches the other processes at present, and they this one. At first it does.
func (h *Hub) SetCarried(carried bool) {
	if cut := !carried; h.cut.Swap(cut) == cut {
		return
	}
	word := "local"
	if carried {
		word = "carried"
	}
	h.Status().Publish([]byte(word))
}

// Carried reports whether what is published reaches all subscribers there are. Without an Engine it always does: they are
// in this process.
func (h *Hub) Carried() bool { return !h.cut.Load() }

// Status returns a topic of this process, to which "carried" or "local" is published when Carried has changed. While it is
// local, subscribers in this process get what is published in it, and the rest is made up for when it is carried again.
func (h *Hub) Status() *Topic {
	h.init()
	return h.local.Topic("status")
}

// load puts history in the place of what was known before the topic was followed. Behind it stays what has come since,
// and what others have published since is appended.
func (l *log) load(ms []*Message) {
	next := l.next.Load()
	held := make(map[string]uint64, l.len())
	for n := l.first; n < next; n++ {
		held[l.at(n).ID] = n
	}
	var history, since []*Message
	for _, m := range ms {
		n, ok := held[m.ID]
		switch {
		case ok && n >= l.joined:
		case ok || m.Time.Before(l.followed):
			history = append(history, m)
			delete(held, m.ID)
		case !strings.HasPrefix(m.ID, l.hub.origin+"-"): // ours are here already, or were
			since = append(since, m)
		}
	}
	if l.loading && len(ms) > 0 && l.first <= l.joined {
		for n := l.first; n < l.joined; n++ { // what is on its way to the engine
			if m := l.at(n); held[m.ID] == n && m.Time.After(ms[0].Time) {
				history = append(history, m)
			}
		}
		l.replace(history)
	}
	l.loading = false
	for _, m := range since {
		l.publish(m)
	}
}

// replace puts history in the place of all that was there before the topic was followed.
func (l *log) replace(history []*Message) {
	next := l.next.Load()
	all := history
	for n := l.joined; n < next; n++ {
		all = append(all, l.at(n))
	}
	l.first = next - uint64(len(all))
	l.bytes, l.ring = 0, newRing(len(all))
	for i, m := range all {
		l.ring[(l.first+uint64(i))&uint64(len(l.ring)-1)] = m
		l.bytes += m.size()
	}
	l.shrink(l.depth)
}
