package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

const (
	prefetch      = 16                     // messages of a queue group that a process has at once
	giveBackAfter = time.Second            // a process gives back messages without room after that
	claimEvery    = time.Second            // how often a process claims what others have given up
	pollEvery     = 100 * time.Millisecond // how often a process asks what members have received
	maxListed     = 1 << 10                // pending entries in one answer of the broker
)

// consumer reads what one stream has for a queue group. The group is one of the broker's, and the
// process is its consumer, whose name is the hub's origin.
type consumer struct {
	*shard
	*selected
	key, group string

	client *goredis.Client
	opened *atomic.Int32

	joined bool
	last   string // the highest entry that was read; empty: none
	seen   engine.Recent

	next       []delivery // read, but the feed has no room for them yet
	unreceived []delivery // taken by the feed, and received by no member yet
	full       bool       // next was given back; nothing is read until a member has received a message
	refreshed  time.Time  // when the process last claimed its own messages again
	claimed    time.Time  // when it last claimed messages that others have given up
	warned     time.Time
	cursor     string // where the next XAUTOCLAIM begins
	sparse     bool   // most of the entries of the last read were not for the pattern
}

// delivery is a message of a queue group that the broker has given to this process. entry is the
// ID of its entry, and number counts the messages that the feed has taken.
type delivery struct {
	*pubsub.Message
	entry     string
	number    uint64
	groupLost bool // the group was made anew since, and the broker does not list the entry
}

func (c *consumer) run() {
	defer c.Report(c, nil) // a group that is not selected any more does not miss the broker
	var b engine.Backoff
	for {
		err := c.session(&b)
		if c.ctx.Err() != nil {
			c.release()
			return
		}
		if !goredis.HasErrorPrefix(err, "NOGROUP") && !goredis.HasErrorPrefix(err, "UNBLOCKED") {
			// else the broker has forgotten the group, which is to be made anew
			c.Report(c, err)
		}
		select {
		case <-time.After(b.Next()):
		case <-c.ctx.Done():
		}
	}
}

// open connects, until the end of ctx.
func (c *consumer) open(ctx context.Context) (disconnect func(), err error) {
	opened := new(atomic.Int32)
	client, hangUp, err := c.connect(func() { opened.Add(1) })
	if err != nil {
		return nil, err
	}
	c.client, c.opened = client, opened
	stop := context.AfterFunc(ctx, func() { client.Close() })
	return func() { stop(); hangUp() }, nil
}

// session reads until there is an error, or the last member has left.
func (c *consumer) session(b *engine.Backoff) error {
	disconnect, err := c.open(c.ctx)
	if err != nil {
		return err
	}
	defer disconnect()
	if c.Pattern {
		if err := c.keepAllStream(c.client); err != nil {
			return err
		}
	}
	known, err := c.join()
	if err != nil {
		return err
	}
	if !known {
		for _, some := range [][]delivery{c.unreceived, c.next} {
			for i := range some {
				some[i].groupLost = true
			}
		}
	}
	mine, err := c.pendingEntries()
	if err != nil {
		return err
	}
	c.refreshed = time.Time{} // so offerAndAck claims them again
	if err := c.receive(mine); err != nil {
		return err
	}
	b.Reset()
	c.Report(c, nil)
	kept, stood := time.Now(), false
	for wait, idle := time.Millisecond, time.Now(); ; {
		if c.Pattern && time.Since(kept) > keepEvery {
			if err := c.keepAllStream(c.client); err != nil {
				return err
			}
			kept = time.Now()
		}
		changed, err := c.offerAndAck()
		switch {
		case err != nil:
			return err
		case c.ctx.Err() != nil:
			return c.ctx.Err()
		case changed:
			wait, idle, c.full = time.Millisecond, time.Now(), false
		case len(c.next) > 0 && time.Since(idle) > giveBackAfter: // for other processes
			if err := c.giveBack(c.next); err != nil {
				return err
			}
			c.next, c.full = nil, true
		}
		if c.full = c.full && len(c.unreceived) > 0; c.full || len(c.next) > 0 ||
			len(c.unreceived) >= prefetch {
			stood = stood || c.full
			select {
			case <-time.After(wait):
			case <-c.ctx.Done():
			}
			wait = min(2*wait, pollEvery)
			continue
		}
		if stood {
			if err := c.checkTrimmed(); err != nil {
				return err
			}
			stood = false
		}
		block := claimEvery
		if len(c.unreceived) > 0 {
			block, wait = wait, min(2*wait, pollEvery)
		}
		got, err := c.read(block)
		if err != nil {
			return err
		}
		had := len(c.next)
		if err := c.receive(got); err != nil {
			return err
		}
		c.sparse = c.Pattern && len(c.next)-had < len(got)/2
		if n := min(len(c.unreceived)+len(c.next)-prefetch, len(c.next)); n > 0 { // see sparse
			rest := c.next[len(c.next)-n:]
			c.next = c.next[:len(c.next)-n]
			if err := c.giveBack(rest); err != nil {
				return err
			}
		}
	}
}

