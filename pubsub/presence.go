package pubsub

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lwango/lwango/loop"
)

// Presence is the list of the members of a topic, such as a room, in all processes, and tells its
// subscribers who joins and leaves. Joins and leaves within a short time are one Change, and that
// time grows with the number of members. So a room that fills with thousands costs each of them a
// few messages a second.
//
//	people := hub.Topic("room 7").Presence()
//	people.Join("Ann")
//	defer people.Leave("Ann")
//	sub := people.Subscribe(t, pubsub.Options{})
//	m, err := sub.Receive(time.Minute) // m.Data is a Change as JSON: first a list, then what changes
//
// Any goroutine may call its methods, except Subscribe. It needs no Close: what a hub holds of it
// ends with its members and subscribers.
//
// With an Engine each process tells the others of its own members, and every process knows the
// members of all topics. A process renews the lease of all its members at once, every three
// seconds; the members of a process that dies have left when the lease is over, nine seconds after
// it was renewed last, and at most three seconds later. While the broker is away the list keeps
// what was known, with the changes of this process, and is Stale. Once the broker is back, a
// process that has missed a change of another one asks it for its members, so the list is exact
// again, and subscribers get each difference once.
type Presence Topic

// Change is what the messages of a Presence have in Data, as JSON. A name that has joined and left
// since the change before is not in it.
type Change struct {
	Topic string `json:"topic"`

	// List says that this is the first message of a subscription. Joined has all members then.
	List bool `json:"list,omitempty"`

	Joined []string `json:"joined,omitempty"` // since the message before, sorted
	Left   []string `json:"left,omitempty"`
	Count  int      `json:"count"` // of the members

	// Stale says why members of other processes may be missing, or may have left: CutOff or
	// CatchingUp. It is empty if the list is exact. When it changes, that is told by a Change, too.
	Stale string `json:"stale,omitempty"`
}

// What Change.Stale says.
const (
	CutOff     = "cut off"     // the broker is away
	CatchingUp = "catching up" // this process has not heard everything of the others yet
)

// Presence returns the members of the topic. They have nothing to do with its messages or its
// subscribers. All calls for topics of one name return the same members.
func (tp *Topic) Presence() *Presence { return (*Presence)(tp) }

// Join adds a member. A name that joins more than once, as with several windows, is one member
// until it has left as often, in whichever processes. The name is text; it is kept.
func (p *Presence) Join(name string) { p.count(name, 1) }

// Leave undoes one Join of this process, if there was one.
func (p *Presence) Leave(name string) { p.count(name, -1) }

func (p *Presence) count(name string, n int32) {
	ps := p.lock()
	defer ps.mu.Unlock()
	name = strings.ToValidUTF8(name, "\uFFFD") // as JSON has it
	before := int32(0)
	if r := ps.rosters[p.name]; r != nil {
		before = r.members[name].here
	}
	if before+n < 0 {
		return
	}
	ps.update(p.name, name, n, 0)
	if before == 0 || before+n == 0 {
		ps.noteOwn(p.name, name, n > 0)
	}
}

// Publish gives data to the subscribers in all processes, between two changes. Nobody remembers it,
// and while the broker is away it reaches only those of this process: it is for what means nothing
// a moment later, such as that a member is typing. Subscribers must be able to tell it from a
// Change.
func (p *Presence) Publish(data []byte) {
	ps := p.lock()
	defer ps.mu.Unlock()
	ps.publishHere(p.name, data)
	ps.notePublished(p.name, data)
}

// List returns the members as of the last change, with List set.
func (p *Presence) List() Change {
	ps := p.lock()
	defer ps.mu.Unlock()
	return ps.list(p.name)
}

// Subscribe subscribes t to a list of the members, and to the changes that come after it. No change
// is missing between them, and none comes twice. A subscriber that has lost some later (see
// Subscription.Dropped) unsubscribes, and subscribes anew. Options that ask for history or a group
// are refused. For the rest see Topic.Subscribe.
func (p *Presence) Subscribe(t *loop.Thread, o Options) *Subscription {
	if o.History > 0 || o.After != "" || o.Group != "" {
		return newRefused(t, errPresence)
	}
	ps := p.lock()
	defer ps.mu.Unlock()
	s := ps.local.topic(p.name).Subscribe(t, o)
	s.needExtra().first = ps.listMessage(p.name)
	return s
}

// lock locks what the hub has of presence.
func (p *Presence) lock() *presences {
	ps := &p.hub.presence
	ps.mu.Lock()
	ps.begin(p.hub)
	return ps
}

