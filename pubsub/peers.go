package pubsub

import (
	"errors"
	"strings"
	"sync"
	"time"
)

// PresenceTopic is the topic under which an Engine carries the presence of all topics: many small
// messages, which the hub sends and takes itself. No Topic of a program has this name.
const PresenceTopic = reserved + "presence"

var errPresence = errors.New("a presence has neither history nor groups")

// They are variables for the tests alone.
var (
	presenceLease = 9 * time.Second // after which a silent process counts as dead
	presenceAlive = 3 * time.Second // how often a process renews its lease
)

const (
	askAgain    = time.Second            // between two questions to a process
	settleAfter = time.Second            // beside presenceAlive, until all processes were heard
	membersGap  = 100 * time.Millisecond // between two answers with all members
	noteBytes   = 32 << 10               // of the names in a note, roughly
)

// presences is what a Hub has of presence. Each process numbers its changes. Another process that
// knows the members as of a number applies the next change to them; if it finds that it does not
// know all changes, it asks for the members. A process sends these between two changes, with the
// number of the last one, so nothing is missing after them.
type presences struct {
	mu      sync.Mutex // before any lock of a hub
	local   *Hub       // has the topics of changes; nil: presence was never used
	rosters map[string]*roster
	stale   string // Change.Stale

	// With an engine.
	engine Engine // nil: there is none, or its end has begun
	hub    *Hub
	timer  *time.Timer // calls tick
	peers  map[string]*peer
	ticked time.Time // when tick was called last
	since  time.Time // since when this process hears the others
	asked  time.Time // when all were asked

	// What the others are to be told.
	number     uint64                // of the last change that was sent
	own        map[string]*ownChange // by topic, those that were not
	scheduled  bool                  // flush is going to be called
	membersDue bool                  // a process has asked for the members
	membersAt  time.Time             // when they were sent last
}

// ownChange is what has changed in this process.
type ownChange struct {
	names     map[string]bool // who has come (true) or gone (false)
	published []string
}

// peer is another process.
type peer struct {
	heard   time.Time
	asked   time.Time
	known   bool   // members are those of the last change
	number  uint64 // of the last change that is in members
	members members

	// The parts of members that have come.
	parts    members
	partsOf  uint64 // number of the change that they are of
	nextPart uint64
}

// members has names, by topic.
type members map[string]map[string]struct{}

func (ms members) add(topic, name string) {
	if ms[topic] == nil {
		ms[topic] = make(map[string]struct{})
	}
	ms[topic][name] = struct{}{}
}

func (ms members) has(topic, name string) bool {
	_, ok := ms[topic][name]
	return ok
}

func (ms members) remove(topic, name string) {
	if delete(ms[topic], name); len(ms[topic]) == 0 {
		delete(ms, topic)
	}
}

// begin makes the hub ready for presence, once. The caller holds ps.mu.
func (ps *presences) begin(h *Hub) {
	if ps.local != nil {
		return
	}
	ps.local = &Hub{Limits: Limits{History: -1}}
	ps.local.init()
	ps.rosters = make(map[string]*roster)
	h.mu.Lock()
	ps.engine = h.engine
	h.mu.Unlock()
	if ps.engine == nil {
		return
	}
	ps.hub, ps.peers, ps.own = h, make(map[string]*peer), make(map[string]*ownChange)
	now := time.Now()
	ps.ticked, ps.stale = now, CatchingUp
	ps.hear(now)
	ps.engine.Follow(PresenceTopic, &Feed{depth: 1, presences: ps})
	ps.timer = time.AfterFunc(presenceAlive, ps.tick)
}

// hear notes that this process hears the others from now on.
func (ps *presences) hear(now time.Time) {
	ps.since = now
	time.AfterFunc(presenceAlive+settleAfter, func() {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		ps.updateStale()
	})
}

// updateStale tells all subscribers when Stale changes.
func (ps *presences) updateStale() {
	if ps.engine == nil {
		return
	}
	stale := ""
	if time.Since(ps.since) < presenceAlive+settleAfter {
		stale = CatchingUp
	}
	for _, pe := range ps.peers {
		if !pe.known {
			stale = CatchingUp
		}
	}
	if !ps.hub.Carried() {
		stale = CutOff
	}
	was := ps.stale
	if stale == was {
		return
	}
	ps.stale = stale
	for _, topic := range ps.local.topicsWithSubscribers() {
		r := ps.rosterOf(topic)
		if !r.restate {
			r.restate, r.was = true, was
		}
		ps.schedule(topic, r)
	}
	for _, r := range ps.rosters {
		r.listed = nil
	}
}

