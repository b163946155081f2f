package servefiles

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/internal/base/fair"
	"github.com/lwango/lwango/loop"
)

var (
	// listingFor is how long a listing answers other requests for the same folder in the same order.
	listingFor = time.Second

	// listingRoom bounds the bytes of all listings of a route that are kept, or that clients are
	// still being sent. Tests change it.
	listingRoom = 64 << 20
)

// listings are what a route has read of its folders. Any goroutine may call the methods.
//
// A request reads its folder only if no listing is kept for it, and one folder is read at a time,
// because workers that compute hold up the loops. The networks of the clients take turns. Once
// read, a listing does not change; a client that takes it slowly holds its bytes, and nobody's
// turn.
type listings struct {
	reading *fair.Slots

	mu     sync.Mutex
	newest map[listingKey]*listing
	bytes  int // of those in newest, and of older ones that are still being sent
}

// listingKey says which listing it is: a folder may be asked for in several orders.
type listingKey struct {
	name string // below the root, with a slash at its end; empty for the root
	by   order
}

func newListings() *listings {
	return &listings{reading: fair.NewSlots(func() int { return 1 }),
		newest: make(map[listingKey]*listing)}
}

// use returns a listing that is kept, or nil. release must follow.
func (s *listings) use(key listingKey) *listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.newest[key]
	if l == nil || !l.fresh {
		return nil
	}
	l.users++
	return l
}

// add takes a listing that was just read, and returns the one to use: an older one, which some
// client is still being sent, if it is the same, so that slow clients of one folder hold it once.
// release must follow. It returns nil if there is no room. A listing may take an eighth of what is
// left, so when large ones have taken what they may, there is still room for many small ones.
func (s *listings) add(l *listing) *listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.newest[l.listingKey]; old != nil && old.same(l) {
		l = old
	} else {
		if l.bytes = l.size(); l.bytes > (listingRoom-s.bytes)/8 {
			return nil
		}
		s.bytes += l.bytes
		s.newest[l.listingKey] = l
	}
	l.users++
	l.fresh = true
	time.AfterFunc(listingFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		l.fresh = false
		s.drop(l)
	})
	return l
}

// release ends the use of l by one request.
func (s *listings) release(l *listing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.users--
	s.drop(l)
}

// drop forgets l if nobody uses it any more. s.mu is held.
func (s *listings) drop(l *listing) {
	if l.fresh || l.users > 0 {
		return
	}
	s.bytes -= l.bytes
	if s.newest[l.listingKey] == l {
		delete(s.newest, l.listingKey)
	}
}

// same reports whether both show the same.
func (l *listing) same(other *listing) bool {
	return l.total == other.total && l.readme == other.readme &&
		bytes.Equal(l.text, other.text) && slices.Equal(l.entries, other.entries)
}

// size returns about how many bytes of memory l takes.
func (l *listing) size() int {
	const ofEntry, ofString = 40, 8 // the latter is what the allocator rounds up, on average
	n := ofEntry*cap(l.entries) + cap(l.text) + len(l.name)
	for i := range l.entries {
		n += len(l.entries[i].name) + ofString
	}
	return n
}

// listingOf returns a listing that was kept or is read now, by a worker, when it is the client's
// turn. It is the thread that waits for its turn, and no worker. The listing is nil if there is no
// room for it; otherwise release must follow.
func (m *module) listingOf(t *loop.Thread, client netip.Addr, key listingKey) (*listing, error) {
	s := m.listings
	if l := s.use(key); l != nil {
		return l, nil
	}
	var turn loop.Promise[struct{}]
	slot := s.reading.Enter(client, false, func() { turn.Resolve(struct{}{}) })
	var taken atomic.Bool // the worker gives the turn to the next, or else the thread does
	defer func() {        // also if the thread is killed
		if taken.CompareAndSwap(false, true) && !s.reading.Withdraw(slot) {
			s.reading.Leave()
		}
	}()
	defer t.KeepWaiting(t.KeepWaiting(true)) // see elsewhere
	if _, err := turn.Await(t, -1); err != nil {
		return nil, err
	}
	if l := s.use(key); l != nil { // another request has read it meanwhile
		return l, nil
	}
	return elsewhere(t, func() (*listing, error) {
		if !taken.CompareAndSwap(false, true) {
			return nil, loop.ErrCanceled
		}
		defer s.reading.Leave()
		l := &listing{listingKey: key}
		if err := l.read(m); err != nil {
			return nil, err
		}
		return s.add(l), nil
	}, func(l *listing) {
		if l != nil {
			s.release(l)
		}
	})
}
