package main

import (
	"fmt"
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
	m := newMeter(j.PIDs)
	open()
	f := m.figures(float64(j.Conns))
	after := j.settled()
	f["bytesEach"], f["resident"] = float64(after-before)/float64(j.Conns), mebi(after)
	return f, m
}

// settled is the server's resident memory after a while; where it can be asked for that, it has
// given back its garbage.
func (j job) settled() int64 {
	time.Sleep(j.Settle)
	if j.Collect != "" {
		j.once(j.Collect)
	}
	return must(residentMemory(j.PIDs))
}

// stay opens connections that are used once each and stay. turn uses the i-th once.
func (j job) stay(join, turn func(i int), leave func()) figures {
	open := func(n int) {
		for i := range n {
			join(i)
			turn(i)
		}
	}
	f, _ := j.grow(func() { open(min(warmConns, j.Conns)); leave() }, func() { open(j.Conns) })
	for i := 0; i < j.Conns; i += aliveEvery {
		turn(i)
	}
	return f
}

// loadIdle has one HTTP request on each connection.
func loadIdle(j job) figures {
	c := crowd{job: j}
	defer c.leave()
	return j.stay(func(int) { c.join(1) }, func(i int) {
		c.ask(c.conns[i], http.MethodGet, j.Path, "")
		if got := text(c.conns[i]); int64(len(got)) != j.Size {
			failf("connection %d: %.60q", i+1, got)
		}
	}, c.leave)
}

// loadIdleWS has WebSockets: each member of a room says one thing and hears it.
func loadIdleWS(j job) figures {
	const roommates = 10 // so that an idle member is one that may hear something at any time
	j.Rooms = max(j.Conns/roommates, 1)
	c := newChatClient(j)
	defer c.shut()
	heard := make([]uint32, j.Conns)
	c.message = func(i int, p []byte, _ time.Duration) error {
		m, err := parseChatMessage(p)
		if err == nil && int(m.sender) == i {
			heard[i]++
		}
		return err
	}
	return j.stay(c.joinRoom, func(i int) {
		before := heard[i]
		check(c.say(chatMessage{sender: uint32(i), number: before + 1}))
		if !c.until(verifyLimit, func() bool { return heard[i] > before }) {
			failf("member %d did not hear its own message in %v", i+1, verifyLimit)
		}
	}, c.leave)
}

// lead is when the first sleeper wakes, since the first request. Until then all requests are to be
// sent, memory read and the other route asked.
func (j job) lead() time.Duration {
	lead := j.Settle + 500*time.Millisecond + time.Duration(j.Conns)*300*time.Microsecond
	if j.Beside != "" {
		lead += 2*j.Duration + time.Second
	}
	return lead
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
// it is passed on to: for so long that all sleep at one time, and wake one after the other. Another
// route may be asked for before, and while all sleep.
func loadSleepers(j job) figures {
	c := crowd{job: j}
	defer c.leave()
	other := j // far below what any server can do: what is seen is how long one is kept from it
	other.Path, other.Rate, other.Conns = j.Beside, 2000, min(16, j.Conns)
	var alone, beside figures
	var start time.Time
	f, m := j.grow(func() {
		for range min(warmConns, j.Conns) {
			parseSleep(c.once(j.sleepPath(time.Millisecond)))
		}
		if j.Beside != "" {
			alone = loadLoop(other)
		}
	}, func() {
		c.join(j.Conns)
		start = time.Now()
		for i, conn := range c.conns {
			path := j.sleepPath(j.due(i) - time.Since(start))
			c.ask(conn, http.MethodGet, path, usualFields)
		}
		for { // one more handler says how many sleep
			_, asleep := parseSleep(c.once(j.sleepPath(0)))
			if asleep == j.Conns+1 {
				return
			}
			if time.Since(start) > j.lead() {
				failf("%d slept at the same time after %v, want %d", asleep-1, j.lead(), j.Conns)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	if j.Beside != "" {
		beside = loadLoop(other)
	}
	if took := time.Since(start); took > j.lead() {
		failf("measuring took %v, when the first had woken at %v", took, j.lead())
	}
	late := newHistogram()
	for _, conn := range c.conns { // in the order of their waking
		each, _ := parseSleep(text(conn))
		late.add(each.Abs(), 1) // early would be no better
	}
	f["cpu"] = m.figures(float64(j.Conns))["cpu"]
	f.quantiles("late", late)
	f["alone50"], f["alone99"] = alone["latency50"], alone["latency99"]
	f["beside50"], f["beside99"] = beside["latency50"], beside["latency99"]
	return f
}

func verifySleep(j job) {
	parseSleep(j.once(j.sleepPath(time.Millisecond)))
	if j.Path = j.Beside; j.Path != "" {
		verifyHTTP(j)
	}
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
