package main

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// warmConns are opened, used and closed before memory is read first, so that what a server
	// allocates once is there.
	warmConns = 256
	// aliveEvery is which of the idle connections must answer once more at the end: a server that
	// had closed them would look very frugal.
	aliveEvery = 50
)

// grow tells what the server's memory grows by while open makes it hold j.Conns of something.
func (j job) grow(warm, open func()) (figures, meter) {
	warm()
	before := j.settled()
	m := newMeter(j.Group)
	open()
	f := m.figures(float64(j.Conns))
	after := j.settled()
	f["bytesEach"], f["resident"] = float64(after-before)/float64(j.Conns), mebi(after)
	return f, m
}

// idle measures what connections take that open makes and use uses once each, and that stay.
func idle[C any](j job, open func() C, use func(C), leave func(C)) figures {
	var all []C
	connect := func(n int) {
		for range n {
			c := open()
			all = append(all, c)
			use(c)
		}
	}
	leaveAll := func() {
		for _, c := range all {
			leave(c)
		}
		all = nil
	}
	defer leaveAll()
	f, _ := j.grow(func() {
		connect(min(warmConns, j.Conns))
		leaveAll()
	}, func() { connect(j.Conns) })
	for i := 0; i < len(all); i += aliveEvery {
		use(all[i])
	}
	return f
}

// settled is the server's resident memory after a while; where it can be asked for that, it has
// given back its garbage.
func (j job) settled() int64 {
	time.Sleep(j.Settle)
	if j.Collect != "" && j.Streams > 0 {
		j.once2(j.Collect)
	} else if j.Collect != "" {
		j.once(j.Collect)
	}
	return must(residentMemory(must(family(j.Group))))
}

// loadIdle opens connections that are used once each and stay.
func loadIdle(j job) figures {
	c := newLoadClient(j)
	defer c.shut()
	f, _ := j.grow(func() {
		c.connect(min(warmConns, j.Conns))
		c.leave()
	}, func() { c.connect(j.Conns) })
	for i := 0; i < j.Conns; i += aliveEvery {
		c.use(i)
	}
	return f
}

// lead is when the first sleeper wakes, since the first request. Until then all requests are to be
// sent and memory read.
func (j job) lead() time.Duration {
	return j.Settle + 2*time.Second + time.Duration(j.Conns)*300*time.Microsecond
}

// due is when the i-th wakes.
func (j job) due(i int) time.Duration {
	return j.lead() + j.Spread*time.Duration(i)/time.Duration(j.Conns)
}

// sleepPath asks for a handler that sleeps for about d.
func (j job) sleepPath(d time.Duration) string {
	return j.Path + "?ms=" + strconv.FormatInt(max(d.Round(time.Millisecond).Milliseconds(), 0), 10)
}

// usualFields make the head of a sleeping request as long as a browser's least.
const usualFields = "User-Agent: one of the usual length\r\nAccept: */*\r\n"

// loadSleepers makes one request sleep on each connection, in a handler or in the application that
// it is passed on to: for so long that all sleep at one time, and wake one after the other.
func loadSleepers(j job) figures {
	conns := make([]net.Conn, j.Conns)
	var start time.Time
	f, m := j.grow(func() {
		for range min(warmConns, j.Conns) {
			parseSleep(j.once(j.sleepPath(time.Millisecond)))
		}
	}, func() {
		for i := range conns {
			conns[i] = j.dial()
		}
		start = time.Now()
		for i, conn := range conns {
			path := j.sleepPath(j.due(i) - time.Since(start))
			j.ask(conn, http.MethodGet, path, usualFields)
		}
		for { // one more handler says how many sleep
			_, asleep := parseSleep(j.once(j.sleepPath(0)))
			if asleep == j.Conns+1 {
				return
			}
			if time.Since(start) > j.lead() {
				failf("%d slept at the same time after %v, want %d", asleep-1, j.lead(), j.Conns)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	if took := time.Since(start); took > j.lead() {
		failf("measuring took %v, when the first had woken at %v", took, j.lead())
	}
	late := newHistogram()
	for _, conn := range conns { // in the order of their waking
		each, _ := parseSleep(text(conn))
		late.add(each.Abs(), 1) // early would be no better
		conn.Close()
	}
	f["cpu"] = m.figures(float64(j.Conns))["cpu"]
	f.quantiles("late", late)
	return f
}

// parseSleep reads a server's answer, "MICROSECONDS SLEEPERS": how late the handler woke, and how
// many slept just before, with itself.
func parseSleep(body string) (late time.Duration, asleep int) {
	var us int64
	if n, err := fmt.Sscanf(body+"\n", "%d %d\n", &us, &asleep); n != 2 || err != nil {
		failf("answer %.60q, want how late it is and how many slept", body)
	}
	return time.Duration(us) * time.Microsecond, asleep
}