// roster is the members of one topic. It exists while there are any, or a change is to be
// published.
type roster struct {
	members   map[string]member
	changed   map[string]bool // who has come (true) or gone (false) since the last change
	published time.Time       // of the last change
	scheduled bool            // a change is going to be published
	restate   bool            // also if nobody has come or gone: Stale has changed
	was       string          // what it was before that
	listed    *Message        // as of the last change; nil: nobody has asked since
}

// member says where a name is. It is in the map while one of them is not 0.
type member struct {
	here      int32 // how often it has joined in this process, and not left
	elsewhere int32 // in how many other processes it is
}

// The time between two changes grows with the number of members. So changes take some hundredths of
// the processor's time, however many members there are.
const (
	presenceEach = 50 * time.Microsecond // for each member
	presenceMost = time.Second
	presenceSoon = 5 * time.Millisecond // from the first join or leave to the change
)

func (ps *presences) rosterOf(topic string) *roster {
	r := ps.rosters[topic]
	if r == nil {
		r = new(roster)
		ps.rosters[topic] = r
	}
	return r
}

// update changes where a name is, and publishes soon if it has come or gone by that.
func (ps *presences) update(topic, name string, here, elsewhere int32) {
	r := ps.rosterOf(topic)
	m, was := r.members[name]
	m.here += here
	m.elsewhere += elsewhere
	is := m != member{}
	switch {
	case is && r.members == nil:
		r.members = map[string]member{name: m}
	case is:
		r.members[name] = m
	default:
		delete(r.members, name)
	}
	if was == is {
		return
	}
	if _, ok := r.changed[name]; ok {
		delete(r.changed, name)
	} else if r.changed == nil {
		r.changed = map[string]bool{name: is}
	} else {
		r.changed[name] = is
	}
	ps.schedule(topic, r)
}

// schedule makes the roster publish a change soon.
func (ps *presences) schedule(topic string, r *roster) {
	if r.scheduled {
		return
	}
	r.scheduled = true
	gap := min(time.Duration(len(r.members))*presenceEach, presenceMost)
	time.AfterFunc(max(presenceSoon, time.Until(r.published.Add(gap))), func() {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		ps.publishChange(topic, r)
	})
}

// publishChange publishes a change, if there is one.
func (ps *presences) publishChange(topic string, r *roster) {
	r.scheduled = false
	if len(r.changed) > 0 || r.restate {
		c := Change{Count: len(r.members), Stale: ps.stale}
		for _, name := range slices.Sorted(maps.Keys(r.changed)) {
			if r.changed[name] {
				c.Joined = append(c.Joined, name)
			} else {
				c.Left = append(c.Left, name)
			}
		}
		r.changed, r.restate, r.listed, r.published = nil, false, nil, time.Now()
		if ps.local.find(topic) != nil {
			ps.publishHere(topic, c.encode(topic))
		}
	}
	if len(r.members) == 0 {
		delete(ps.rosters, topic)
	}
}

func (c Change) encode(topic string) []byte {
	c.Topic, _ = programName(topic)
	data, _ := json.Marshal(c) // cannot fail
	return data
}

// publishHere publishes to the subscribers of this process.
func (ps *presences) publishHere(topic string, data []byte) {
	if ps.local.find(topic) != nil {
		ps.local.topic(topic).Publish(data)
	}
}

// list returns the members as of the last change.
func (ps *presences) list(topic string) Change {
	c := Change{List: true, Stale: ps.stale}
	if r := ps.rosters[topic]; r != nil {
		if r.restate {
			c.Stale = r.was // the change is still to come
		}
		for name := range r.members {
			if !r.changed[name] {
				c.Joined = append(c.Joined, name)
			}
		}
		for name, came := range r.changed {
			if !came {
				c.Joined = append(c.Joined, name)
			}
		}
	}
	slices.Sort(c.Joined)
	c.Topic, _ = programName(topic)
	c.Count = len(c.Joined)
	return c
}

// listMessage returns a list as a message. Subscriptions between two changes have the same, so that
// frames of it are made once for them. A quiet room does not keep it.
func (ps *presences) listMessage(topic string) *Message {
	r := ps.rosters[topic]
	if r != nil && r.listed != nil {
		return r.listed
	}
	c := ps.list(topic)
	m := ps.local.message(topic, c.encode(topic))
	if r != nil {
		r.listed = m
		time.AfterFunc(presenceMost, func() {
			ps.mu.Lock()
			defer ps.mu.Unlock()
			if r.listed == m {
				r.listed = nil
			}
		})
	}
	return m
}
