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
	ahead      = 16                     // messages of a queue group that a process has at once
	busy       = time.Second            // until a process gives back what it has no room for
	claimEvery = time.Second            // how often it looks for what others do not mention any more
	often      = 100 * time.Millisecond // while a member may receive what it has
	maxListed  = 1 << 10                // of what a process has, as the broker lists it
)

// consumer reads what one stream has for a queue group. The group is one of the broker's, and the
// process is its consumer, whose name is the hub's origin.
type consumer struct {
	*shard
	*choice
	key, group string

	client *goredis.Client
	opened *atomic.Int32

	joined bool
	last   string // the highest entry that was read; empty: none
	seen   engine.Recent

	next    []held // read, but there is no room for it yet
	held    []held // what no member has received yet
	full    bool   // next was given back; none is read until a member has received something
	told    time.Time
	claimed time.Time // when it last claimed what others do not mention
	warned  time.Time
	cursor  string // where the next look begins
	sparse  bool   // most of what was read last was not for the pattern
}

// held is a message, and the entry that has it. number counts those that the feed has taken.
type held struct {
	*pubsub.Message
	entry  string
	number uint64
	loose  bool // the group was made anew since, and knows nothing of it
}

func (c *consumer) run() {
	defer c.Report(c, nil) // what is not selected any more is not cut off
	var b engine.Backoff
	for {
		err := c.session(&b)
		if c.left.Err() != nil {
			c.release()
			return
		}
		if !goredis.HasErrorPrefix(err, "NOGROUP") && !goredis.HasErrorPrefix(err, "UNBLOCKED") {
			// else the broker has forgotten the group, which is to be made anew
			c.Report(c, err)
		}
		select {
		case <-time.After(b.Next()):
		case <-c.left.Done():
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
	disconnect, err := c.open(c.left)
	if err != nil {
		return err
	}
	defer disconnect()
	if c.Pattern {
		if err := c.keep(c.client); err != nil {
			return err
		}
	}
	known, err := c.join()
	if err != nil {
		return err
	}
	if !known {
		for _, some := range [][]held{c.held, c.next} {
			for i := range some {
				some[i].loose = true
			}
		}
	}
	mine, err := c.mine()
	if err != nil {
		return err
	}
	c.told = time.Time{} // to be mentioned
	if err := c.receive(mine); err != nil {
		return err
	}
	b.Reset()
	c.Report(c, nil)
	kept, stood := time.Now(), false
	for wait, idle := time.Millisecond, time.Now(); ; {
		if c.Pattern && time.Since(kept) > keepEvery {
			if err := c.keep(c.client); err != nil {
				return err
			}
			kept = time.Now()
		}
		changed, err := c.settle()
		switch {
		case err != nil:
			return err
		case c.left.Err() != nil:
			return c.left.Err()
		case changed:
			wait, idle, c.full = time.Millisecond, time.Now(), false
		case len(c.next) > 0 && time.Since(idle) > busy: // others may have time
			if err := c.giveBack(c.next); err != nil {
				return err
			}
			c.next, c.full = nil, true
		}
		if c.full = c.full && len(c.held) > 0; c.full || len(c.next) > 0 || len(c.held) >= ahead {
			stood = stood || c.full
			select {
			case <-time.After(wait):
			case <-c.left.Done():
			}
			wait = min(2*wait, often)
			continue
		}
		if stood {
			if err := c.missed(); err != nil {
				return err
			}
			stood = false
		}
		block := claimEvery
		if len(c.held) > 0 {
			block, wait = wait, min(2*wait, often)
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
		if n := min(len(c.held)+len(c.next)-ahead, len(c.next)); n > 0 { // more than was to be expected
			rest := c.next[len(c.next)-n:]
			c.next = c.next[:len(c.next)-n]
			if err := c.giveBack(rest); err != nil {
				return err
			}
		}
	}
}

// above reports whether the ID of one entry is above another's.
func above(a, b string) bool {
	ms, seq := position(a)
	toMS, toSeq := position(b)
	return ms > toMS || ms == toMS && seq > toSeq
}

// mine returns what the broker has given to this process, and has no acknowledgement of.
func (c *consumer) mine() ([]goredis.XMessage, error) {
	ctx, cancel := c.Within(0)
	defer cancel()
	got, err := c.client.XReadGroup(ctx, &goredis.XReadGroupArgs{Group: c.group,
		Consumer: c.Hub.Origin(), Streams: []string{c.key, beginning}, Block: -1}).Result()
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return got[0].Messages, nil
}

// read returns what is next, for as many messages as the process may have. Now and then that is
// what another process has left.
func (c *consumer) read(block time.Duration) ([]goredis.XMessage, error) {
	room := int64(ahead - len(c.held))
	if time.Since(c.claimed) > claimEvery {
		if got, err := c.inherit(room); err != nil || len(got) > 0 {
			return got, err
		}
	}
	if c.sparse {
		room = perTap
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

// missed tells the log if the stream was trimmed beyond what the group has read, which it does no
// more than once a minute.
func (c *consumer) missed() error {
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
		if g.Name == c.group && len(oldest.Val()) > 0 && above(oldest.Val()[0].ID, g.LastDeliveredID) {
			c.warned = time.Now()
			c.Log.Warn("redis: members of a queue group are too slow, messages may be missing",
				"name", c.Name, "group", c.choice.Group)
		}
	}
	return nil
}

// inherit takes as many as room of what others do not mention any more. The broker looks at some of
// what is given out, so more than one look may be needed. It is asked for IDs first: a broker of
// version 6.2 has null in the place of an entry that was deleted, which the library does not
// understand.
func (c *consumer) inherit(room int64) (got []goredis.XMessage, err error) {
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
		// without fields it is useless
		got = append(got, append(found[i].Val(), goredis.XMessage{ID: id})[0])
	}
	return got, nil
}

// receive takes entries, some of which may have come before.
func (c *consumer) receive(got []goredis.XMessage) error {
	var useless []string
	for _, x := range got {
		if c.last == "" || above(x.ID, c.last) {
			c.last = x.ID
		}
		if c.has(x.ID) { // it was given again, and still waits
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
		c.next = append(c.next, held{Message: e.Message, entry: x.ID})
	}
	return c.acknowledge(useless)
}

func (c *consumer) has(entry string) bool {
	is := func(h held) bool { return h.entry == entry }
	return slices.ContainsFunc(c.held, is) || slices.ContainsFunc(c.next, is)
}

// acknowledge has the broker forget entries.
func (c *consumer) acknowledge(entries []string) error {
	if len(entries) == 0 {
		return nil
	}
	ctx, cancel := c.Within(0)
	defer cancel()
	return c.client.XAck(ctx, c.key, c.group, entries...).Err()
}

// settle gives the feed what it has room for, and acknowledges what members have received. It
// reports whether anything has changed.
func (c *consumer) settle() (changed bool, err error) {
	if time.Since(c.told) > ackWait/3 {
		if err := c.mention(); err != nil {
			return false, err
		}
	}
	var done []string
	c.choice.mu.Lock()
	for len(c.next) > 0 && c.left.Err() == nil {
		h := c.next[0]
		before, _ := c.to.Progress()
		if rest := c.to.Offer([]*pubsub.Message{h.Message}); len(rest) > 0 {
			break
		}
		taken, _ := c.to.Progress()
		if taken == before {
			if c.left.Err() != nil {
				break // it was left just then
			}
			done = append(done, h.entry) // it is for no member
		} else {
			h.number = taken
			c.held = append(c.held, h)
		}
		c.next, changed = c.next[1:], true
	}
	_, received := c.to.Progress()
	c.choice.mu.Unlock()
	n := 0
	for ; n < len(c.held) && c.held[n].number <= received; n++ {
		done = append(done, c.held[n].entry)
	}
	if err := c.acknowledge(done); err != nil {
		return changed, err
	}
	c.held = c.held[n:]
	return changed || n > 0, nil
}

// mention tells the broker what the process still has. If it has not done so for long, others may
// have some of that, or have dealt with it: what no member can have received is theirs then.
func (c *consumer) mention() error {
	if len(c.held)+len(c.next) > 0 {
		ctx, cancel := c.Within(0)
		defer cancel()
		listed, err := c.client.XPendingExt(ctx, &goredis.XPendingExtArgs{Stream: c.key, Group: c.group,
			Consumer: c.Hub.Origin(), Start: "-", End: "+", Count: maxListed}).Result()
		if err != nil {
			return err
		}
		gone := func(h held) bool {
			return !slices.ContainsFunc(listed, func(x goredis.XPendingExt) bool {
				return x.ID == h.entry
			})
		}
		c.next = slices.DeleteFunc(c.next, func(h held) bool {
			if h.loose || !gone(h) {
				return false
			}
			c.seen.Forget(h.ID)
			return true
		})
		if err := c.claim(slices.DeleteFunc(slices.Concat(c.held, c.next), gone), 0); err != nil {
			return err
		}
	}
	c.told = time.Now()
	return nil
}

// claim says that the process has messages, and has had them for as long as idle.
func (c *consumer) claim(some []held, idle time.Duration) error {
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

// giveBack lets other processes have messages: they look as if they had been forgotten here.
func (c *consumer) giveBack(some []held) error {
	for _, h := range some {
		c.seen.Forget(h.ID)
	}
	return c.claim(some, 2*ackWait)
}

// release gives back what no member has received when the last one has left.
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
		if _, err := c.settle(); err != nil {
			return err
		}
		mine, err := c.mine() // among them may be some whose delivery was cut short
		if err != nil {
			return err
		}
		var some []held
		for _, x := range mine {
			some = append(some, held{entry: x.ID, Message: new(pubsub.Message)})
		}
		return c.giveBack(some)
	}()
	if err != nil && !errors.Is(err, goredis.ErrClosed) {
		c.Log.Info("redis: others get what a queue group has left later", "group", c.choice.Group,
			"error", err)
	}
}
