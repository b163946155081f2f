package pubsub

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lwango/lwango/loop"
)

// Presence is the list of the members of a place of this process, such as a room, and tells members
// who joins and leaves. It does not know the members of a place with the same name in another
// process, whether topics have a broker or not. Joins and leaves within a short time are one
// Change, and that time grows with the number of members. So a place that fills with thousands
// costs each of them a few messages a second. A new member gets the list once, and changes from
// then on.
//
//	topic := hub.Topic("room 7 people")
//	r.presence = &pubsub.Presence{Topic: topic, Publish: func(c pubsub.Change) {
//		topic.Publish(encode(c))
//	}}
//	...
//	sub, roster := r.presence.Follow(t, pubsub.Options{})
//	r.presence.Join("Ann")
//	defer r.presence.Leave("Ann")
//
// Any goroutine may call its methods, except Follow. It must not be copied. Once all members have
// left, it has no timer and needs no Close.
type Presence struct {
	// Topic is what Follow subscribes to. Set it, and Publish, before the first use.
	Topic *Topic

	// Publish publishes a change to Topic, in one message or in several. It is called with a lock
	// held: it must neither wait nor call the Presence.
	Publish func(Change)

	mu        sync.Mutex
	joins     map[string]int  // how often each name has come, and has not left
	changed   map[string]bool // who has come (true) or gone (false) since the last change
	published time.Time       // of the last change
	scheduled bool            // a change is going to be published
	roster    *Roster         // as of the last change; nil: nobody has asked since
	closed    bool
}

// Change has the names that have joined and left since the change before, sorted, and the number of
// members. A name that has done both is not in it.
type Change struct {
	Joined, Left []string
	Count        int
}

// Roster has the names of all members, as of one change. Calls of Follow between two changes return
// the same Roster, so that it can be encoded once for them.
type Roster struct {
	Names []string // sorted; they must not be changed
}

// Page returns n names that follow after, or the first n if after is empty, and whether more
// follow. after need not be a member any more.
func (r *Roster) Page(after string, n int) (names []string, more bool) {
	at, found := slices.BinarySearch(r.Names, after)
	if found && after != "" {
		at++
	}
	names = r.Names[at:]
	if len(names) > n {
		return names[:max(n, 0)], true
	}
	return names, false
}

// Has reports whether a name is in the list.
func (r *Roster) Has(name string) bool {
	_, found := slices.BinarySearch(r.Names, name)
	return found
}

// The time between two changes grows with the number of members. So changes take some hundredths of
// the processor's time, however many members there are.
const (
	presenceEach = 50 * time.Microsecond // for each member
	presenceMost = time.Second
	presenceSoon = 5 * time.Millisecond // from the first join or leave to the change
)

// Join adds a name. A name that joins more than once, as with several windows, is a member until it
// has left as often.
func (p *Presence) Join(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.joins == nil {
		p.joins, p.changed = make(map[string]int), make(map[string]bool)
	}
	if p.joins[name]++; p.joins[name] == 1 {
		p.noteChange(name, true)
	}
}

// Leave undoes one Join, if there was one.
func (p *Presence) Leave(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.joins[name] {
	case 0:
	case 1:
		delete(p.joins, name)
		p.noteChange(name, false)
	default:
		p.joins[name]--
	}
}

// Close publishes the last change at once, and none later. It is for a place that ends: its topic
// may then have another Presence, whose subscribers must not get changes of this one.
func (p *Presence) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.publishChange()
	p.closed = true
}

// Count returns the number of members.
func (p *Presence) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.joins)
}

// Has reports whether a name is a member.
func (p *Presence) Has(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.joins[name] > 0
}

// Follow subscribes t to the changes that come after the roster that it returns. A subscriber that
// has lost some of them unsubscribes, and calls it again.
func (p *Presence) Follow(t *loop.Thread, o Options) (*Subscription, *Roster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.roster == nil {
		names := make([]string, 0, len(p.joins)+len(p.changed))
		for name := range p.joins {
			if !p.changed[name] {
				names = append(names, name)
			}
		}
		for name, came := range p.changed {
			if !came {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		p.roster = &Roster{names}
	}
	return p.Topic.Subscribe(t, o), p.roster
}

// noteChange notes that a name has joined or left.
func (p *Presence) noteChange(name string, came bool) {
	if _, ok := p.changed[name]; ok {
		delete(p.changed, name)
		return
	}
	if p.changed[name] = came; !p.scheduled {
		p.scheduled = true
		gap := min(time.Duration(len(p.joins))*presenceEach, presenceMost)
		time.AfterFunc(max(presenceSoon, time.Until(p.published.Add(gap))), p.publish)
	}
}

// publish publishes a change, if there is one.
func (p *Presence) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scheduled = false
	p.publishChange()
}

func (p *Presence) publishChange() {
	if len(p.changed) == 0 || p.closed {
		return
	}
	c := Change{Count: len(p.joins)}
	for _, name := range slices.Sorted(maps.Keys(p.changed)) {
		if p.changed[name] {
			c.Joined = append(c.Joined, name)
		} else {
			c.Left = append(c.Left, name)
		}
	}
	clear(p.changed)
	p.roster, p.published = nil, time.Now()
	p.Publish(c)
}
