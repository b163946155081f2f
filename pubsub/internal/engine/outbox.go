package engine

import (
	"slices"
	"sync"

	"github.com/lwango/lwango/pubsub"
)

// The bounds of all outboxes together, by number and bytes. The oldest messages of the fullest
// outbox are dropped first.
const (
	MaxQueued      = 1 << 14
	maxQueuedBytes = 32 << 20
)

// maxBatchBytes bounds the bytes of a batch of more than one message.
const maxBatchBytes = 1 << 20

// queue has all outboxes, and the lock of all of them.
type queue struct {
	mu      sync.Mutex
	boxes   []*Outbox
	number  int // of messages in the outboxes, without those in flight
	bytes   int
	lost    int
	closed  bool
	writers sync.WaitGroup
}

// Item is a message that is to be sent.
type Item struct {
	Topic string
	*pubsub.Message
}

// Outbox has the messages to one server of the broker, in order. A goroutine sends them. Any
// goroutine may append to it.
type Outbox struct {
	base     *Base
	send     func(batch []Item) (lost int, err error)
	end      func()
	maxBatch int           // messages of a batch
	wakeup   chan struct{} // has an element, or soon will, when the goroutine has to call take

	// Under the queue's lock.
	running  bool
	woken    bool
	items    []Item
	bytes    int
	inFlight []Item // taken by the goroutine, and not acknowledged yet
}

// Outbox makes an outbox. Its goroutine starts with the first message. It calls send with one batch
// of at most so many messages after another, and again with the same batch if send returns an
// error. After a call of Wake a batch may be empty. lost counts the messages that the broker
// refuses for good. The goroutine calls end before it returns.
func (b *Base) Outbox(most int, send func(batch []Item) (lost int, err error), end func()) *Outbox {
	o := &Outbox{base: b, maxBatch: most, send: send, end: end, wakeup: make(chan struct{}, 1)}
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	b.queue.boxes = append(b.queue.boxes, o)
	return o
}

// signal makes the goroutine call take. The caller holds the queue's lock.
func (o *Outbox) signal() {
	if q := &o.base.queue; !o.running && !q.closed {
		o.running = true
		q.writers.Go(o.run)
	}
	select {
	case o.wakeup <- struct{}{}:
	default:
	}
}

// Add appends a message.
func (o *Outbox) Add(topic string, m *pubsub.Message) {
	q := &o.base.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	o.items = append(o.items, Item{topic, m})
	q.number++
	q.bytes += len(m.Data)
	o.bytes += len(m.Data)
	for q.number > MaxQueued {
		q.fullest(func(o *Outbox) int { return len(o.items) }).drop()
	}
	for q.bytes > maxQueuedBytes && q.number > 1 {
		q.fullest(func(o *Outbox) int { return o.bytes }).drop()
	}
	o.signal()
}

// fullest returns the outbox that holds most.
func (q *queue) fullest(held func(*Outbox) int) *Outbox {
	return slices.MaxFunc(q.boxes, func(a, b *Outbox) int { return held(a) - held(b) })
}

// drop drops the oldest message.
func (o *Outbox) drop() {
	q, n := &o.base.queue, len(o.items[0].Data)
	o.items[0] = Item{}
	o.items = o.items[1:]
	o.bytes -= n
	q.bytes -= n
	q.number--
	q.lost++
}

// Wake makes the goroutine call send with the next messages, or none.
func (o *Outbox) Wake() {
	q := &o.base.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	o.woken = true
	o.signal()
}

// take takes the next batch. todo is false if there is nothing to send, and closed says that
// nothing will follow.
func (o *Outbox) take(batch []Item) (_ []Item, todo, closed bool) {
	q := &o.base.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < min(len(o.items), o.maxBatch) && (n == 0 || bytes+len(o.items[n].Data) <= maxBatchBytes) {
		bytes += len(o.items[n].Data)
		n++
	}
	batch = append(batch[:0], o.items[:n]...)
	clear(o.items[:n])
	if o.items = o.items[n:]; len(o.items) == 0 {
		o.items = nil
	}
	o.bytes -= bytes
	q.bytes -= bytes
	q.number -= n
	o.inFlight = batch
	todo = n > 0 || o.woken
	o.woken = false
	return batch, todo, q.closed
}

// sent notes that the batch was sent, and returns how many messages are left.
func (o *Outbox) sent(lost int) (left int) {
	q := &o.base.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	o.inFlight = nil
	q.lost += lost
	return len(o.items)
}

// run sends, until the queue is closed and the outbox empty.
func (o *Outbox) run() {
	defer o.end()
	var batch []Item
	for {
		var todo, closed bool
		if batch, todo, closed = o.take(batch); !todo {
			if closed {
				return
			}
			<-o.wakeup
			continue
		}
		var b Backoff
		for {
			lost, err := o.send(batch)
			if err == nil {
				if o.sent(lost) <= o.maxBatch { // not 0: under traffic there are always messages
					o.base.Report(o, nil)
				}
				clear(batch)
				break
			}
			o.base.Report(o, err)
			if !o.base.Pause(b.Next()) {
				return
			}
		}
	}
}

// close waits for the goroutines, which return when they have nothing to send.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	for _, o := range q.boxes {
		o.signal()
	}
	q.mu.Unlock()
	q.writers.Wait()
}

// Waiting returns the messages of a topic that the broker has not acknowledged.
func (o *Outbox) Waiting(topic string) (ms []*pubsub.Message) {
	q := &o.base.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, items := range [][]Item{o.inFlight, o.items} {
		for _, it := range items {
			if it.Topic == topic {
				ms = append(ms, it.Message)
			}
		}
	}
	return ms
}

// Pending returns how many messages the broker has not acknowledged.
func (b *Base) Pending() (n int) {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	n = b.queue.number
	for _, o := range b.queue.boxes {
		n += len(o.inFlight)
	}
	return n
}

// Lost returns how many messages have not reached the broker and never will.
func (b *Base) Lost() int {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.queue.lost
}
