package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
)

// An echoClient keeps one message under way on each connection, bare or in frames of WebSocket. It
// compares every byte that comes back: that takes some 20 ns of a message, beside two system calls.
type echoClient struct {
	*wsClient
	job
	source []byte
	want   [][]byte // by connection: what is still to come of its message
	came   []int64  // by connection
	sent   int64    // messages
	total  int64    // that came
}

// echoSource is how many messages differ: one that comes back on another connection, or late, is
// noticed.
const echoSource = 16 << 10

// echoPatience is for connections on which nothing came back in time: a smoke run is short.
const echoPatience = 4 * time.Second

// loadEcho sends as fast as the server answers.
func loadEcho(j job) figures {
	if j.Conns < 1 || j.Size < 1 {
		failf("%d connections, messages of %d bytes", j.Conns, j.Size)
	}
	c := &echoClient{wsClient: newWSClient(), job: j, source: letters(echoSource + int(j.Size)),
		want: make([][]byte, j.Conns), came: make([]int64, j.Conns)}
	defer c.shut()
	c.message = func(i int, p []byte, _ time.Duration) error { return c.take(i, p) }
	for i := range j.Conns {
		if j.Path != "" {
			c.join(j.Addrs[0], j.Path)
		} else {
			l := c.dial(j.Addrs[0], i+1, func(p []byte) error { return c.take(i, p) })
			c.conns = append(c.conns, &wsConn{link: l})
		}
	}
	for i := range j.Conns {
		check(c.next(i))
	}
	c.run(j.Warmup)
	m := newMeter(j.PIDs)
	clear(c.came)
	c.total = 0
	c.run(j.Duration)
	f := m.figures(float64(max(c.total, 1)))
	// A server that got its figures by serving only some of its connections has not done the work.
	c.until(echoPatience, func() bool { return !slices.Contains(c.came, 0) })
	if silent := slices.Index(c.came, 0); silent >= 0 {
		failf("connection %d of %d: nothing came back", silent+1, j.Conns)
	}
	return f
}

// next sends a message on a connection whose last one has come back.
func (c *echoClient) next(i int) error {
	at := messageAt(c.sent)
	c.sent++
	c.want[i] = c.source[at : at+int(c.Size)]
	if c.Path != "" {
		return c.send(i, c.want[i])
	}
	return c.write(c.conns[i].link, c.want[i])
}

// messageAt is where in the source a message begins. 61 and a power of two have no common factor:
// all places come before the first comes again.
func messageAt(sent int64) int { return int(sent * 61 % echoSource) }

func (c *echoClient) take(i int, p []byte) (err error) {
	c.want[i], err = echoed(p, c.want[i])
	switch {
	case err != nil:
		return err
	case len(c.want[i]) > 0 && c.Path != "":
		return fmt.Errorf("a message came back without its last %d bytes", len(c.want[i]))
	case len(c.want[i]) > 0:
		return nil
	}
	c.came[i]++
	c.total++
	return c.next(i)
}

// echoed compares what came with what was sent and returns what is still to come.
func echoed(came, want []byte) ([]byte, error) {
	if len(came) > len(want) {
		return nil, fmt.Errorf("%d bytes came back of %d that were sent", len(came), len(want))
	}
	if !bytes.Equal(came, want[:len(came)]) {
		return nil, errors.New("other bytes came back than were sent")
	}
	return want[len(came):], nil
}

// verifyEcho sends messages as long as the work's, of one byte and, on plain TCP, far longer than a
// server may hold, which it must not lose either.
func verifyEcho(j job) {
	sizes := []int64{j.Size, 1}
	if j.Path == "" {
		sizes = append(sizes, 1<<20)
	}
	for _, j.Size = range sizes {
		j.Conns, j.Warmup, j.Duration = 1, 0, 0
		loadEcho(j)
	}
}
