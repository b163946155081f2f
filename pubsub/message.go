package pubsub

import (
	"sync"
	"sync/atomic"
	"time"
)

// Message is what was published. All subscribers have the same one, so nobody changes it, nor what Data points to.
type Message struct {
	// ID names the message among all of its topic, on all processes that share it: letters, digits and a dash. It tells
	// nothing about the order.
	ID string

	// Time is when it was published, by the clock of the process that did.
	Time time.Time

	// Keep is how long a broker is to remember the topic after this message, 0 if that is the
	// broker's choice.
	Keep time.Duration

	Data []byte

	forms   atomic.Pointer[form]
	forming sync.Mutex

	held int32 // by its topic: the log, and queues of subscribers' own; under the log's lock
}

// messageSize is what a message takes beside its data, roughly: for the bounds in bytes, which many small messages must
// not get around.
const messageSize = 128

func (m *Message) size() int { return len(m.Data) + messageSize }

// form is what Shared has made of a message.
type form struct {
	of    *byte // whose
	value any
	next  *form
}

// Shared returns a function that calls make once for a message, however many subscribers ask, on whichever loops, and
// gives all of them the result, which therefore nobody may change. So a frame is built, or compressed, once for a whole
// room. It is for package variables:
//
//	var frame = pubsub.Shared(func(data []byte) *websocket.PreparedMessage { ... })
//
// What make returns lives as long as the message. It must not wait: the other loops wait for it.
func Shared[T any](make func(data []byte) T) func(m *Message) T {
	of := new(byte)
	find := func(m *Message) (value T, ok bool) {
		for f := m.forms.Load(); f != nil; f = f.next {
			if f.of == of {
				return f.value.(T), true
			}
		}
		return value, false
	}
	return func(m *Message) T {
		value, ok := find(m)
		if ok {
			return value
		}
		m.forming.Lock()
		defer m.forming.Unlock()
		if value, ok = find(m); !ok {
			value = make(m.Data)
			m.forms.Store(&form{of: of, value: value, next: m.forms.Load()})
		}
		return value
	}
}
