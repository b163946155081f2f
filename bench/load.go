package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/lwango/lwango/bench/tasks"
)

// A loadClient has something under way on its connections: requests over HTTP, or a message, bare
// or in a frame of WebSocket, of which it compares every byte that comes back: that takes some 20
// ns, beside two system calls.
//
// A closed loop sends the next when the last is answered, as fast as the server answers. An open
// loop sends at a fixed rate.
type loadClient struct {
	*wsClient
	job
	request []byte // Depth of them; nil where messages are sent
	shape   shape  // of all answers
	source  []byte // of messages
	sent    int    // messages
	closed  bool
	turns   []turn // by connection
	free    []int  // connections, first in, first out, so that all take part
	latency histogram
	answers int
}

// A turn is what is under way on a connection.
type turn struct {
	due     time.Duration // when it should have left, since start
	waiting int           // answers still to come
	at      int           // the place in the next
	// of a chunked answer: the last bytes that came; of one that is varied, its head
	last []byte
	want []byte // what is still to come of a message
}

// loadHTTP measures as many requests as possible, and then half as many, on other connections:
// where a server has left some without an answer, these would be missing.
func loadHTTP(j job) figures {
	j.Rate = 0
	if j.Filled > 0 {
		fillCache(j)
	}
	f := loadLoop(j)
	j.Rate = f["perSecond"] / 2
	open := loadLoop(j)
	f["halfRate"], f["halfCPU"] = j.Rate, open["cpu"]
	for _, name := range []string{"latency50", "latency90", "latency99", "latency999"} {
		f[name] = open[name]
	}
	return f
}

// fillCache asks for so many targets that nothing else asks for.
func fillCache(j job) {
	j.Distinct = true
	c := newLoadClient(j)
	defer c.shut()
	c.begin('9')
	c.connect(j.Conns)
	c.closed = true
	for _, i := range c.free {
		check(c.send(i, 0))
	}
	if !c.until(2*time.Minute, func() bool { return c.answers >= j.Filled }) {
		failf("%d of %d answers in two minutes", c.answers, j.Filled)
	}
}

// loadLoop is a closed loop for a rate of 0.
func loadLoop(j job) figures {
	c := newLoadClient(j)
	defer c.shut()
	run := c.closedLoop
	if j.Rate > 0 {
		run = c.openLoop
		if j.Distinct {
			c.begin('5') // what the closed loop has asked for may be kept
		}
	}
	c.connect(j.Conns)
	f := run()
	f["size"] = float64(c.shape.body)
	return f
}

// loadNeighbours is a closed loop while goroutines of the server compute. They go on for longer,
// and have ended before the next client begins.
func loadNeighbours(j job) figures {
	if j.Computing > 0 {
		d := j.Warmup + 2*j.Duration
		ends := time.Now().Add(d)
		j.once(fmt.Sprint(tasks.ComputePath, "?goroutines=", j.Computing, "&ms=", d.Milliseconds()))
		defer func() { time.Sleep(time.Until(ends)) }()
	}
	return loadLoop(j)
}

func newLoadClient(j job) *loadClient {
	if j.Conns < 1 || j.Size < 1 || j.Depth < 1 || j.Rate < 0 {
		failf("rate %v, depth %d, %d connections, %d bytes", j.Rate, j.Depth, j.Conns, j.Size)
	}
	// On loopback the size of reads decides which side sends most of a large file (README.md,
	// Closed loop). 8 KiB are what wrk reads, which gave the earlier results.
	buffer := 8 << 10
	if j.Rate > 0 {
		buffer = 256 << 10
	}
	c := &loadClient{
		wsClient: newWSClient(buffer), job: j, latency: newHistogram(),
		turns: make([]turn, j.Conns),
	}
	if j.Path == "" || j.Path == tasks.EchoPath {
		c.source = letters(echoSource + int(j.Size))
	} else {
		c.request, c.shape = j.request(j.Addr), j.answerShape()
	}
	return c
}

// connect opens n connections and uses each once, so that the server has accepted all of them
// before the clock starts.
func (c *loadClient) connect(n int) {
	c.message = func(i int, p []byte, _ time.Duration) error { return c.take(i, p) }
	path := c.Path
	if c.source == nil {
		path = ""
	}
	for i := range n {
		c.join(c.dial(), path, func(p []byte) error { return c.take(i, p) })
		c.use(i)
	}
	c.answers = 0
}

