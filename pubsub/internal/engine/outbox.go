package engine

import (
	"slices"
	"sync"

	"github.com/lwango/lwango/pubsub"
)

// The bounds of what waits for the broker, by number and bytes, in all outboxes together. The
// oldest messages of the fullest outbox are dropped first.
const (
	MaxQueued      = 1 << 14
	maxQueuedBytes = 32 << 20
)

// maxBatchBytes is what is sent at once, if it is more than one message.
const maxBatchBytes = 1 << 20

// queue is what is still to be sent. Its lock is that of all outboxes.
type queue struct {
	mu      sync.Mutex
	boxes   []*Outbox
	number  int // of messages in the outboxes that are not under way
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

// Outbox is what is still to be sent to one server of the broker, in order. A goroutine sends it.
// Any goroutine may append to it.
type Outbox struct {
	base      *Base
	send      func(batch []Item) (lost int, err error)
	end       func()
	most      int           // messages of a batch
	something chan struct{} // has an element, or soon will, when there is something to do

	// Under the queue's lock.
	running bool
	poked   bool
	items   []Item
	bytes   int
	flight  []Item // taken, and not acknowledged yet
}

// Outbox makes an outbox. A goroutine, which starts when there is first something to do, calls send
// with one batch of at most so many messages after another, and again with the same one if it
// returns an error. A batch is empty after a Poke. lost counts the messages that the broker refuses
// for good. end is the last that the goroutine calls.
func (b *Base) Outbox(most int, send func(batch []Item) (lost int, err error), end func()) *Outbox {
	o := &Outbox{base: b, most: most, send: send, end: end, something: make(chan struct{}, 1)}
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	b.queue.boxes = append(b.queue.boxes, o)
	return o
}

// signal has the goroutine look. The caller holds the queue's lock.
func (o *Outbox) signal() {
	if q := &o.base.queue; !o.running && !q.closed {
		o.running = true
		q.writers.Go(o.run)
	}
	select {
	case o.something <- struct{}{}:
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

// Poke has send called, with whatever is to be sent next.
func (o *Outbox) Poke() {
	q := &o.base.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	o.poked = true
	o.signal()
}

// take takes what is to be sent next. todo is false if that is nothing, and closed says whether
// anything can follow.
func (o *Outbox) take(batch []Item) (_ []Item, todo, closed bool) {
	q := &o.base.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < min(len(o.items), o.most) && (n == 0 || bytes+len(o.items[n].Data) <= maxBatchBytes) {
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
	o.flight = batch
	todo = n > 0 || o.poked
	o.poked = false
	return batch, todo, q.closed
}

// sent notes that what was taken is done with, and returns how many messages are left.
func (o *Outbox) sent(lost int) (left int) {
	q := &o.base.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	o.flight = nil
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
			<-o.something
			continue
		}
		var b Backoff
		for {
			lost, err := o.send(batch)
			if err == nil {
				if o.sent(lost) <= o.most { // not 0: under traffic there is always something
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
	for _, items := range [][]Item{o.flight, o.items} {
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
		n += len(o.flight)
	}
	return n
}

// Lost returns how many messages have not reached the broker and never will.
func (b *Base) Lost() int {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	return b.queue.lost
}