// isAbove reports whether the ID of one entry is above another's.
func isAbove(a, b string) bool {
	ms, seq := position(a)
	toMS, toSeq := position(b)
	return ms > toMS || ms == toMS && seq > toSeq
}

// pendingEntries returns the entries that the broker has given to this process and that it has not
// acknowledged.
func (c *consumer) pendingEntries() ([]goredis.XMessage, error) {
	ctx, cancel := c.Within(0)
	defer cancel()
	got, err := c.client.XReadGroup(ctx, &goredis.XReadGroupArgs{Group: c.group,
		Consumer: c.Hub.Origin(), Streams: []string{c.key, beginning}, Block: -1}).Result()
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return got[0].Messages, nil
}

// read returns the next entries, as many as the process may have. Now and then it returns entries
// that another process has given up.
func (c *consumer) read(block time.Duration) ([]goredis.XMessage, error) {
	room := int64(prefetch - len(c.unreceived))
	if time.Since(c.claimed) > claimEvery {
		if got, err := c.autoClaim(room); err != nil || len(got) > 0 {
			return got, err
		}
	}
	if c.sparse {
		room = perPatternRead
	}
	ctx, cancel := c.Within(block)
	defer cancel()
	got, err := c.client.XReadGroup(ctx, &goredis.XReadGroupArgs{Group: c.group,
		Consumer: c.Hub.Origin(), Streams: []string{c.key, ">"}, Count: room, Block: block}).Result()
	switch {
	case err == goredis.Nil:
		return nil, nil
	case err != nil:
		return nil, err
	case c.opened.Load() > 1:
		return nil, errReplaced
	case len(got) == 0:
		return nil, nil
	}
	return got[0].Messages, nil
}

// checkTrimmed logs, at most once a minute, that the stream was trimmed beyond the entries that the
// group has read.
func (c *consumer) checkTrimmed() error {
	if time.Since(c.warned) < time.Minute {
		return nil
	}
	ctx, cancel := c.Within(0)
	defer cancel()
	p := c.client.Pipeline()
	groups, oldest := p.XInfoGroups(ctx, c.key), p.XRangeN(ctx, c.key, "-", "+", 1)
	if _, err := exec(ctx, p); err != nil {
		return err
	}
	for _, g := range groups.Val() {
		if g.Name == c.group && len(oldest.Val()) > 0 && isAbove(oldest.Val()[0].ID, g.LastDeliveredID) {
			c.warned = time.Now()
			c.Log.Warn("redis: members of a queue group are too slow, messages may be missing",
				"name", c.Name, "group", c.selected.Group)
		}
	}
	return nil
}

// autoClaim claims at most room entries that other processes have not claimed again for ackWait.
// The broker scans some of the pending entries with each call, so more than one call may be needed.
// autoClaim asks for IDs first: for a deleted entry, a broker of version 6.2 returns null, which
// the library does not understand.
func (c *consumer) autoClaim(room int64) (got []goredis.XMessage, err error) {
	ctx, cancel := c.Within(0)
	defer cancel()
	ids, next, err := c.client.XAutoClaimJustID(ctx, &goredis.XAutoClaimArgs{
		Stream: c.key, Group: c.group, Consumer: c.Hub.Origin(), MinIdle: ackWait,
		Start: cmp.Or(c.cursor, beginning), Count: room,
	}).Result()
	if err != nil {
		return nil, err
	}
	if c.cursor = next; next == beginning {
		c.claimed = time.Now()
	}
	if len(ids) == 0 {
		return nil, nil
	}
	p := c.client.Pipeline()
	found := make([]*goredis.XMessageSliceCmd, len(ids))
	for i, id := range ids {
		found[i] = p.XRange(ctx, c.key, id, id)
	}
	if _, err := exec(ctx, p); err != nil {
		return nil, err
	}
	for i, id := range ids {
		// An entry that is gone has no fields, and receive drops it.
		got = append(got, append(found[i].Val(), goredis.XMessage{ID: id})[0])
	}
	return got, nil
}

// receive adds entries to next, except those that have come before.
func (c *consumer) receive(got []goredis.XMessage) error {
	var useless []string
	for _, x := range got {
		if c.last == "" || isAbove(x.ID, c.last) {
			c.last = x.ID
		}
		if c.has(x.ID) { // the broker has given it again
			continue
		}
		e, err := parseEntry(x)
		topic := c.Name
		if c.Pattern {
			e, topic, err = parseAny(x)
		}
		if err != nil || !c.Matches(topic) {
			useless = append(useless, x.ID)
			continue
		}
		if fresh, _ := c.seen.Fresh(e.ID, 1, 0); !fresh {
			useless = append(useless, x.ID)
			continue
		}
		e.Topic = topic
		c.next = append(c.next, delivery{Message: e.Message, entry: x.ID})
	}
	return c.acknowledge(useless)
}

