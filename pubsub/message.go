package pubsub

import (
	"sync"
	"sync/atomic"
	"time"
)

// Message is a published message. All subscribers get the same Message, and must change neither it
// nor the bytes of Data.
type Message struct {
	// ID identifies the message within its topic, in all processes that share the topic. It
	// consists of letters, digits and a dash. It says nothing about the order.
	ID string

	// Topic is the name of the topic that it was published to.
	Topic string

	// Time is when it was published, by the clock of the publishing process.
	Time time.Time

	// Keep is how long a broker is to remember the topic after this message. 0 leaves that to the
	// broker.
	Keep time.Duration

	Data []byte

	// Count numbers the messages without a Keep that a process publishes to the topic, from 1 on; it
	// is 0 if the message has a Keep, or the number is not known. An Engine carries Count, and learns
	// from a missing number what was lost. A process that has forgotten the topic meanwhile begins
	// anew with 1.
	Count uint64

	forms   atomic.Pointer[form]
	forming sync.Mutex

	holders int32 // by how many of its topic: the ring, and queues; under the log's lock
	lost    int32 // see Lost
}

// messageSize is roughly what a message takes beside its data. It counts for the bounds in bytes,
// which otherwise would not hold for many small messages.
const messageSize = 128

// size is 0 of nil, which stands in a log for a message that was lost.
func (m *Message) size() int {
	if m == nil {
		return 0
	}
	return len(m.Data) + messageSize
}

// form is the result of a function that Shared has returned, for one message.
type form struct {
	of    *byte // identifies the function
	value any
	next  *form
}

// Shared returns a function that calls make once for each message, however many subscribers ask on
// whichever loops, and gives all of them the same result. They must not change it. So a frame is
// built, or compressed, once for a whole room. It is for package variables:
//
//	var frame = pubsub.Shared(func(data []byte) *websocket.PreparedMessage { ... })
//
// The result lives until all subscribers to the topic wait for a later message; and as long as the
// message, if a Pattern or a queue group has it, too, or history of the topic was asked for. make
// must not wait, because other loops wait for it.
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
