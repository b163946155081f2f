package pubsub

import (
	"cmp"
	"slices"
)

// TopicCounts describes a topic that has subscribers or history.
type TopicCounts struct {
	Name        string
	Subscribers int
	Messages    int // that are kept
	Bytes       int // of these, with what each takes besides
}

// Counts returns the number of topics, of all their subscriptions and of the bytes that they hold,
// and those with most subscribers, at most so many. Any goroutine may call it. It looks at all
// topics, and publishers wait meanwhile.
func (h *Hub) Counts(most int) (topics, subscribers int, bytes int64, largest []TopicCounts) {
	h.init()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.logs {
		l.mu.Lock()
		c := TopicCounts{l.name, l.subs, l.len(), l.bytes}
		l.mu.Unlock()
		subscribers += c.Subscribers
		at, _ := slices.BinarySearchFunc(largest, c, func(a, b TopicCounts) int {
			return cmp.Or(b.Subscribers-a.Subscribers, b.Bytes-a.Bytes, cmp.Compare(a.Name, b.Name))
		})
		if at < most {
			largest = slices.Insert(largest, at, c)
			largest = largest[:min(len(largest), most)]
		}
	}
	return len(h.logs), subscribers, h.bytes.Load(), largest
}