// topicsWithSubscribers returns the names of the topics of a hub without history.
func (h *Hub) topicsWithSubscribers() (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.logs {
		names = append(names, name)
	}
	return names
}

// setCarried notes that the broker was lost, or is back.
func (ps *presences) setCarried() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.engine == nil {
		return
	}
	if ps.hub.Carried() {
		now := time.Now()
		ps.hear(now)
		ps.ticked = now
		ps.sendChanges()
		ps.send(&note{kind: noteAlive})
	} else {
		for _, o := range ps.own {
			o.published = nil
		}
	}
	ps.updateStale()
}

// disconnect tells the others that this process has no members any more.
func (ps *presences) disconnect() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.engine == nil {
		return
	}
	if ps.hub.Carried() {
		ps.send(&note{kind: noteGone})
	}
	ps.timer.Stop()
	ps.engine = nil
}

// tick renews the lease of this process, and forgets those whose lease is over.
func (ps *presences) tick() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.engine == nil {
		return
	}
	now := time.Now()
	if now.Sub(ps.ticked) > 2*presenceAlive { // this process stood still, not the others
		ps.hear(now)
	}
	ps.ticked = now
	if ps.hub.Carried() {
		for origin, pe := range ps.peers {
			if now.Sub(pe.heard) > presenceLease && now.Sub(ps.since) > presenceLease {
				ps.forget(origin, pe)
			}
		}
		ps.send(&note{kind: noteAlive})
	}
	ps.updateStale()
	ps.timer.Reset(presenceAlive)
}

// send sends a note to the others.
func (ps *presences) send(n *note) {
	n.number = ps.number
	m := ps.hub.message(PresenceTopic, n.encode())
	m.Keep = 2 * presenceLease
	ps.engine.Publish(PresenceTopic, m)
}

// loaded is called when this process hears the others.
func (ps *presences) loaded() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.engine != nil && ps.asked.IsZero() {
		ps.asked = time.Now()
		ps.send(&note{kind: noteAsk})
	}
}

// deliver takes the notes of the others.
func (ps *presences) deliver(ms []*Message) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.engine == nil {
		return
	}
	now := time.Now()
	for _, m := range ms {
		origin, _, ok := strings.Cut(m.ID, "-")
		if !ok || origin == ps.hub.origin {
			continue
		}
		if n, err := parseNote(m.Data); err == nil {
			ps.take(origin, &n, now)
		}
	}
	ps.updateStale()
}

func (ps *presences) take(origin string, n *note, now time.Time) {
	pe := ps.peers[origin]
	if pe == nil {
		if n.kind == noteGone {
			return
		}
		// Before its first change a process has no members.
		pe = &peer{members: make(members), asked: ps.asked,
			known: n.kind == noteChanged && n.number == 1 || n.number == 0}
		ps.peers[origin] = pe
	}
	pe.heard = now
	switch n.kind {
	case noteGone:
		ps.forget(origin, pe)
		return
	case noteAsk:
		if n.asked == "" || n.asked == ps.hub.origin {
			ps.membersDue = true
			ps.flushSoon(presenceSoon)
		}
	case noteChanged:
		if pe.known && n.number == pe.number+1 {
			pe.number++
			ps.apply(pe, n)
		}
	case noteMembers:
		ps.takeMembers(pe, n)
		return
	}
	if !pe.known || n.number > pe.number {
		pe.known = false
		if now.Sub(pe.asked) >= askAgain {
			pe.asked = now
			ps.send(&note{kind: noteAsk, asked: origin})
		}
	}
}

// apply applies a change of another process.
func (ps *presences) apply(pe *peer, n *note) {
	for i := range n.topics {
		t := &n.topics[i]
		for _, name := range t.joined {
			if !pe.members.has(t.topic, name) {
				pe.members.add(t.topic, name)
				ps.update(t.topic, name, 0, 1)
			}
		}
		for _, name := range t.left {
			if pe.members.has(t.topic, name) {
				pe.members.remove(t.topic, name)
				ps.update(t.topic, name, 0, -1)
			}
		}
		for _, data := range t.published {
			ps.publishHere(t.topic, []byte(data))
		}
	}
}

