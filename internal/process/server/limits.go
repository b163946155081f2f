package server

import (
	"strings"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

const (
	// limitTopic is the topic by which processes with a broker tell each other what has passed at
	// shared limits.
	limitTopic = "limit"

	// limitInterval is how often they do.
	limitInterval = 250 * time.Millisecond
)

// shareLimits has a thread of the first loop tell the other processes of the broker what passes at
// shared limits, and count what has passed there.
func (s *server) shareLimits() {
	if s.source.Limits == nil || s.source.Topics == nil || s.disconnect == nil {
		return
	}
	l := s.loops[0]
	_ = l.Post(func() { l.Go(s.tellLimits) })
}

// tellLimits is that thread. It ends when the server stops. While the broker is away, each process
// counts by itself; the log says so once.
func (s *server) tellLimits(t *loop.Thread) {
	t.Layer().MarkDaemon() // a replaced process ends without waiting for it
	limits, topics := s.source.Limits, s.source.Topics
	topic, own := topics.ServerTopic(limitTopic), topics.Origin()+"-"
	sub := topic.Subscribe(t, pubsub.Options{Queue: maxShared})
	alone := false
	for next := t.Loop().Time().Add(limitInterval); ; {
		i, err := t.AwaitAny(max(next.Sub(t.Loop().Time()), 0), sub, t.Loop().Stopped())
		if i == 1 || err != nil && err != loop.ErrDeadlineExceeded || sub.Err() != nil {
			return
		}
		if err == nil {
			for m := sub.Next(); m != nil; m = sub.Next() {
				if !strings.HasPrefix(m.ID, own) {
					limits.Apply(m.Data)
				}
			}
		}
		if next.After(t.Loop().Time()) {
			continue
		}
		next = t.Loop().Time().Add(limitInterval)
		if away := !topics.Carried() && limits.Shares(); away != alone {
			if alone = away; away {
				s.own.Warn("limit: the broker is away, shared limits count in this process alone")
			} else {
				s.own.Info("limit: shared limits count in all processes again")
			}
		}
		limits.Flush(func(text []byte) { topic.Publish(text) })
	}
}
