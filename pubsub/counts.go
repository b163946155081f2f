package pubsub

import (
	"cmp"
	"slices"
)

// TopicCounts describes a topic that has subscribers or history, or a pattern or a queue group.
type TopicCounts struct {
	Name        string // as an Engine knows it; then a space and the queue group, if it is one
	Subscribers int
	Messages    int // in the log
	Bytes       int // of these messages, with their overhead
}

// Counts returns the number of topics, of all their subscriptions and of the bytes that they hold,
// and those with most subscribers, at most so many. Any goroutine may call it; with many topics it
// takes long for a loop. It looks at one topic after the other, while others are used.
func (h *Hub) Counts(most int) (topics, subscribers int, bytes int64, largest []TopicCounts) {
	h.init()
	h.mu.Lock()
	logs := h.all()
	h.mu.Unlock()
	for _, l := range logs {
		l.mu.Lock()
		c := TopicCounts{l.name, int(l.subs), l.len(), l.bytes}
		l.mu.Unlock()
		if l.shared() {
			c.Name += " " + l.selection.Group
		}
		if c.Subscribers == 0 && c.Messages == 0 { // forgotten since
			continue
		}
		topics++
		subscribers += c.Subscribers
		at, _ := slices.BinarySearchFunc(largest, c, func(a, b TopicCounts) int {
			return cmp.Or(b.Subscribers-a.Subscribers, b.Bytes-a.Bytes, cmp.Compare(a.Name, b.Name))
		})
		if at < most {
			largest = slices.Insert(largest, at, c)
			largest = largest[:min(len(largest), most)]
		}
	}
	return topics, subscribers, h.bytes.Load(), largest
}
