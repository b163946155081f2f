package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lwango/lwango/bench/tasks"
)

// A fillClient is people who enter a room as fast as they can. Each is to learn of all others.
type fillClient struct {
	*wsClient
	job
	known   [][]uint64 // by member: whom it knows, in bits
	unknown int        // pairs that are still to come
}

// loadFill lets one room fill, and says how long that takes, from the first connection until all
// know all.
func loadFill(j job) figures {
	warm := j
	warm.Conns = min(warmConns, j.Conns)
	newFillClient(warm).fill("warm")
	c := newFillClient(j)
	m, start := newMeter(j.Group), time.Now()
	c.fill("cold")
	took := time.Since(start)
	f := m.figures(float64(j.Conns))
	f["filled"] = took.Seconds()
	return f
}

func newFillClient(j job) *fillClient {
	c := &fillClient{wsClient: newWSClient(maxPayload), job: j, unknown: j.Conns * j.Conns,
		known: make([][]uint64, j.Conns)}
	for i := range c.known {
		c.known[i] = make([]uint64, (j.Conns+63)/64)
	}
	c.nap, c.message = j.Nap, c.take
	return c
}

// fill returns when all know all, and leaves.
func (c *fillClient) fill(room string) {
	defer c.shut()
	for i := range c.Conns {
		c.join(c.dial(), fmt.Sprint(c.Path, "?room=", room, "&name=", i), nil)
		if i%64 == 0 {
			check(c.poll(0))
		}
	}
	if !c.until(c.Patience, func() bool { return c.unknown == 0 }) {
		failf("%d of %d pairs do not know each other after %v", c.unknown, c.Conns*c.Conns, c.Patience)
	}
}

// take notes whom a member gets to know. Each must come once, in the list or behind it.
func (c *fillClient) take(i int, p []byte, _ time.Duration) error {
	kind, names := tasks.Filled(string(p))
	if kind != tasks.FillList && kind != tasks.FillJoined {
		return fmt.Errorf("other bytes came: %.60q", p)
	}
	for _, name := range names {
		k, err := strconv.Atoi(name)
		if err != nil || k < 0 || k >= c.Conns {
			return fmt.Errorf("member %d hears of %q, who never came", i, name)
		}
		bit := uint64(1) << (k % 64)
		if c.known[i][k/64]&bit != 0 {
			return fmt.Errorf("member %d hears of member %d twice", i, k)
		}
		c.known[i][k/64] |= bit
		c.unknown--
	}
	return nil
}