// takeMembers takes a part of all members of another process.
func (ps *presences) takeMembers(pe *peer, n *note) {
	if pe.known {
		return // another process has asked
	}
	if n.part == 0 {
		pe.parts, pe.partsOf, pe.nextPart = make(members), n.number, 0
	}
	if pe.parts == nil || n.number != pe.partsOf || n.part != pe.nextPart {
		pe.parts = nil // one is missing: the process is asked again
		return
	}
	pe.nextPart++
	for i := range n.topics {
		for _, name := range n.topics[i].joined {
			pe.parts.add(n.topics[i].topic, name)
		}
	}
	if !n.last {
		return
	}
	old := pe.members
	pe.members, pe.parts = pe.parts, nil
	pe.known, pe.number = true, n.number
	ps.count(pe.members, old, 1)
	ps.count(old, pe.members, -1)
}

// count counts names of another process that are in a and not in b.
func (ps *presences) count(a, b members, n int32) {
	for topic, names := range a {
		for name := range names {
			if !b.has(topic, name) {
				ps.update(topic, name, 0, n)
			}
		}
	}
}

// forget forgets another process.
func (ps *presences) forget(origin string, pe *peer) {
	delete(ps.peers, origin)
	ps.count(pe.members, nil, -1)
}

// noteOwn notes that a name has come here, or gone, for the other processes.
func (ps *presences) noteOwn(topic, name string, came bool) {
	if ps.engine == nil {
		return
	}
	o := ps.ownOf(topic)
	if _, ok := o.names[name]; ok {
		delete(o.names, name)
	} else if o.names == nil {
		o.names = map[string]bool{name: came}
	} else {
		o.names[name] = came
	}
	ps.flushSoon(presenceSoon)
}

// notePublished notes what is published here.
func (ps *presences) notePublished(topic string, data []byte) {
	if ps.engine != nil && ps.hub.Carried() {
		o := ps.ownOf(topic)
		o.published = append(o.published, string(data))
		ps.flushSoon(presenceSoon)
	}
}

func (ps *presences) ownOf(topic string) *ownChange {
	o := ps.own[topic]
	if o == nil {
		o = new(ownChange)
		ps.own[topic] = o
	}
	return o
}

func (ps *presences) flushSoon(d time.Duration) {
	if !ps.scheduled {
		ps.scheduled = true
		time.AfterFunc(d, ps.flush)
	}
}

// flush sends what the others are to be told. While the broker is away, changes wait, and become
// one.
func (ps *presences) flush() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.scheduled = false
	if ps.engine == nil || !ps.hub.Carried() {
		return
	}
	ps.sendChanges()
	if !ps.membersDue {
		return
	}
	if wait := membersGap - time.Since(ps.membersAt); wait > 0 {
		ps.flushSoon(wait)
		return
	}
	ps.membersDue, ps.membersAt = false, time.Now()
	ps.sendMembers()
}

// sendChanges sends what has changed here, in one note or in several.
func (ps *presences) sendChanges() {
	n, bytes := &note{kind: noteChanged}, 0
	send := func() {
		if len(n.topics) > 0 {
			ps.number++
			ps.send(n)
		}
		n.topics, bytes = nil, 0
	}
	for topic, o := range ps.own {
		t := topicNote{topic: topic}
		add := func(list *[]string, s string) {
			*list = append(*list, s)
			if bytes += len(s); bytes > noteBytes {
				n.topics = append(n.topics, t)
				send()
				t = topicNote{topic: topic}
			}
		}
		for name, came := range o.names {
			if came {
				add(&t.joined, name)
			} else {
				add(&t.left, name)
			}
		}
		for _, data := range o.published {
			add(&t.published, data)
		}
		if len(t.joined)+len(t.left)+len(t.published) > 0 {
			bytes += len(topic)
			n.topics = append(n.topics, t)
		}
	}
	clear(ps.own)
	send()
}

// sendMembers sends all members of this process, as of the last change.
func (ps *presences) sendMembers() {
	n, bytes := &note{kind: noteMembers}, 0
	for topic, r := range ps.rosters {
		t := topicNote{topic: topic}
		for name, m := range r.members {
			if m.here == 0 {
				continue
			}
			t.joined = append(t.joined, name)
			if bytes += len(name); bytes > noteBytes {
				n.topics = append(n.topics, t)
				ps.send(n)
				n.topics, bytes = nil, 0
				n.part++
				t = topicNote{topic: topic}
			}
		}
		if len(t.joined) > 0 {
			bytes += len(topic)
			n.topics = append(n.topics, t)
		}
	}
	n.last = true
	ps.send(n)
}
