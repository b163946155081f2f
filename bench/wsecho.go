package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// wsEchoClient keeps one message under way on each connection, as echoClient does, in frames of WebSocket.
type wsEchoClient struct {
	*wsClient
	size   int
	source []byte
	want   [][]byte // by connection: what is to come back
	came   []int64  // by connection
	sent   int64
	total  int64 // that came
}

// loadWSEcho sends as fast as the server answers.
func loadWSEcho(o echoOptions) (report echoReport, err error) {
	if o.Conns < 1 || o.Size < 1 || o.Size >= maxPayload {
		return report, fmt.Errorf("%d connections, messages of %d bytes", o.Conns, o.Size)
	}
	ws, err := newWSClient()
	if err != nil {
		return report, err
	}
	defer ws.close()
	c := &wsEchoClient{wsClient: ws, size: o.Size, source: letters(echoSource + o.Size),
		want: make([][]byte, o.Conns), came: make([]int64, o.Conns)}
	ws.message = c.take
	for range o.Conns {
		if err := ws.join(o.Addr, o.Path); err != nil {
			return report, err
		}
	}
	for i := range o.Conns {
		if err := c.next(i); err != nil {
			return report, err
		}
	}
	if err := ws.run(ws.now() + o.Warmup); err != nil {
		return report, err
	}

	own := []int{os.Getpid()}
	before, err1 := readCPU(o.PIDs)
	ownBefore, err2 := readCPU(own)
	clear(c.came)
	c.total = 0
	start := ws.now()
	err = ws.run(start + o.Duration)
	report.Took = ws.now() - start
	ownAfter, err3 := readCPU(own)
	after, err4 := readCPU(o.PIDs)
	if err := errors.Join(err, err1, err2, err3, err4); err != nil {
		return report, err
	}
	report.Messages, report.CPU, report.Client = c.total, after.since(before), ownAfter.since(ownBefore)
	// A server that got its figures by serving only some of its connections has not done the work.
	return report, ws.await(echoPatience, "a message on every connection", func() bool { return !slices.Contains(c.came, 0) })
}

func (c *wsEchoClient) next(i int) error {
	at := messageAt(c.sent)
	c.sent++
	c.want[i] = c.source[at : at+c.size]
	return c.send(i, c.want[i])
}

func (c *wsEchoClient) take(i int, p []byte, _ time.Duration) error {
	if !bytes.Equal(p, c.want[i]) {
		return fmt.Errorf("%d other bytes came back than the %d that were sent", len(p), c.size)
	}
	c.came[i]++
	c.total++
	return c.next(i)
}