// use returns when what it sends on a connection has been answered.
func (c *loadClient) use(i int) {
	check(c.send(i, 0))
	if !c.until(c.Patience, func() bool { return c.turns[i].waiting == 0 }) {
		failf("connection %d of %d: nothing came back within %v", i+1, c.Conns, c.Patience)
	}
}

func (c *loadClient) closedLoop() figures {
	c.closed = true
	for _, i := range c.free {
		check(c.send(i, 0))
	}
	return c.byItself(c.reactor, &c.answers)
}

// byItself measures what goes on by itself on a reactor.
func (j job) byItself(r *reactor, answers *int) figures {
	r.run(j.Warmup)
	*answers = 0
	m := newMeter(j.Group)
	r.run(j.Duration)
	if !r.until(j.Patience, func() bool { return *answers > 0 }) {
		failf("nothing came back in %v", j.Duration+j.Patience)
	}
	return m.figures(float64(*answers))
}

// openLoop sends arrival i at start + i/rate on whichever connection is free, and counts each
// latency from that moment even if the request left later, because all were taken or the client was
// late: a server that stalls is charged for every request that should have been sent meanwhile (no
// coordinated omission).
func (c *loadClient) openLoop() figures {
	c.latency.Reset()
	rate := c.Rate / float64(c.Depth) // of arrivals
	arrivals := max(int(c.Duration.Seconds()*rate), 1)
	every := float64(time.Second) / rate
	due := func(i int) time.Duration { return time.Duration(float64(i) * every) }
	limit := 2*c.Duration + time.Second
	m := newMeter(c.Group)
	c.start = m.start
	for next := 0; next < arrivals || len(c.free) < c.Conns; {
		now := c.now()
		for ; next < arrivals && due(next) <= now && len(c.free) > 0; next++ {
			i := c.free[0]
			c.free = c.free[1:]
			check(c.send(i, due(next)))
		}
		if now > limit { // what was never answered counts with the time that it has waited so far
			for _, t := range c.turns {
				c.latency.add(now-t.due, t.waiting)
			}
			for ; next < arrivals; next++ {
				c.latency.add(now-due(next), c.Depth)
			}
			break
		}
		wait := limit - now
		if next < arrivals && len(c.free) > 0 {
			wait = due(next) - c.now()
		}
		check(c.poll(wait))
	}
	f := m.figures(float64(max(c.answers, 1)))
	f["perSecond"] = float64(c.answers) / c.Duration.Seconds()
	f.quantiles("latency", c.latency)
	return f
}

func (c *loadClient) send(i int, due time.Duration) error {
	t := &c.turns[i]
	t.due, t.waiting = due, c.Depth
	if c.source == nil {
		if c.Distinct {
			c.sent++
			c.renumber()
		}
		return c.write(c.conns[i], c.request)
	}
	at := messageAt(c.sent)
	c.sent++
	t.want = c.source[at : at+int(c.Size)]
	if c.Path != "" {
		return c.sendText(i, t.want)
	}
	return c.write(c.conns[i], t.want)
}

// begin has the numbers of distinct targets begin with a digit.
func (c *loadClient) begin(digit byte) {
	at := len("GET ") + len(c.Path) + len("?")
	for step := len(c.request) / c.Depth; at < len(c.request); at += step {
		c.request[at] = digit
	}
}

// renumber gives the requests other targets than any before.
func (c *loadClient) renumber() {
	at := len("GET ") + len(c.Path) + len("?")
	for step := len(c.request) / c.Depth; at < len(c.request); at += step {
		for i := at + len(distinct) - 2; i >= at; i-- {
			if c.request[i]++; c.request[i] <= '9' {
				break
			}
			c.request[i] = '0'
		}
	}
}

