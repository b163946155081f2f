package pubsub

import (
	"cmp"
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lwango/lwango/loop"
)

// Limits of a Hub. A field that is zero stands for its default.
type Limits struct {
	// History is how many messages a topic remembers for later subscribers: 64 by default, and none if
	// negative. A topic whose messages are larger than TopicBytes together remembers fewer.
	History int

	// TopicBytes is how many bytes of messages a topic holds for its slowest subscriber and as its
	// history: 1 MiB by default. What exceeds that is forgotten as if a queue were full. The last
	// message is always held.
	TopicBytes int

	// IdleTopics is how many topics without subscribers are remembered, for their history: 1024 by
	// default. The topics that were published to last stay.
	IdleTopics int

	// IdleBytes is how many bytes of messages the topics without subscribers hold together: 16 MiB
	// by default.
	IdleBytes int

	// Bytes is how many bytes of messages all topics hold together: 64 MiB by default, and without
	// limit if negative. A message counts with its data and a little more; what Shared makes of it
	// does not count. If there are more, the topics that hold most forget their oldest messages,
	// and subscribers with DropNewest lose their newest, until all topics hold an eighth less than
	// the limit.
	Bytes int
}

const (
	// MaxQueue is the largest Options.Queue, and the largest Options.History unless Limits.History is
	// larger.
	MaxQueue = 1 << 16

	// DefaultQueue stands for an Options.Queue of 0.
	DefaultQueue = 64

	defaultHistory    = 64
	defaultTopicBytes = 1 << 20
	defaultIdleTopics = 1 << 10
	defaultIdleBytes  = 16 << 20
	defaultBytes      = 64 << 20
)

// Hub is a set of topics. Its zero value is ready for use. Any goroutine may call its methods. It
// must not be copied.
type Hub struct {
	// Limits must be set before the first use.
	Limits Limits

	start        sync.Once
	origin       string // the first part of the IDs of this hub's messages
	seq          atomic.Uint64
	disconnected atomic.Bool // the engine does not reach other processes
	local        *Hub        // has the topic Status, which no engine carries and no name leads to

	bytes    atomic.Int64 // held by all topics
	maxBytes atomic.Int64

	selections selections
	presence   presences

	// To be locked before a log's lock, never while that is held.
	mu        sync.Mutex
	engine    Engine // set before the first Subscribe
	logs      map[string]*log
	free      map[*loop.Thread][]*slot // of threads that have unsubscribed
	idle      list.List                // logs without subscribers, the last used in front
	idleBytes int
}

func (h *Hub) init() {
	h.start.Do(func() {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		h.origin = strconv.FormatUint(binary.LittleEndian.Uint64(b[:]), 36)
		l := &h.Limits
		l.History = max(cmp.Or(l.History, defaultHistory), 0)
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

// LimitBytes limits the bytes of messages that all topics hold together, from now on. 0 means
// Limits.Bytes, and a negative n no limit.
func (h *Hub) LimitBytes(n int) {
	h.init()
	h.maxBytes.Store(int64(cmp.Or(n, h.Limits.Bytes)))
	h.enforceLimit()
}

// enforceLimit makes the topics that hold most forget messages, if all topics together hold too
// much. It makes room for more than one message, so that it rarely has to go through all topics.
// The caller holds no lock.
func (h *Hub) enforceLimit() {
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
	for _, l := range h.all() {
		l.mu.Lock()
		holders = append(holders, holder{l, l.total})
		l.mu.Unlock()
	}
	slices.SortFunc(holders, func(a, b holder) int { return b.total - a.total })
	for _, x := range holders {
		rest += int64(x.total)
	}
	level := int64(0) // topics with more bytes are cut to that, so that all of them fit into room
	for i, x := range holders {
		rest -= int64(x.total)
		if level = (room - rest) / int64(i+1); i+1 < len(holders) &&
			level >= int64(holders[i+1].total) {
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
		l.trimTo(int(level))
		if l.idle != nil {
			if h.idleBytes -= before - l.bytes; l.len() == 0 {
				h.removeIdle(l)
			}
		}
		l.mu.Unlock()
	}
}

// all returns the logs of topics and selections. The caller holds h.mu.
func (h *Hub) all() []*log {
	return slices.AppendSeq(h.selections.all(), maps.Values(h.logs))
}

// Topic returns the topic of that name, which may be any string. The topic need not exist: it
// exists as long as it has subscribers or history. The result can be kept and used at any time.
func (h *Hub) Topic(name string) *Topic {
	return h.topic(hubName(name))
}

// topic returns a topic by the name that the hub knows. While the topic exists, all calls return
// the same record.
func (h *Hub) topic(name string) *Topic {
	h.init()
	if l := h.find(name); l != nil {
		return &l.Topic
	}
	return &Topic{hub: h, name: name}
}

// history is Limits.History, as far as a log has numbers.
func (h *Hub) history() int32 { return int32(min(h.Limits.History, math.MaxInt32)) }

// reserved is what the names of the server's own topics begin with.
const reserved = "lwango/"

// hubName returns the name by which the hub knows a topic of the program. It is never the name of a
// topic of the server.
func hubName(name string) string {
	if rest, ok := strings.CutPrefix(name, reserved); ok {
		return reserved + "/" + rest
	}
	return name
}

// programName undoes hubName, unless the topic is the server's.
func programName(name string) (topic string, ofServer bool) {
	rest, ok := strings.CutPrefix(name, reserved)
	if !ok {
		return name, false
	}
	if rest, ok = strings.CutPrefix(rest, "/"); ok {
		return reserved + rest, false
	}
	return name, true
}

// ServerTopic returns a topic for messages between servers. Topic does not return it for any name,
// so that clients that may name topics cannot reach it.
func (h *Hub) ServerTopic(name string) *Topic { return h.topic(reserved + name) }

// find returns the log of a topic, or nil if there is none.
func (h *Hub) find(name string) *log {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.logs[name]
}

// open returns the log of a topic, and makes one if there is none. The caller holds h.mu.
func (h *Hub) open(name string) *log {
	l := h.logs[name]
	if l == nil {
		l = newLog(h, name)
		h.logs[name] = l
		l.idle = h.idle.PushFront(l)
	}
	return l
}

// updateIdle updates the list of idle logs after a change of l, which may have become idle, or have
// been idle before. before is l's size in bytes before the change. The caller holds h.mu and the
// lock of l.
func (h *Hub) updateIdle(l *log, before int) {
	if !l.isTopic() {
		return
	}
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
		h.removeIdle(l)
	}
}

// removeIdle removes an idle log. A Topic that still refers to the log finds it without
// subscribers, and looks for the topic's log anew. The caller holds h.mu and the lock of l.
func (h *Hub) removeIdle(l *log) {
	h.idle.Remove(l.idle)
	h.idleBytes -= l.bytes
	l.shrink(0)
	l.idle, l.ring, l.matches = nil, nil, nil
	delete(h.logs, l.name)
}

// trimIdle removes the logs that have been idle longest, if there are too many. The caller holds
// h.mu.
func (h *Hub) trimIdle() {
	for h.idle.Len() > h.Limits.IdleTopics || h.idleBytes > h.Limits.IdleBytes && h.idle.Len() > 0 {
		l := h.idle.Back().Value.(*log)
		l.mu.Lock()
		h.removeIdle(l)
		l.mu.Unlock()
	}
}
