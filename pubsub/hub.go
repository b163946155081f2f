package pubsub

import (
	"cmp"
	"container/list"
	"crypto/rand"
	"encoding/binary"
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
		h.logs = make(map[string]*log)
		h.free = make(map[*loop.Thread][]*slot)
		h.local = new(Hub)
	})
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
