package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// echoOptions are what the echo client is told.
type echoOptions struct {
	Addr     string
	Path     string // of a WebSocket; plain TCP has none
	Conns    int
	Size     int // of a message
	Warmup   time.Duration
	Duration time.Duration
	PIDs     []int // the server, whose CPU time is read around the load
}

// echoReport is what it found.
type echoReport struct {
	Messages int64
	Took     time.Duration
	CPU      cpuUsage
	Client   cpuUsage // its own
}

func runEcho(ctx context.Context, env *environment, s settings, w work, srv *server) (echoReport, error) {
	options := echoOptions{Addr: srv.addr, Path: w.path, Conns: w.conns, Size: len(w.body), Warmup: s.warmup, Duration: s.duration, PIDs: srv.pids}
	var report echoReport
	client := "echo"
	if w.kind == wsEcho {
		client = "wsecho"
	}
	err := runClient(ctx, env, w, client, options, &report, s.warmup+s.duration)
	return report, err
}

// echoClient keeps one message under way on each connection. Every byte that comes back is compared: that takes some
// 20 ns of a message, beside two system calls.
type echoClient struct {
	epoll  int
	size   int
	events []unix.EpollEvent
	buf    []byte // longer than a message: bytes that nobody sent show as well
	source []byte
	conns  []echoConn
	sent   int64 // messages
	came   int64
}

type echoConn struct {
	fd   int
	want []byte // what is still to come of its message
	came int64
}

// echoSource is how many messages differ: one that comes back on another connection, or late, is noticed.
const echoSource = 16 << 10

// loadEcho sends as fast as the server answers.
func loadEcho(o echoOptions) (report echoReport, err error) {
	if o.Conns < 1 || o.Size < 1 {
		return report, fmt.Errorf("%d connections, messages of %d bytes", o.Conns, o.Size)
	}
	c := &echoClient{epoll: -1, size: o.Size, events: make([]unix.EpollEvent, o.Conns),
		buf: make([]byte, 2*o.Size), source: pattern(echoSource + o.Size)}
	defer c.close()
	if err := c.connect(o); err != nil {
		return report, err
	}
	if _, err := c.run(o.Warmup); err != nil {
		return report, err
	}
	own := []int{os.Getpid()}
	before, err1 := readCPU(o.PIDs)
	ownBefore, err2 := readCPU(own)
	for i := range c.conns {
		c.conns[i].came = 0
	}
	c.came = 0
	report.Took, err = c.run(o.Duration)
	ownAfter, err3 := readCPU(own)
	after, err4 := readCPU(o.PIDs)
	if err := errors.Join(err, err1, err2, err3, err4); err != nil {
		return report, err
	}
	report.Messages, report.CPU, report.Client = c.came, after.since(before), ownAfter.since(ownBefore)
	return report, c.checkAll()
}

// echoPatience is for a connection on which nothing came back in time: a smoke run on a busy machine is short.
const echoPatience = 2 * time.Second

// checkAll refuses a server that got its figures by serving only some of its connections.
func (c *echoClient) checkAll() error {
	if c.came == 0 {
		return errors.New("nothing came back")
	}
	for start := time.Now(); ; {
		silent := slices.IndexFunc(c.conns, func(conn echoConn) bool { return conn.came == 0 })
		if silent < 0 {
			return nil
		}
		if time.Since(start) > echoPatience {
			return fmt.Errorf("connection %d of %d: nothing came back", silent+1, len(c.conns))
		}
		if _, err := c.run(10 * time.Millisecond); err != nil {
			return err
		}
	}
}

func (c *echoClient) connect(o echoOptions) (err error) {
	if c.epoll, err = newEpoll(); err != nil {
		return err
	}
	for i := range o.Conns {
		fd, err := dial(o.Addr)
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, o.Conns, err)
		}
		c.conns = append(c.conns, echoConn{fd: fd})
		// Edge-triggered, unlike the open loop's: this client must not be slower than any of the servers. A read always
		// leaves room in the buffer, so what comes after it is an edge.
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(i)}
		if err := unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return err
		}
		if err := c.send(&c.conns[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *echoClient) close() {
	for i := range c.conns {
		unix.Close(c.conns[i].fd)
	}
	if c.epoll >= 0 {
		unix.Close(c.epoll)
	}
}

// run goes on for d with what is under way, and leaves it under way.
func (c *echoClient) run(d time.Duration) (took time.Duration, err error) {
	for start := time.Now(); ; {
		if took = time.Since(start); took >= d {
			return took, nil
		}
		n, err := epollWait(c.epoll, c.events, d-took)
		if err != nil {
			return took, err
		}
		for _, event := range c.events[:n] {
			if err := c.read(&c.conns[event.Fd]); err != nil {
				return took, fmt.Errorf("connection %d of %d: %w", event.Fd+1, len(c.conns), err)
			}
		}
	}
}

// send needs a connection whose last message has come back. A message is far smaller than an empty socket buffer, so a
// short write is an error.
func (c *echoClient) send(conn *echoConn) error {
	at := messageAt(c.sent)
	conn.want = c.source[at : at+c.size]
	c.sent++
	return writeAll(conn.fd, conn.want)
}

// messageAt is where in the source a message begins. 61 and a power of two have no common factor: all places come before
// the first comes again.
func messageAt(sent int64) int { return int(sent * 61 % echoSource) }

// read takes what one read gives, and sends the next message when the last is complete.
func (c *echoClient) read(conn *echoConn) error {
	n, err := readSome(conn.fd, c.buf)
	if err != nil {
		return err
	}
	if conn.want, err = echoed(c.buf[:n], conn.want); err != nil || len(conn.want) > 0 {
		return err
	}
	conn.came++
	c.came++
	return c.send(conn)
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

// verifyEcho sends messages whole, cut, and far more at once than a server may hold, which it must not lose either.
func verifyEcho(addr string, size int) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(verifyLimit)); err != nil {
		return err
	}
	for _, sent := range [][]byte{pattern(size), pattern(1), files["1m.bin"]} {
		writing := make(chan error, 1)
		go func() {
			_, err := conn.Write(sent)
			writing <- err
		}()
		came := make([]byte, len(sent))
		_, err := io.ReadFull(conn, came)
		if err := errors.Join(err, <-writing); err != nil {
			return fmt.Errorf("%d bytes: %w", len(sent), err)
		}
		if !bytes.Equal(came, sent) {
			return fmt.Errorf("%d bytes: other bytes came back than were sent", len(sent))
		}
	}
	return nil
}
