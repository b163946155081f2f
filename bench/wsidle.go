package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/lwango/lwango/bench/chatrules"
)

// wsIdleOptions are what the client of idle WebSockets is told.
type wsIdleOptions struct {
	Addr   string
	Path   string // which takes ?room=N
	Conns  int
	Settle time.Duration // before resident memory is read
	PIDs   []int         // the server
}

// wsIdleReport is what it found.
type wsIdleReport struct {
	Before, After int64    // resident bytes of the server, garbage collected
	CPU           cpuUsage // from the first connection to the last message
}

// roommates is how many share a room, so that an idle connection is what it is in a chat: a member who may hear
// something at any time.
const roommates = 10

// wsIdleClient has each member say one thing and hear it.
type wsIdleClient struct {
	*wsClient
	heard []int // by connection: messages of its own
	text  []byte
}

// loadWSIdle opens the connections one after the other and reads the server's memory before and after.
func loadWSIdle(o wsIdleOptions) (report wsIdleReport, err error) {
	if o.Conns < 1 {
		return report, fmt.Errorf("%d connections", o.Conns)
	}
	ws, err := newWSClient()
	if err != nil {
		return report, err
	}
	defer ws.close()
	c := &wsIdleClient{wsClient: ws}
	ws.message = c.take
	// What a server allocates once is to be there before the first reading.
	if err := c.openAll(o, min(warmConns, o.Conns)); err != nil {
		return report, fmt.Errorf("warming up: %w", err)
	}
	ws.leave()
	if report.Before, err = collected(o); err != nil {
		return report, err
	}
	before, err := readCPU(o.PIDs)
	if err != nil {
		return report, err
	}
	if err := c.openAll(o, o.Conns); err != nil {
		return report, err
	}
	after, err := readCPU(o.PIDs)
	if err != nil {
		return report, err
	}
	report.CPU = after.since(before)
	if report.After, err = collected(o); err != nil {
		return report, err
	}
	for i := 0; i < o.Conns; i += aliveEvery {
		if err := c.speak(i); err != nil {
			return report, fmt.Errorf("after idling: %w", err)
		}
	}
	return report, nil
}

func (c *wsIdleClient) openAll(o wsIdleOptions, n int) error {
	c.heard = make([]int, n)
	for i := range n {
		if err := c.join(o.Addr, o.Path+"?room="+strconv.Itoa(i/roommates)); err != nil {
			return err
		}
		if err := c.speak(i); err != nil {
			return err
		}
	}
	return nil
}

// speak sends a message, which the room sends back to its speaker too.
func (c *wsIdleClient) speak(i int) error {
	before := c.heard[i]
	c.text = chatMessage{sender: uint32(i), number: uint32(before + 1)}.appendTo(c.text[:0])
	if err := c.send(i, c.text); err != nil {
		return err
	}
	return c.await(verifyLimit, fmt.Sprintf("member %d to hear its own message", i+1), func() bool { return c.heard[i] > before })
}

func (c *wsIdleClient) take(i int, p []byte, _ time.Duration) error {
	m, err := parseChatMessage(p)
	if err == nil && int(m.sender) == i {
		c.heard[i]++
	}
	return err
}

// collected is the server's resident memory once it has settled and given back its garbage.
func collected(o wsIdleOptions) (int64, error) {
	time.Sleep(o.Settle)
	resp, err := http.Get("http://" + o.Addr + chatrules.CollectPath)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("GET %s: status %s", chatrules.CollectPath, resp.Status)
	}
	return residentMemory(o.PIDs)
}
