package pubsub

import (
	"cmp"
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/lwango/lwango/loop"
)

// Limits of a Hub. Zero stands for the default of each, and so do none of them for all.
type Limits struct {
	// History is how many messages a topic remembers for those who come later, 64 by default, at most MaxQueue.
	// Negative: none.
	History int

	// TopicBytes is how many bytes of messages, by default 1 MiB, a topic holds for its slowest subscriber and as its
	// history. What is beyond that is forgotten as if a queue were full; only the last message is always held.
	TopicBytes int

	// IdleTopics is how many topics without subscribers are remembered, for their history, by default 1024. Those that
	// were published to last stay.
	IdleTopics int

	// IdleBytes is how many bytes of messages these may have together, by default 16 MiB.
	IdleBytes int

	// Bytes is how many bytes of messages all topics hold together, by default 64 MiB: their data and a little for each.
	// What Shared makes of messages is not counted. If there are more, the topics that hold most forget their oldest
	// messages, and subscribers with DropNewest lose their newest, until all of it is an eighth less than that.
	// Negative: there is no limit.
	Bytes int
}

const (
	// MaxQueue is the largest Options.Queue and Limits.History.
	MaxQueue = 1 << 16

	// DefaultQueue stands for an Options.Queue of 0.
	DefaultQueue = 64

	defaultHistory    = 64
	defaultTopicBytes = 1 << 20
	defaultIdleTopics = 1 << 10
	defaultIdleBytes  = 16 << 20
	defaultBytes      = 64 << 20
)

// Hub is a set of topics. The zero value is one. Its methods are for any goroutine; it must not be copied.
type Hub struct {
	// Limits are set before the first use.
	Limits Limits

	start  sync.Once
	origin string // of this hub's messages: the first part of their IDs
	seq    atomic.Uint64
	cut    atomic.Bool // the engine does not reach other processes
	local  *Hub        // has the topic Status, which nothing carries and no name leads to

	bytes    atomic.Int64 // held by all topics
	maxBytes atomic.Int64

	// Before a log's lock, never within.
	mu        sync.Mutex
	engine    Engine // set before anybody subscribes
	logs      map[string]*log
	free      map[*loop.Thread][]*slot // of threads that have unsubscribed and not ended
	idle      list.List                // those without subscribers, the one that was used last in front
	idleBytes int
}

func (h *Hub) init() {
	h.start.Do(func() {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		h.origin = strconv.FormatUint(binary.LittleEndian.Uint64(b[:]), 36)
		l := &h.Limits
		l.History = max(min(cmp.Or(l.History, defaultHistory), MaxQueue), 0)
		l.TopicBytes = cmp.Or(l.TopicBytes, defaultTopicBytes)
		l.IdleTopics = cmp.Or(l.IdleTopics, defaultIdleTopics)
		l.IdleBytes = cmp.Or(l.IdleBytes, defaultIdleBytes)
		l.Bytes = cmp.Or(l.Bytes, defaultBytes)
		h.maxBytes.Store(int64(l.Bytes))
		h.logs = make(map[string]*log)
		h.free = make(map[*loop.Thread][]*slot)
		h.local = new(Hub)
	})
}

// LimitBytes has all topics hold no more than n bytes of messages together, from now on; 0 means Limits.Bytes, and
// less than that no limit.
func (h *Hub) LimitBytes(n int) {
	h.init()
	h.maxBytes.Store(int64(cmp.Or(n, h.Limits.Bytes)))
	h.relieve()
}

// relieve has the topics that hold most forget messages, if all of them hold too much. It leaves room for some more, so
// that looking at all topics is paid for by many messages. No lock is held by the caller.
func (h *Hub) relieve() {
	limit := h.maxBytes.Load()
	if limit < 0 || h.bytes.Load() <= limit {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bytes.Load() <= limit { // another publisher has done so
		return
	}
	room := limit - limit/8
	type holder struct {
		log   *log
		total int
	}
	holders, rest := make([]holder, 0, len(h.logs)), int64(0)
	for _, l := range h.logs {
		l.mu.Lock()
		holders = append(holders, holder{l, l.total})
		l.mu.Unlock()
	}
	slices.SortFunc(holders, func(a, b holder) int { return b.total - a.total })
	for _, x := range holders {
		rest += int64(x.total)
	}
	level := int64(0) // is left to those that have more, so that all are content with room
	for i, x := range holders {
		rest -= int64(x.total)
		if level = (room - rest) / int64(i+1); i+1 < len(holders) && level >= int64(holders[i+1].total) {
			break
		}
	}
	for _, x := range holders {
		if h.bytes.Load() <= room {
			break
		}
		l := x.log
		l.mu.Lock()
		before := l.bytes
		l.cut(int(level))
		if l.idle != nil {
			if h.idleBytes -= before - l.bytes; l.len() == 0 {
				h.forget(l)
			}
		}
		l.mu.Unlock()
	}
}

// Topic returns the topic of that name, which need not exist: it does as long as somebody is subscribed, or as there is
// history. The name may be any string. What is returned can be kept and used at any time.
func (h *Hub) Topic(name string) *Topic {
	h.init()
	return &Topic{hub: h, name: name}
}

// find returns the log of a topic, nil where there is none.
func (h *Hub) find(name string) *log {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.logs[name]
}

// open returns the log of a topic, and makes it where there is none. The caller holds h.mu.
func (h *Hub) open(name string) *log {
	l := h.logs[name]
	if l == nil {
		l = newLog(h, name)
		h.logs[name] = l
		l.idle = h.idle.PushFront(l)
	}
	return l
}

// settle sees to a log that may have ceased or begun to be idle, or has changed while it was. before is what it had in
// bytes when it was. The caller holds h.mu and the lock of l.
func (h *Hub) settle(l *log, before int) {
	if l.idle != nil {
		h.idleBytes -= before
		if l.subs > 0 {
			h.idle.Remove(l.idle)
			l.idle = nil
			return
		}
		h.idle.MoveToFront(l.idle)
	} else {
		if l.subs > 0 {
			return
		}
		l.idle = h.idle.PushFront(l)
	}
	h.idleBytes += l.bytes
	if l.len() == 0 {
		h.forget(l)
	}
}

// forget forgets an idle log. A Topic that has it still finds that nobody is subscribed, and asks anew. The caller holds
// h.mu and the lock of l.
func (h *Hub) forget(l *log) {
	h.idle.Remove(l.idle)
	h.idleBytes -= l.bytes
	l.shrink(0)
	l.idle = nil
	delete(h.logs, l.name)
}

// trim forgets the logs that have been idle for longest, where there are too many. The caller holds h.mu.
func (h *Hub) trim() {
	for h.idle.Len() > h.Limits.IdleTopics || h.idleBytes > h.Limits.IdleBytes && h.idle.Len() > 0 {
		l := h.idle.Back().Value.(*log)
		l.mu.Lock()
		h.forget(l)
		l.mu.Unlock()
	}
}
