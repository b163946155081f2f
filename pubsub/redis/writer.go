package redis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub"
)

// What waits for the broker is bounded by number and bytes; the oldest goes first.
const (
	maxQueued      = 1 << 14
	maxQueuedBytes = 32 << 20
	maxBatch       = 128
	maxBatchBytes  = 1 << 20
)

// queue is what is still to be sent. Any goroutine may append to it.
type queue struct {
	something chan struct{} // has one, or is going to, when there is something to do

	mu      sync.Mutex
	items   []item
	bytes   int
	lost    int
	wakeups []string // keys of the readers that are to be woken
	flight  []item   // taken and not acknowledged
	closed  bool
}

type item struct {
	topic string
	*pubsub.Message
}

func (q *queue) signal() {
	select {
	case q.something <- struct{}{}:
	default:
	}
}

// Publish implements pubsub.Engine.
func (e *Engine) Publish(topic string, m *pubsub.Message) {
	q := &e.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.items = append(q.items, item{topic, m})
	q.bytes += len(m.Data)
	for len(q.items) > maxQueued || q.bytes > maxQueuedBytes && len(q.items) > 1 {
		q.drop()
	}
	q.signal()
}

// drop gives up the oldest message.
func (q *queue) drop() {
	q.bytes -= len(q.items[0].Data)
	q.items[0] = item{}
	q.items = q.items[1:]
	q.lost++
}

// wake has the writer wake a reader, beside whatever it sends.
func (q *queue) wake(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Contains(q.wakeups, key) {
		q.wakeups = append(q.wakeups, key)
	}
	q.signal()
}

// take takes what is to be sent next.
func (q *queue) take(batch []item) (_ []item, wakeups []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wakeups, q.wakeups = q.wakeups, nil
	n, bytes := 0, 0
	for n < min(len(q.items), maxBatch) && (n == 0 || bytes+len(q.items[n].Data) <= maxBatchBytes) {
		bytes += len(q.items[n].Data)
		n++
	}
	batch = append(batch[:0], q.items[:n]...)
	clear(q.items[:n])
	q.items = q.items[n:]
	q.bytes -= bytes
	if len(q.items) == 0 {
		q.items = nil
	}
	q.flight = batch
	return batch, wakeups
}

// sent notes the end of what was taken.
func (q *queue) sent(lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flight = nil
	q.lost += lost
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) + len(q.flight)
}

// waiting returns the messages of a topic that the broker has not acknowledged.
func (q *queue) waiting(topic string) (ms []*pubsub.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, items := range [][]item{q.flight, q.items} {
		for _, it := range items {
			if it.topic == topic {
				ms = append(ms, it.Message)
			}
		}
	}
	return ms
}

func (q *queue) lostSoFar() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// write sends what is in the queue, until the engine is closed.
func (e *Engine) write() {
	var batch []item
	closing := e.closing
	for {
		batch, wakeups := e.queue.take(batch)
		if len(batch)+len(wakeups) == 0 {
			if closing == nil {
				return
			}
			select {
			case <-e.queue.something:
			case <-closing:
				closing = nil
			}
			continue
		}
		var b backoff
		for {
			lost, err := e.send(batch, wakeups)
			if err == nil {
				e.queue.sent(lost)
				break
			}
			e.report(&e.queue, err)
			if !e.pause(b.next()) {
				return
			}
		}
		clear(batch)
		if e.queue.len() <= maxBatch { // else it is still behind; under traffic there is always something
			e.report(&e.queue, nil)
		}
	}
}

// pause waits, and reports whether the engine is to go on.
func (e *Engine) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-e.ctx.Done():
		return false
	}
}

// send appends a batch to the streams, as a transaction: all of it or nothing, so what is sent again after an error
// comes in the right order, if perhaps for the second time. lost counts what the broker never takes.
func (e *Engine) send(batch []item, wakeups []string) (lost int, err error) {
	ctx, cancel := e.within(0)
	defer cancel()
	p := e.writer.TxPipeline()
	added := make([]*goredis.StringCmd, len(batch))
	age := make(map[string]time.Duration) // the last message of a topic says how long it is kept
	for i, it := range batch {
		key := streamPrefix + it.topic
		added[i] = p.XAdd(ctx, &goredis.XAddArgs{Stream: key, MaxLen: maxLength, Approx: true, Values: fields(it.Message)})
		if age[key] = maxAge; it.Keep > 0 {
			age[key] = max(it.Keep, time.Millisecond) // 0 would be the end of it at once
		}
	}
	for key, d := range age {
		p.PExpire(ctx, key, d)
	}
	for _, key := range wakeups {
		p.XAdd(ctx, &goredis.XAddArgs{Stream: key, MaxLen: 1, Values: []any{"wake", ""}})
		p.PExpire(ctx, key, wakeAge)
	}
	all, err := exec(ctx, p)
	if err == nil {
		return 0, nil
	}
	// If any of them was carried out, all were, whatever is said of the others: nothing, because the connection broke just
	// then, or that the broker has refused it. To send that once more would be too late for its order.
	// A PEXPIRE at least was: nothing keeps it from success.
	if !slices.ContainsFunc(all, func(cmd goredis.Cmder) bool { return cmd.Err() == nil }) {
		return 0, err
	}
	for i, cmd := range added {
		if refused := goredis.Error(nil); errors.As(cmd.Err(), &refused) {
			lost++
			e.log.Error("the broker refuses a message", "key", streamPrefix+batch[i].topic, "error", refused)
		}
	}
	return lost, nil
}

// exec runs a pipeline. If the broker refuses the connection (a password that it does not know, too many clients), that is
// the pipeline's error and the library does not give it to the commands, which look as if they had been carried out.
func exec(ctx context.Context, p goredis.Pipeliner) ([]goredis.Cmder, error) {
	cmds, err := p.Exec(ctx)
	if err != nil && !slices.ContainsFunc(cmds, func(cmd goredis.Cmder) bool { return cmd.Err() != nil }) {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	return cmds, err
}
