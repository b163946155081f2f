package pubsub

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lwango/lwango/loop"
)

// Presence is who is in a place of this process, such as a room, and tells them who comes and goes.
// Who is in a place of that name in another process is not among them, whether topics have a broker
// or not. All who come or go within a moment share a change, and the moment grows with the number
// of those who are told. So a place that fills with thousands costs each of them a few messages a
// second. A newcomer gets a list once, and changes from then on.
//
//	topic := hub.Topic("room 7 people")
//	r.presence = &pubsub.Presence{Topic: topic, Tell: func(c pubsub.Change) {
//		topic.Publish(encode(c))
//	}}
//	...
//	sub, roster := r.presence.Follow(t, pubsub.Options{})
//	r.presence.Join("Ann")
//	defer r.presence.Leave("Ann")
//
// Any goroutine may call its methods, except Follow. It must not be copied. Once everybody has
// left, nothing is left to be stopped.
type Presence struct {
	// Topic is what Follow subscribes to. Set it, and Tell, before the first use.
	Topic *Topic

	// Tell publishes a change to Topic, in one message or in several. It is called with a lock held:
	// it must neither wait nor call the Presence.
	Tell func(Change)

	mu     sync.Mutex
	times  map[string]int  // how often each name has come, and has not left
	news   map[string]bool // who has come (true) or gone (false) since the last change
	latest time.Time       // of the last change
	due    bool            // a change is going to be published
	roster *Roster         // as of the last change; nil: nobody has asked since
	closed bool
}

// Change is who has come and gone since the change before, sorted, and how many are there. One who
// has done both is not in it.
type Change struct {
	Joined, Left []string
	Count        int
}

// Roster is all who are there, as of one change. All who ask between two changes get the same one,
// so that it can be encoded once for them.
type Roster struct {
	Names []string // sorted; they must not be changed
}

// Page returns the first n names behind one, from the first on if that is empty, and whether more
// follow. The name need not be there any more.
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

// Has reports whether a name is there.
func (r *Roster) Has(name string) bool {
	_, found := slices.BinarySearch(r.Names, name)
	return found
}

// The time between two changes. With it a change takes the same share of the processor, some
// hundredths, however many are told.
const (
	presenceEach = 50 * time.Microsecond // for each who is there
	presenceMost = time.Second
	presenceSoon = 5 * time.Millisecond // from the first news to the change
)

// Join lets name in. A name that comes more than once, as with several windows, is there until it
// has left as often.
func (p *Presence) Join(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times == nil {
		p.times, p.news = make(map[string]int), make(map[string]bool)
	}
	if p.times[name]++; p.times[name] == 1 {
		p.turn(name, true)
	}
}

// Leave undoes one Join. Without that it does nothing.
func (p *Presence) Leave(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.times[name] {
	case 0:
	case 1:
		delete(p.times, name)
		p.turn(name, false)
	default:
		p.times[name]--
	}
}

// Close tells the last change at once, and none later. It is for a place that ends and whose topic
// may get another Presence then: its followers hear nothing of this one.
func (p *Presence) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell()
	p.closed = true
}

// Count returns how many names are there.
func (p *Presence) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.times)
}

// Has reports whether a name is there.
func (p *Presence) Has(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.times[name] > 0
}

// Follow subscribes t to the changes that come after the roster that it returns. A subscriber that
// has lost some of them unsubscribes, and calls it again.
func (p *Presence) Follow(t *loop.Thread, o Options) (*Subscription, *Roster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.roster == nil {
		names := make([]string, 0, len(p.times)+len(p.news))
		for name := range p.times {
			if !p.news[name] {
				names = append(names, name)
			}
		}
		for name, came := range p.news {
			if !came {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		p.roster = &Roster{names}
	}
	return p.Topic.Subscribe(t, o), p.roster
}

// turn notes that a name has come or gone.
func (p *Presence) turn(name string, came bool) {
	if _, ok := p.news[name]; ok {
		delete(p.news, name)
		return
	}
	if p.news[name] = came; !p.due {
		p.due = true
		gap := min(time.Duration(len(p.times))*presenceEach, presenceMost)
		time.AfterFunc(max(presenceSoon, time.Until(p.latest.Add(gap))), p.publish)
	}
}

// publish publishes a change, if there is one.
func (p *Presence) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = false
	p.tell()
}

func (p *Presence) tell() {
	if len(p.news) == 0 || p.closed {
		return
	}
	c := Change{Count: len(p.times)}
	for _, name := range slices.Sorted(maps.Keys(p.news)) {
		if p.news[name] {
			c.Joined = append(c.Joined, name)
		} else {
			c.Left = append(c.Left, name)
		}
	}
	clear(p.news)
	p.roster, p.latest = nil, time.Now()
	p.Tell(c)
}