func (c *consumer) has(entry string) bool {
	is := func(h delivery) bool { return h.entry == entry }
	return slices.ContainsFunc(c.unreceived, is) || slices.ContainsFunc(c.next, is)
}

// acknowledge sends XACK for entries.
func (c *consumer) acknowledge(entries []string) error {
	if len(entries) == 0 {
		return nil
	}
	ctx, cancel := c.Within(0)
	defer cancel()
	return c.client.XAck(ctx, c.key, c.group, entries...).Err()
}

// offerAndAck gives the feed the messages that it has room for, and acknowledges those that members
// have received. It reports whether either has changed anything.
func (c *consumer) offerAndAck() (changed bool, err error) {
	if time.Since(c.refreshed) > ackWait/3 {
		if err := c.refreshClaims(); err != nil {
			return false, err
		}
	}
	var done []string
	c.selected.mu.Lock()
	for len(c.next) > 0 && c.ctx.Err() == nil {
		h := c.next[0]
		before, _ := c.to.Progress()
		if rest := c.to.Offer([]*pubsub.Message{h.Message}); len(rest) > 0 {
			break
		}
		taken, _ := c.to.Progress()
		if taken == before {
			if c.ctx.Err() != nil {
				break // it was left just then
			}
			done = append(done, h.entry) // it is for no member
		} else {
			h.number = taken
			c.unreceived = append(c.unreceived, h)
		}
		c.next, changed = c.next[1:], true
	}
	_, received := c.to.Progress()
	c.selected.mu.Unlock()
	n := 0
	for ; n < len(c.unreceived) && c.unreceived[n].number <= received; n++ {
		done = append(done, c.unreceived[n].entry)
	}
	if err := c.acknowledge(done); err != nil {
		return changed, err
	}
	c.unreceived = c.unreceived[n:]
	return changed || n > 0, nil
}

// refreshClaims claims the messages again that the process has, so that others do not claim them.
// If it has not done so for long, others may have claimed some: those in next, which no member can
// have received, are dropped here then.
func (c *consumer) refreshClaims() error {
	if len(c.unreceived)+len(c.next) > 0 {
		ctx, cancel := c.Within(0)
		defer cancel()
		listed, err := c.client.XPendingExt(ctx, &goredis.XPendingExtArgs{Stream: c.key, Group: c.group,
			Consumer: c.Hub.Origin(), Start: "-", End: "+", Count: maxListed}).Result()
		if err != nil {
			return err
		}
		gone := func(h delivery) bool {
			return !slices.ContainsFunc(listed, func(x goredis.XPendingExt) bool {
				return x.ID == h.entry
			})
		}
		c.next = slices.DeleteFunc(c.next, func(h delivery) bool {
			if h.groupLost || !gone(h) {
				return false
			}
			c.seen.Forget(h.ID)
			return true
		})
		if err := c.claim(slices.DeleteFunc(slices.Concat(c.unreceived, c.next), gone), 0); err != nil {
			return err
		}
	}
	c.refreshed = time.Now()
	return nil
}

// claim tells the broker by XCLAIM that the process has messages, and has had them for idle.
func (c *consumer) claim(some []delivery, idle time.Duration) error {
	if len(some) == 0 {
		return nil
	}
	args := []any{"XCLAIM", c.key, c.group, c.Hub.Origin(), 0}
	for _, h := range some {
		args = append(args, h.entry)
	}
	ctx, cancel := c.Within(0)
	defer cancel()
	return c.client.Do(ctx, append(args, "IDLE", idle.Milliseconds(), "JUSTID")...).Err()
}

// giveBack lets other processes claim messages: it sets their idle time above ackWait.
func (c *consumer) giveBack(some []delivery) error {
	for _, h := range some {
		c.seen.Forget(h.ID)
	}
	return c.claim(some, 2*ackWait)
}

// release gives back the messages that no member has received when the last member has left.
func (c *consumer) release() {
	if !c.joined || c.Context.Err() != nil {
		return
	}
	err := func() error {
		disconnect, err := c.open(c.Context)
		if err != nil {
			return err
		}
		defer disconnect()
		if _, err := c.offerAndAck(); err != nil {
			return err
		}
		mine, err := c.pendingEntries() // some of them may not have reached this process
		if err != nil {
			return err
		}
		var some []delivery
		for _, x := range mine {
			some = append(some, delivery{entry: x.ID, Message: new(pubsub.Message)})
		}
		return c.giveBack(some)
	}()
	if err != nil && !errors.Is(err, goredis.ErrClosed) {
		c.Log.Info("redis: others get what a queue group has left later", "group", c.selected.Group,
			"error", err)
	}
}
