package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

// wsClient is any number of WebSocket connections on one epoll, with frames of its own making: a goroutine and two
// buffers per connection would take more of the machine than the servers that are measured. One goroutine uses it.
type wsClient struct {
	epoll  int
	start  time.Time // messages carry the time since then
	events []unix.EpollEvent
	buf    []byte // what one read gives; longer than anything that a server sends at once as a rule
	frame  []byte // the one being sent
	conns  []wsConn
	pings  int64         // that servers sent
	nap    time.Duration // at least so long between two looks at what came

	// message takes the text messages of the i-th connection; p is valid until it returns. It may send.
	message func(i int, p []byte, now time.Duration) error
}

type wsConn struct {
	fd   int
	open bool   // the server has answered the upgrade
	rest []byte // the beginning of a frame, or of the answer to the upgrade
}

// wsKey may be the same for all: it proves to a client that it speaks with a WebSocket server, and nothing else.
// The answer to it is the one of RFC 6455, section 1.3.
const (
	wsKey    = "dGhlIHNhbXBsZSBub25jZQ=="
	wsAnswer = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

func newWSClient() (*wsClient, error) {
	epoll, err := newEpoll()
	if err != nil {
		return nil, err
	}
	return &wsClient{epoll: epoll, start: time.Now(), events: make([]unix.EpollEvent, 1024), buf: make([]byte, 64<<10)}, nil
}

func (c *wsClient) now() time.Duration { return time.Since(c.start) }

// join opens one more connection and returns when it is upgraded, taking what comes on the others meanwhile.
func (c *wsClient) join(addr, path string) error {
	i := len(c.conns)
	fd, err := dial(addr)
	if err != nil {
		return fmt.Errorf("connection %d: %w", i+1, err)
	}
	c.conns = append(c.conns, wsConn{fd: fd})
	// Edge-triggered: a read that leaves room in the buffer has had everything, and is the only one.
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(i)}
	if err := unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return err
	}
	request := "GET " + path + " HTTP/1.1\r\nHost: " + addr + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + wsKey + "\r\n\r\n"
	if err := writeAll(fd, []byte(request)); err != nil {
		return err
	}
	return c.await(verifyLimit, "the upgrade", func() bool { return c.conns[i].open })
}

// leave resets all connections: thousands of them in TIME-WAIT per server would use up the port numbers.
func (c *wsClient) leave() {
	for _, conn := range c.conns {
		unix.SetsockoptLinger(conn.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		unix.Close(conn.fd)
	}
	c.conns = c.conns[:0]
}

func (c *wsClient) close() {
	c.leave()
	unix.Close(c.epoll)
}

// await takes what comes until done; what says what is awaited, for the error.
func (c *wsClient) await(limit time.Duration, what string, done func() bool) error {
	for end := c.now() + limit; !done(); {
		left := end - c.now()
		if left <= 0 {
			return fmt.Errorf("waited %v for %s", limit, what)
		}
		if err := c.poll(left); err != nil {
			return err
		}
	}
	return nil
}

// run takes what comes until that time.
func (c *wsClient) run(until time.Duration) error {
	for {
		left := until - c.now()
		if left <= 0 {
			return nil
		}
		if err := c.poll(left); err != nil {
			return err
		}
	}
}

// poll waits at most that long for something to come, and takes it.
func (c *wsClient) poll(wait time.Duration) error {
	n, err := epollWait(c.epoll, c.events, wait)
	if err != nil {
		return err
	}
	for _, event := range c.events[:n] {
		if err := c.read(int(event.Fd), event.Events&unix.EPOLLRDHUP != 0); err != nil {
			return fmt.Errorf("connection %d: %w", event.Fd+1, err)
		}
	}
	if n > 0 && n < len(c.events) && c.nap > 0 {
		nap := unix.NsecToTimespec(int64(c.nap))
		if err := unix.Nanosleep(&nap, nil); err != nil && err != unix.EINTR { // not Go's, which uses other threads
			return err
		}
	}
	return nil
}

// send sends one text message. It is far smaller than an empty socket buffer, so a short write is an error.
func (c *wsClient) send(i int, text []byte) error { return c.sendFrame(i, opText, text) }

func (c *wsClient) sendFrame(i int, op byte, payload []byte) error {
	c.frame = appendFrame(c.frame[:0], op, rand.Uint32(), payload)
	return writeAll(c.conns[i].fd, c.frame)
}

// read reads once, as a rule; to the end, where the server has ended its side, which is an error.
func (c *wsClient) read(i int, ended bool) error {
	for {
		n, err := readSome(c.conns[i].fd, c.buf)
		if n == 0 || err != nil {
			return err
		}
		if err := c.feed(i, c.buf[:n]); err != nil || n < len(c.buf) && !ended {
			return err
		}
	}
}

// feed takes the bytes that came and keeps the last incomplete frame of them.
func (c *wsClient) feed(i int, p []byte) error {
	now := c.now()
	conn := &c.conns[i]
	if len(conn.rest) > 0 {
		conn.rest = append(conn.rest, p...)
		p = conn.rest
	}
	if !conn.open {
		used, err := parseUpgrade(p)
		if err != nil {
			return err
		}
		p, conn.open = p[used:], used > 0
	}
	for conn.open {
		f, used, err := parseFrame(p)
		if err != nil {
			return err
		}
		if used == 0 {
			break
		}
		p = p[used:]
		switch f.op {
		case opText:
			err = c.message(i, f.payload, now)
		case opPing:
			c.pings++
			err = c.sendFrame(i, opPong, f.payload)
		case opClose:
			err = fmt.Errorf("the server closed it %s", closeReason(f.payload))
		}
		if err != nil {
			return err
		}
	}
	if len(p) == 0 {
		conn.rest = nil // thousands of them: what is kept is kept for an instant
		return nil
	}
	if len(p) > maxPayload+maxHead {
		return errors.New("a frame without an end")
	}
	conn.rest = append(conn.rest[:0], p...)
	return nil
}

// parseUpgrade tells how long the head of an answer is that accepts the upgrade, without what the client did not ask for:
// 0 when p ends within it.
func parseUpgrade(p []byte) (used int, err error) {
	end := bytes.Index(p, endOfHead)
	if end < 0 {
		if len(p) > maxHead {
			return 0, errors.New("the head of an answer is too long")
		}
		return 0, nil
	}
	lines := bytes.Split(p[:end], []byte("\r\n"))
	if want := "HTTP/1.1 101 "; !bytes.HasPrefix(lines[0], []byte(want)) {
		return 0, fmt.Errorf("the upgrade is answered with %.60q", lines[0])
	}
	header := http.Header{}
	for _, line := range lines[1:] {
		name, value, _ := bytes.Cut(line, []byte(":"))
		header.Add(string(name), string(bytes.TrimSpace(value)))
	}
	if got := header.Get("Sec-WebSocket-Accept"); got != wsAnswer {
		return 0, fmt.Errorf("Sec-WebSocket-Accept is %q, want %q", got, wsAnswer)
	}
	if got := header.Get("Sec-WebSocket-Extensions"); got != "" {
		return 0, fmt.Errorf("nobody asked for the extension %q", got)
	}
	return end + len(endOfHead), nil
}
