package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// An openClient is the connections of an open loop.
type openClient struct {
	*reactor
	job
	request []byte // of one arrival: Depth requests
	start   time.Time
	size    int // of an answer with its head; all of a server's are as long, whatever Date says
	conns   []*openConn
	free    []*openConn // first in, first out, so that all take part
	latency histogram
	answers int
}

type openConn struct {
	*link
	intended time.Duration // when the request should have left, since start
	waiting  int           // answers still to come
	at       int           // the place in the next
}

const goodStatus = "HTTP/1.1 200 "

// feed takes bytes and tells how many answers of that size have ended in them.
func (c *openConn) feed(p []byte, size int) (ended int, err error) {
	for len(p) > 0 {
		n := min(len(p), size-c.at)
		want := goodStatus[min(c.at, len(goodStatus)):]
		if want = want[:min(n, len(want))]; string(p[:len(want)]) != want {
			return ended, fmt.Errorf("an answer of %d bytes is followed by %.40q", size, p)
		}
		if c.at += n; c.at == size {
			ended++
			c.at = 0
		}
		p = p[n:]
	}
	return ended, nil
}

func (c *openClient) send(intended time.Duration) {
	conn := c.free[0]
	c.free = c.free[1:]
	conn.intended, conn.waiting = intended, c.Depth
	check(c.write(conn.link, c.request))
}

func (c *openClient) take(conn *openConn, p []byte) error {
	ended, err := conn.feed(p, c.size)
	if err != nil || ended == 0 {
		return err
	}
	if ended > conn.waiting {
		return fmt.Errorf("%d answers to %d requests", ended, conn.waiting)
	}
	c.latency.add(time.Since(c.start)-conn.intended, ended)
	c.answers += ended
	if conn.waiting -= ended; conn.waiting == 0 {
		c.free = append(c.free, conn)
	}
	return nil
}

// connect has one request answered on each connection, so that the server has accepted all of them
// before the clock starts.
func (c *openClient) connect() {
	c.size = c.answerSize()
	for i := range c.Conns {
		conn := &openConn{}
		conn.link = c.dial(c.Addrs[0], i+1, func(p []byte) error { return c.take(conn, p) })
		others := c.free
		c.conns, c.free = append(c.conns, conn), []*openConn{conn}
		c.send(0)
		if !c.until(verifyLimit, func() bool { return len(c.free) == 1 }) {
			failf("connection %d of %d: not answered within %v", i+1, c.Conns, verifyLimit)
		}
		c.free = append(others, conn)
	}
}

// answerSize is that of a first answer, which is parsed.
func (c *openClient) answerSize() int {
	first := crowd{job: c.job}
	defer first.leave()
	conn := first.join(1)
	check(conn.SetDeadline(time.Now().Add(verifyLimit)))
	must(conn.Write(c.request))
	var seen bytes.Buffer
	if body := first.text(io.TeeReader(conn, &seen)); int64(len(body)) != c.Size {
		failf("a body of %d bytes, want %d", len(body), c.Size)
	}
	return seen.Len() - first.in.Buffered()
}

// openLoop sends arrival i at start + i/rate on whichever connection is free, and counts each
// latency from that moment even if the request left later, because all were taken or the client was
// late: a server that stalls is charged for every request that should have been sent meanwhile (no
// coordinated omission).
func openLoop(j job) figures {
	if j.Rate <= 0 || j.Conns < 1 || j.Size < 1 || j.Depth < 1 {
		failf("rate %v, depth %d, %d connections, answers of %d bytes",
			j.Rate, j.Depth, j.Conns, j.Size)
	}
	c := &openClient{
		reactor: newReactor(256 << 10), job: j, request: j.request(j.Addrs[0]),
		latency: newHistogram(),
	}
	defer c.shut()
	c.connect()
	c.latency, c.answers = newHistogram(), 0
	rate := j.Rate / float64(j.Depth) // of arrivals
	arrivals := max(int(j.Duration.Seconds()*rate), 1)
	due := func(i int) time.Duration {
		return time.Duration(float64(i) * float64(time.Second) / rate)
	}
	limit := 2*j.Duration + time.Second
	m := newMeter(j.PIDs)
	c.start = m.start
	for next := 0; next < arrivals || len(c.free) < len(c.conns); {
		now := time.Since(c.start)
		for ; next < arrivals && due(next) <= now && len(c.free) > 0; next++ {
			c.send(due(next))
		}
		if now > limit { // what was never answered counts with the time that it has waited so far
			for _, conn := range c.conns {
				c.latency.add(now-conn.intended, conn.waiting)
			}
			for ; next < arrivals; next++ {
				c.latency.add(now-due(next), j.Depth)
			}
			break
		}
		wait := limit - now
		if next < arrivals && len(c.free) > 0 {
			wait = due(next) - time.Since(c.start)
		}
		check(c.poll(wait))
	}
	f := m.figures(float64(max(c.answers, 1)))
	f["perSecond"] = float64(c.answers) / j.Duration.Seconds()
	f.quantiles("latency", c.latency)
	return f
}

// A wrkReport is what one run of wrk counted. Late answers are no error: 4,000 connections that
// start at once may wait for a slow server.
type wrkReport struct {
	Requests, Microseconds       int64
	Connect, Read, Write, Status int64    // errors; Status: answers above 399
	used                         cpuUsage // wrk's own
}

// check refuses a run that did not do the work.
func (r wrkReport) check() error {
	if r.Requests == 0 || r.Connect+r.Read+r.Write+r.Status > 0 {
		return fmt.Errorf("wrk: %+v", r)
	}
	return nil
}

// runWrk loads the server as fast as it answers. The caller checks the report.
func runWrk(
	ctx context.Context, env *environment, w work, addr string, duration time.Duration,
) (r wrkReport, err error) {
	script := configure("wrk.lua", env.dir, w)
	ctx, cancel := context.WithTimeout(ctx, duration+time.Minute) // which only ends one that hangs
	defer cancel()
	// wrk knows whole seconds only. For less it is interrupted, on which it reports as at its end.
	interrupt := duration
	if duration%time.Second == 0 {
		interrupt = 0
	}
	out, used, err := run(ctx, env.clientFor(w), interrupt,
		env.programs["wrk"], "-t1", "-c"+strconv.Itoa(w.Conns),
		"-d"+strconv.Itoa(int((duration+time.Second-1)/time.Second))+"s", "--timeout", "10s",
		"-s", script, "http://"+addr+w.Path)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGINT &&
		ctx.Err() == nil {
		// It had not come far enough to catch the interrupt. A whole second needs none.
		return runWrk(ctx, env, w, addr, time.Second)
	}
	if err != nil {
		return r, fmt.Errorf("wrk: %w", err)
	}
	r, err = parseWrk(out)
	r.used = used
	return r, err
}

func parseWrk(out []byte) (r wrkReport, err error) {
	for line := range bytes.Lines(out) {
		if text, ok := bytes.CutPrefix(line, []byte("bench ")); ok {
			return r, json.Unmarshal(text, &r)
		}
	}
	return r, fmt.Errorf("wrk: no counters in %.300q", out)
}
