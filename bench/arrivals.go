package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxHead is more than any of these servers' answers has before its body.
const maxHead = 2048

// client is the open-loop client's connections. One goroutine uses it.
type client struct {
	options openLoopOptions
	epoll   int
	events  []unix.EpollEvent
	buf     []byte
	start   time.Time

	conns []clientConn
	free  []int32 // ring of connections without a request; first in, first out, so that all take part
	head  int
	busy  int

	latency histogram
	answers int64
}

type clientConn struct {
	fd       int
	intended time.Duration // when the request should have left, since start
	waiting  int           // answers still to come
	answer   answer
}

// answer is how far one answer has been read.
type answer struct {
	body int64 // bytes of the body still to come
	head [maxHead]byte
	used int // bytes of an incomplete head
}

var (
	endOfHead     = []byte("\r\n\r\n")
	goodStatus    = []byte("HTTP/1.1 200 ")
	contentLength = []byte("\r\ncontent-length:")
)

// feed takes bytes and tells how many answers have ended in them. want is the length of each body.
func (a *answer) feed(p []byte, want int64) (ended int, err error) {
	for len(p) > 0 {
		if a.body > 0 {
			n := min(int64(len(p)), a.body)
			p = p[n:]
			if a.body -= n; a.body == 0 {
				ended++
			}
			continue
		}
		head := p
		if a.used > 0 {
			head = a.head[:a.used+copy(a.head[a.used:], p)]
		}
		end := bytes.Index(head, endOfHead)
		if end < 0 {
			if len(head) >= maxHead {
				return ended, errors.New("head of an answer is too long")
			}
			if a.used == 0 {
				copy(a.head[:], p)
			}
			a.used = len(head)
			return ended, nil
		}
		end += len(endOfHead)
		if err := checkHead(head[:end], want); err != nil {
			return ended, err
		}
		p = p[end-a.used:]
		a.used, a.body = 0, want
		if want == 0 {
			ended++
		}
	}
	return ended, nil
}

// checkHead is strict about the two things that make an answer the right one.
func checkHead(head []byte, want int64) error {
	if !bytes.HasPrefix(head, goodStatus) {
		return fmt.Errorf("answer begins with %.40q", head)
	}
	for i := range head {
		if head[i] != '\r' || len(head)-i < len(contentLength) || !bytes.EqualFold(head[i:i+len(contentLength)], contentLength) {
			continue
		}
		value := head[i+len(contentLength):]
		value = bytes.TrimSpace(value[:bytes.IndexByte(value, '\r')])
		if n, err := strconv.ParseInt(string(value), 10, 64); err != nil || n != want {
			return fmt.Errorf("Content-Length %q, want %d", value, want)
		}
		return nil
	}
	return fmt.Errorf("no Content-Length in %.200q", head)
}

// newClient connects everything and has one request answered on each connection, so that the server has accepted all
// of them before the clock starts.
func newClient(o openLoopOptions) (*client, error) {
	c := &client{options: o, epoll: -1, events: make([]unix.EpollEvent, 256), buf: make([]byte, 256<<10)}
	c.conns = make([]clientConn, o.Conns)
	for i := range c.conns {
		c.conns[i].fd = -1
	}
	if err := c.connect(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *client) connect() (err error) {
	if c.epoll, err = newEpoll(); err != nil {
		return err
	}
	for i := range c.conns {
		conn := &c.conns[i]
		if conn.fd, err = dial(c.options.Addr); err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, len(c.conns), err)
		}
		if err := addRead(c.epoll, conn.fd, int32(i)); err != nil {
			return err
		}
		c.free = append(c.free, int32(i))
		c.head = i // all are free: the ring may begin anywhere, here at the new one
		c.start = time.Now()
		if err := c.send(0); err != nil {
			return err
		}
		for c.busy > 0 {
			if time.Since(c.start) > verifyLimit {
				return fmt.Errorf("connection %d of %d: not answered within %v", i+1, len(c.conns), verifyLimit)
			}
			if err := c.poll(verifyLimit); err != nil {
				return err
			}
		}
	}
	c.latency, c.answers = histogram{}, 0
	return nil
}

func (c *client) close() {
	for i := range c.conns {
		if c.conns[i].fd >= 0 {
			unix.Close(c.conns[i].fd)
		}
	}
	if c.epoll >= 0 {
		unix.Close(c.epoll)
	}
}

func (c *client) hasFree() bool { return c.busy < len(c.free) }

// send needs a free connection. A request is far smaller than an empty socket buffer, so a short write is an error.
func (c *client) send(intended time.Duration) error {
	conn := &c.conns[c.free[c.head]]
	c.head = (c.head + 1) % len(c.free)
	c.busy++
	conn.intended, conn.waiting = intended, c.options.Depth
	return writeAll(conn.fd, c.options.Request)
}

// release puts a connection at the ring's end: the place after the free ones.
func (c *client) release(i int32) {
	tail := (c.head + len(c.free) - c.busy) % len(c.free)
	c.free[tail] = i
	c.busy--
}

// poll waits at most that long for answers and takes what is there.
func (c *client) poll(wait time.Duration) error {
	n, err := epollWait(c.epoll, c.events, wait)
	if err != nil {
		return err
	}
	for _, event := range c.events[:n] {
		if err := c.read(event.Fd); err != nil {
			return err
		}
	}
	return nil
}

// read takes what one read gives; epoll is level-triggered and reports the rest again.
func (c *client) read(i int32) error {
	conn := &c.conns[i]
	n, err := readSome(conn.fd, c.buf)
	if n <= 0 || err != nil {
		return err
	}
	ended, err := conn.answer.feed(c.buf[:n], c.options.Body)
	if err != nil {
		return err
	}
	if ended > conn.waiting {
		return fmt.Errorf("%d answers to %d requests", ended, conn.waiting)
	}
	if ended == 0 {
		return nil
	}
	latency := time.Since(c.start) - conn.intended
	for range ended {
		c.latency.add(latency)
	}
	c.answers += int64(ended)
	if conn.waiting -= ended; conn.waiting == 0 {
		c.release(i)
	}
	return nil
}

// giveUp counts what was never answered with the time it has waited so far.
func (c *client) giveUp(now time.Duration) {
	for i := range c.conns {
		for range c.conns[i].waiting {
			c.latency.add(now - c.conns[i].intended)
		}
	}
}