func (c *loadClient) take(i int, p []byte) error {
	t, ended := &c.turns[i], 0
	var err error
	if c.shape.chunked {
		ended, err = t.feedChunked(p, c.shape.size)
	} else if c.Varied {
		ended, err = t.feedVaried(p, c.shape.body)
	} else if c.source == nil {
		ended, err = t.feed(p, c.shape.size)
	} else if t.want, err = echoed(p, t.want); len(t.want) == 0 {
		ended = 1
	} else if c.Path != "" {
		err = errors.Join(err, fmt.Errorf("the last %d bytes did not come back", len(t.want)))
	}
	if err != nil || ended == 0 {
		return err
	}
	if ended > t.waiting {
		return fmt.Errorf("%d answers to %d requests", ended, t.waiting)
	}
	c.answers += ended
	t.waiting -= ended
	if c.closed {
		if t.waiting == 0 {
			return c.send(i, 0)
		}
		return nil
	}
	c.latency.add(c.now()-t.due, ended)
	if t.waiting == 0 {
		c.free = append(c.free, i)
	}
	return nil
}

const goodStatus = "HTTP/1.1 200 "

// feed takes bytes and tells how many answers of that size have ended in them.
func (t *turn) feed(p []byte, size int) (ended int, err error) {
	for len(p) > 0 {
		n := min(len(p), size-t.at)
		if !t.good(p[:n]) {
			return ended, fmt.Errorf("an answer of %d bytes is followed by %.40q", size, p)
		}
		if t.at += n; t.at == size {
			ended++
			t.at = 0
		}
		p = p[n:]
	}
	return ended, nil
}

// feedVaried is feed for answers with a body of that size and whatever head.
func (t *turn) feedVaried(p []byte, body int) (ended int, err error) {
	for len(p) > 0 {
		if t.at == 0 { // in the head
			t.last = append(t.last, p...)
			end := bytes.Index(t.last, []byte("\r\n\r\n"))
			if !bytes.HasPrefix(t.last, []byte(goodStatus)[:min(len(t.last), len(goodStatus))]) {
				return ended, fmt.Errorf("an answer begins with %.40q", t.last)
			}
			if end < 0 {
				return ended, nil
			}
			p = p[len(p)-(len(t.last)-end-4):]
			t.at, t.last = body, t.last[:0]
		}
		n := min(len(p), t.at)
		p = p[n:]
		if t.at -= n; t.at == 0 {
			ended++
		}
	}
	return ended, nil
}

// lastChunk ends a body without trailers (RFC 9112, section 7.1). That what was read ends with the
// same in the middle of a body is not to be expected: these bodies are compressed.
const lastChunk = "\r\n0\r\n\r\n"

// feedChunked takes bytes of the one answer that is under way. It has least bytes and more, which
// depends on how the server has cut it.
func (t *turn) feedChunked(p []byte, least int) (ended int, err error) {
	if !t.good(p) {
		return 0, fmt.Errorf("after %d bytes of an answer: %.40q", t.at, p)
	}
	t.at += len(p)
	t.last = append(t.last, p[max(0, len(p)-len(lastChunk)):]...)
	t.last = append(t.last[:0], t.last[max(0, len(t.last)-len(lastChunk)):]...)
	if string(t.last) != lastChunk {
		return 0, nil
	}
	if t.at < least {
		return 0, fmt.Errorf("an answer of %d bytes, shorter than its body, %d", t.at, least)
	}
	t.at, t.last = 0, t.last[:0]
	return 1, nil
}

// good tells whether an answer may go on with p: it begins with the status.
func (t *turn) good(p []byte) bool {
	want := goodStatus[min(t.at, len(goodStatus)):]
	want = want[:min(len(p), len(want))]
	return string(p[:len(want)]) == want
}

// echoSource is how many messages differ: one that comes back on another connection, or late, is
// noticed.
const echoSource = 16 << 10

// messageAt is where in the source a message begins. 61 and a power of two have no common factor:
// all places come before the first comes again.
func messageAt(sent int) int { return sent * 61 % echoSource }

// echoed compares what came with what was sent and returns what is still to come.
func echoed(came, want []byte) ([]byte, error) {
	if len(came) > len(want) {
		return want, fmt.Errorf("%d bytes came back of %d that were sent", len(came), len(want))
	}
	if !bytes.Equal(came, want[:len(came)]) {
		return want, errors.New("other bytes came back than were sent")
	}
	return want[len(came):], nil
}
