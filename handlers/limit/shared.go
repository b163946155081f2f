package limit

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/handlers"
)

// Store has the counts of all limits with the key shared, which processes with one broker have in
// common. Each counts what passes in it, and from time to time tells the others; so a sum is late
// by that time, and a request waits for nobody. Counts go on over a reload, unless the limit is
// another one. The zero Store has none. Any goroutine may call its methods.
type Store struct {
	names atomic.Pointer[Names] // those in force; nil: none
}

// Names are the shared limits of a configuration.
type Names struct {
	store  *Store
	broker bool
	all    map[string]*shared
}

// Begin returns the names for a new configuration, which has none yet; s may be nil. broker says
// whether it names one. One goroutine builds the configuration.
func (s *Store) Begin(broker bool) *Names {
	return &Names{store: s, broker: broker, all: make(map[string]*shared)}
}

// Use puts the names into force in place of those before; n may be nil.
func (n *Names) Use() {
	if n != nil && n.store != nil {
		n.store.names.Store(n)
	}
}

// Shares reports whether any limit in force is shared.
func (s *Store) Shares() bool {
	n := s.names.Load()
	return n != nil && len(n.all) > 0
}

// shared is a limit of that name.
type shared struct {
	is      string // what it counts, for limits of the same name
	clients *clients

	mu      sync.Mutex
	pending map[id]uint32 // passed here since the others were told
}

// maxPending is how many clients a limit tells the others of at a time. What is beyond that counts
// in this process alone.
const maxPending = 1 << 14

func (s *shared) note(of id) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.pending[of]; ok || len(s.pending) < maxPending {
		s.pending[of] = n + 1
	}
}

// maxSharedName is the length of the longest name.
const maxSharedName = 64

// open returns the counts of a name. Limits with the same name are the same.
func (n *Names) open(name string, r Rate, burst int, by keyKind, text string) (*clients, error) {
	switch {
	case n == nil || !n.broker:
		return nil, handlers.BadKey("shared", "needs the key url of [pubsub], by which the processes "+
			"tell each other")
	case len(name) > maxSharedName:
		return nil, handlers.BadKey("shared", "a name has at most %d bytes", maxSharedName)
	}
	is := fmt.Sprintf("%v, %d at once, by %q", r, burst, text)
	s := n.all[name]
	if s != nil && s.is != is {
		return nil, handlers.BadKey("shared", "another limit of the name %q is %s; this one is %s", name,
			s.is, is)
	}
	if s == nil && n.store != nil {
		if before := n.store.names.Load(); before != nil && before.all[name] != nil &&
			before.all[name].is == is {
			s = before.all[name]
		}
	}
	if s == nil {
		s = &shared{is: is, clients: newClients(r, burst, by), pending: make(map[id]uint32)}
		s.clients.shared = s
	}
	n.all[name] = s
	return s.clients, nil
}

// perMessage is how many clients a message tells of.
const perMessage = 1000

// Flush calls publish with what has passed in this process since the last call, for Apply of the
// others. It does not keep the text.
func (s *Store) Flush(publish func(text []byte)) {
	n := s.names.Load()
	if n == nil {
		return
	}
	for name, limit := range n.all {
		limit.mu.Lock()
		passed := limit.pending
		if len(passed) > 0 {
			limit.pending = make(map[id]uint32)
		}
		limit.mu.Unlock()
		head := append(binary.AppendUvarint(nil, uint64(len(name))), name...)
		text, inText := head[:len(head):len(head)], 0
		for of, count := range passed {
			text = append(append(text, byte(of.kind)), of.of[:]...)
			text = binary.AppendUvarint(text, uint64(count))
			if inText++; inText == perMessage {
				publish(text)
				text, inText = head[:len(head):len(head)], 0
			}
		}
		if inText > 0 {
			publish(text)
		}
	}
}

// Apply counts what has passed in another process. A text that is none of Flush is ignored from
// where it is wrong.
func (s *Store) Apply(text []byte) {
	n := s.names.Load()
	size, used := binary.Uvarint(text)
	if n == nil || used <= 0 || size > uint64(len(text)-used) {
		return
	}
	limit := n.all[string(text[used:][:size])]
	if limit == nil {
		return
	}
	now := int64(time.Since(epoch))
	for text = text[used+int(size):]; len(text) > 17; {
		of := id{kind(text[0]), [16]byte(text[1:17])}
		count, used := binary.Uvarint(text[17:])
		if used <= 0 {
			return
		}
		limit.clients.add(of, int64(min(count, maxCount)), now)
		text = text[17+used:]
	}
}
