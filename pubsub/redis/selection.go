package redis

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/lwango/lwango/pubsub"
)

// selections are the patterns and queue groups that are selected.
type selections struct {
	mu      sync.Mutex
	all     map[pubsub.Selection]*selected
	leaving map[pubsub.Selection]*selected // unselected groups, which may still have messages
	closed  bool
	ended   sync.WaitGroup // of goroutines of groups
}

// selected is a pattern or a queue group, from one Select to its Unselect.
type selected struct {
	pubsub.Selection
	since  time.Time // when it was selected
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup // of its goroutines, if it is a group

	mu sync.Mutex // held around calls of the feed, which may be made for several shards
	to *pubsub.Feed
}

// Select implements pubsub.Selector. A pattern is read from a stream of all topics; there is one
// only as long as a process follows a pattern. So a pattern begins when the broker has heard of it,
// and it needs a broker of version 6.2, as does a queue group.
//
// If a process is killed, its messages of a group are given to another process after half a minute.
// A message may be given twice, to two processes, if it was sent twice, or received while the
// broker was away.
func (e *Engine) Select(s pubsub.Selection, to *pubsub.Feed) error {
	all := &e.selections
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.closed {
		return net.ErrClosed
	}
	if all.all == nil {
		all.all = make(map[pubsub.Selection]*selected)
		all.leaving = make(map[pubsub.Selection]*selected)
	}
	c := &selected{Selection: s, since: time.Now(), to: to}
	c.ctx, c.cancel = context.WithCancel(e.base.Context)
	all.all[s] = c
	switch {
	case s.Group == "":
		for _, sh := range e.shards {
			sh.followPattern(c)
		}
	case s.Pattern:
		for _, sh := range e.shards {
			all.startGroup(c, &consumer{shard: sh, selected: c, key: sh.prefix + allKey})
		}
	default:
		sh := e.shard(s.Name)
		all.startGroup(c, &consumer{shard: sh, selected: c, key: sh.prefix + topicKeys + s.Name})
	}
	return nil
}

// startGroup starts the goroutine of a group. That waits for the goroutine of an earlier Select of
// the same group. The caller holds the lock.
func (all *selections) startGroup(c *selected, r *consumer) {
	r.group = groupName(c.Name, c.Group)
	before := all.leaving[c.Selection]
	c.done.Add(1)
	all.ended.Go(func() {
		defer c.done.Done()
		if before != nil {
			before.done.Wait()
		}
		r.run()
	})
}

// Unselect implements pubsub.Selector.
func (e *Engine) Unselect(s pubsub.Selection) {
	all := &e.selections
	all.mu.Lock()
	defer all.mu.Unlock()
	c := all.all[s]
	if c == nil {
		return
	}
	delete(all.all, s)
	c.cancel()
	if s.Group == "" {
		for _, sh := range e.shards {
			sh.unfollowPattern(c)
		}
		return
	}
	all.leaving[s] = c
	go func() {
		c.done.Wait()
		all.mu.Lock()
		defer all.mu.Unlock()
		if all.leaving[s] == c {
			delete(all.leaving, s)
		}
	}()
}

// release ends all groups, and waits for d at most until they have given back their messages.
func (all *selections) release(d time.Duration) {
	all.mu.Lock()
	all.closed = true
	for _, c := range all.all {
		c.cancel()
	}
	all.mu.Unlock()
	released := make(chan struct{})
	go func() { all.ended.Wait(); close(released) }()
	select {
	case <-released:
	case <-time.After(d):
	}
}
