package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// chatOptions are what the chat's client is told.
type chatOptions struct {
	Addrs     []string // of servers that share the rooms; member i of a room is at the i-th of them, and so on in turn
	Path      string   // which takes ?room=N
	FirstRoom int      // N of the first
	Members   int
	Rooms     int
	Talkers   int           // members of each room who send, in turn; at least one at each server
	Rate      float64       // messages per second, into all rooms together
	Nap       time.Duration // after each look at what came; see chatPlan
	Watch     time.Duration // without any message, to count how often the server wakes up; 0 to leave it
	Warmup    time.Duration
	Duration  time.Duration
	Listen    time.Duration // at most so long for all members to hear each other at the beginning
	Settle    time.Duration // before watching and talking
	Patience  time.Duration // for messages that are still to come at the end
	Linger    time.Duration // after the last, for what comes a second time
	PIDs      []int         // the servers
}

// chatReport is what it found.
type chatReport struct {
	Messages  int64 // sent in Duration
	Delivered int64 // of those
	Took      time.Duration
	CPU       cpuUsage // of the servers
	Client    cpuUsage
	P50, P99  time.Duration // of a delivery, since the message was due
	Max       time.Duration

	Lost, Reordered, Doubled int64 // deliveries, warm-up included

	WakeUps int64 // context switches of the servers while nobody said anything
	Pings   int64 // that they sent meanwhile
}

// chatClient is all members of all rooms.
type chatClient struct {
	*wsClient
	options chatOptions
	tally   *tally
	latency histogram
	text    []byte // of the message being sent
	turn    int
}

// loadChat joins, watches, and talks at a fixed rate, whatever the server does: a message that leaves late counts from
// the moment it was due.
func loadChat(o chatOptions) (report chatReport, err error) {
	if o.Rooms < 1 || o.Talkers < 1 || o.Talkers < len(o.Addrs) || o.Rooms*o.Talkers > o.Members || o.Rate <= 0 || len(o.Addrs) == 0 {
		return report, fmt.Errorf("%d members in %d rooms with %d talkers each, %v messages/s, %d servers", o.Members, o.Rooms, o.Talkers, o.Rate, len(o.Addrs))
	}
	ws, err := newWSClient()
	if err != nil {
		return report, err
	}
	defer ws.close()
	c := &chatClient{wsClient: ws, options: o, tally: newTally(o.Members, o.Rooms, o.Talkers)}
	ws.message, ws.nap = c.take, o.Nap
	for i := range o.Members {
		if err := ws.join(c.server(i), o.Path+"?room="+strconv.Itoa(o.FirstRoom+i%o.Rooms)); err != nil {
			return report, err
		}
	}
	if err := c.settle(); err != nil {
		return report, err
	}
	if o.Watch > 0 {
		if err := c.watch(&report); err != nil {
			return report, err
		}
	}
	if err := c.talk(o.Warmup); err != nil {
		return report, err
	}

	own := []int{os.Getpid()}
	before, err1 := readCPU(o.PIDs)
	ownBefore, err2 := readCPU(own)
	c.latency = histogram{}
	came, sent, start := c.tally.came, c.sent(), c.now()
	err = c.talk(o.Duration)
	report.Took = c.now() - start
	ownAfter, err3 := readCPU(own)
	after, err4 := readCPU(o.PIDs)
	if err := errors.Join(err, err1, err2, err3, err4); err != nil {
		return report, err
	}
	report.Messages, report.Delivered = c.sent()-sent, c.tally.came-came
	report.CPU, report.Client = after.since(before), ownAfter.since(ownBefore)
	report.P50, report.P99, report.Max = c.latency.quantile(0.50), c.latency.quantile(0.99), c.latency.max
	if err := c.run(c.now() + o.Linger); err != nil {
		return report, err
	}
	report.Lost, report.Reordered, report.Doubled = c.tally.lost(), c.tally.reordered, c.tally.doubled
	return report, nil
}

// server is where a member is connected: the members of a room take turns, not those of the whole.
func (c *chatClient) server(member int) string {
	return c.options.Addrs[member/c.options.Rooms%len(c.options.Addrs)]
}

func (c *chatClient) sent() (sum int64) {
	for _, n := range c.tally.sent {
		sum += int64(n)
	}
	return sum
}

// settle returns when every member hears a member at each server: an upgrade may be answered a little before, and
// across servers it may take longer. Its messages have the number 0 and are no part of the tally.
func (c *chatClient) settle() error {
	o := c.options
	heard, missing := make([]uint64, o.Members), o.Members
	all := uint64(1)<<len(o.Addrs) - 1
	c.message = func(i int, p []byte, _ time.Duration) error {
		m, err := parseChatMessage(p)
		if err != nil {
			return err
		}
		if before := heard[i]; before != all {
			heard[i] |= 1 << (int(m.sender) / o.Rooms)
			if heard[i] == all {
				missing--
			}
		}
		return nil
	}
	defer func() { c.message = c.take }()
	for end := c.now() + o.Listen; missing > 0; {
		if c.now() > end {
			return fmt.Errorf("%d of %d members do not hear everybody in their room after %v", missing, o.Members, o.Listen)
		}
		for i := range o.Rooms * len(o.Addrs) {
			if err := c.say(chatMessage{sender: uint32(i)}); err != nil {
				return err
			}
		}
		for round := c.now() + 200*time.Millisecond; missing > 0 && c.now() < round; {
			if err := c.poll(round - c.now()); err != nil {
				return err
			}
		}
	}
	return c.run(c.now() + o.Settle)
}

// watch counts how often the servers are woken up while nobody says anything.
func (c *chatClient) watch(report *chatReport) error {
	before, err := readSwitches(c.options.PIDs)
	if err != nil {
		return err
	}
	pings := c.pings
	if err := c.run(c.now() + c.options.Watch); err != nil {
		return err
	}
	after, err := readSwitches(c.options.PIDs)
	if err != nil {
		return err
	}
	report.WakeUps, report.Pings = after-before, c.pings-pings
	return nil
}

// talk has messages sent for d, at least one, and returns when all have come everywhere or patience is at its end.
func (c *chatClient) talk(d time.Duration) error {
	interval := float64(time.Second) / c.options.Rate
	start := c.now()
	for i := range max(int(d.Seconds()*c.options.Rate), 1) {
		due := start + time.Duration(float64(i)*interval)
		if err := c.run(due); err != nil {
			return err
		}
		sender := c.turn % len(c.tally.sent)
		c.turn++
		if err := c.say(chatMessage{uint32(sender), c.tally.next(sender), due}); err != nil {
			return err
		}
	}
	if err := c.run(start + d); err != nil {
		return err
	}
	// What is lost is counted, and no error here.
	for end := c.now() + c.options.Patience; c.tally.lost() > 0 && c.now() < end; {
		if err := c.poll(end - c.now()); err != nil {
			return err
		}
	}
	return nil
}

func (c *chatClient) say(m chatMessage) error {
	c.text = m.appendTo(c.text[:0])
	return c.send(int(m.sender), c.text)
}

// take counts a message that came. A latency is that of a way between two servers, where there are two.
func (c *chatClient) take(i int, p []byte, now time.Duration) error {
	m, err := parseChatMessage(p)
	if err != nil || m.number == 0 {
		return err
	}
	if len(c.options.Addrs) == 1 || c.server(i) != c.server(int(m.sender)) {
		c.latency.add(now - m.due)
	}
	return c.tally.add(i, m)
}
