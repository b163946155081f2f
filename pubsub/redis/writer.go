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

// The bounds of what waits for the broker, by number and bytes. The oldest messages are dropped
// first.
const (
	maxQueued      = 1 << 14
	maxQueuedBytes = 32 << 20
	maxBatch       = 128
	maxBatchBytes  = 1 << 20
)

// queue is what is still to be sent. Any goroutine may append to it.
type queue struct {
	something chan struct{} // has an element, or soon will, when there is something to do

	mu      sync.Mutex
	items   []item
	bytes   int
	lost    int
	wakeups []string // keys of the readers to wake
	flight  []item   // taken, and not acknowledged yet
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

// drop drops the oldest message.
func (q *queue) drop() {
	q.bytes -= len(q.items[0].Data)
	q.items[0] = item{}
	q.items = q.items[1:]
	q.lost++
}

// wake makes the writer wake a reader, together with whatever it sends next.
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

// sent notes that what was taken is done with.
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
	client, disconnect := e.connect(func() {})
	defer func() { disconnect() }()
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
			lost, err := e.send(client, batch, wakeups)
			if err == nil {
				e.queue.sent(lost)
				break
			}
			e.report(&e.queue, err)
			disconnect()
			client, disconnect = e.connect(func() {})
			if !e.pause(b.next()) {
				return
			}
		}
		clear(batch)
		if e.queue.len() <= maxBatch { // not 0: under traffic there is always something
			e.report(&e.queue, nil)
		}
	}
}

// pause waits, and reports whether the engine goes on.
func (e *Engine) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-e.ctx.Done():
		return false
	}
}

// send appends a batch to the streams as a transaction: all of it or nothing. So what is sent again
// after an error arrives in the right order, if perhaps twice. lost counts the messages that the
// broker refuses for good.
func (e *Engine) send(client *goredis.Client, batch []item, wakeups []string) (lost int, err error) {
	ctx, cancel := e.within(0)
	defer cancel()
	p := client.TxPipeline()
	added := make([]*goredis.StringCmd, len(batch))
	age := make(map[string]time.Duration) // the last message of a topic says how long it is kept
	for i, it := range batch {
		key := streamPrefix + it.topic
		added[i] = p.XAdd(ctx, &goredis.XAddArgs{
			Stream: key, MaxLen: maxLength, Approx: true, Values: fields(it.Message),
		})
		if age[key] = maxAge; it.Keep > 0 {
			age[key] = max(it.Keep, time.Millisecond) // 0 would remove the stream at once
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
	// If one of the commands was carried out, all were, whatever the others return: no answer,
	// because the connection broke just then, or that the broker has refused one. To send that one
	// again would be too late for its order. If the transaction was carried out, at least a PEXPIRE
	// has succeeded, because nothing keeps it from that.
	if !slices.ContainsFunc(all, func(cmd goredis.Cmder) bool { return cmd.Err() == nil }) {
		return 0, err
	}
	for i, cmd := range added {
		if refused := goredis.Error(nil); errors.As(cmd.Err(), &refused) {
			lost++
			e.log.Error("redis: the broker refuses a message",
				"key", streamPrefix+batch[i].topic, "error", refused)
		}
	}
	return lost, nil
}

// exec runs a pipeline. If the broker refuses the connection (a password that it does not know, too
// many clients), the library returns that as the error of the pipeline and not of the commands,
// which look as if they had been carried out. So exec gives it to the commands.
func exec(ctx context.Context, p goredis.Pipeliner) ([]goredis.Cmder, error) {
	cmds, err := p.Exec(ctx)
	if err != nil && !slices.ContainsFunc(cmds, func(cmd goredis.Cmder) bool {
		return cmd.Err() != nil
	}) {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	return cmds, err
}
