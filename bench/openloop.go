package main

import (
	"context"
	"fmt"
	"time"
)

type openLoopOptions struct {
	Addr     string
	Request  []byte // one arrival: Depth requests
	Depth    int
	Conns    int
	Rate     float64 // arrivals per second
	Duration time.Duration
	Body     int64 // length of every answer's body
	PIDs     []int // the server, whose CPU time is read around the load
}

type openLoopReport struct {
	Answers int64
	P50     time.Duration
	P90     time.Duration
	P99     time.Duration
	Max     time.Duration
	CPU     cpuUsage
}

// runOpenLoop loads the server with requests at a fixed rate, whatever it does.
func runOpenLoop(ctx context.Context, env *environment, w work, s *server, perSecond float64, duration time.Duration) (openLoopReport, error) {
	options := openLoopOptions{
		Addr: s.addr, Request: w.request(s.addr), Depth: w.depth, Conns: w.conns,
		Rate: perSecond / float64(w.depth), Duration: duration, Body: int64(len(w.body)), PIDs: s.pids,
	}
	var report openLoopReport
	err := runClient(ctx, env, w, "openloop", options, &report, 2*duration)
	return report, err
}

// drainFactor bounds the wait for answers after the last arrival, in lengths of the run.
const drainFactor = 1

// openLoop sends arrival i at start + i/rate on whichever connection is free, and counts each latency from that
// moment even if the request left later because all were taken or the client was late: a server that stalls is
// charged for every request that should have been sent meanwhile (no coordinated omission).
func openLoop(o openLoopOptions) (openLoopReport, error) {
	if o.Rate <= 0 || o.Conns < 1 || o.Depth < 1 {
		return openLoopReport{}, fmt.Errorf("rate %v, %d connections, depth %d", o.Rate, o.Conns, o.Depth)
	}
	c, err := newClient(o)
	if err != nil {
		return openLoopReport{}, err
	}
	defer c.close()
	before, err := readCPU(o.PIDs)
	if err != nil {
		return openLoopReport{}, err
	}

	interval := float64(time.Second) / o.Rate
	arrivals := max(int64(o.Duration.Seconds()*o.Rate), 1)
	due := func(i int64) time.Duration { return time.Duration(float64(i) * interval) }
	limit := o.Duration + drainFactor*o.Duration + time.Second
	c.start = time.Now()
	for next := int64(0); next < arrivals || c.busy > 0; {
		now := time.Since(c.start)
		for next < arrivals && due(next) <= now && c.hasFree() {
			if err := c.send(due(next)); err != nil {
				return openLoopReport{}, err
			}
			next++
		}
		if now > limit {
			c.giveUp(now)
			for ; next < arrivals; next++ {
				for range o.Depth {
					c.latency.add(now - due(next))
				}
			}
			break
		}
		wait := limit - now
		if next < arrivals && c.hasFree() {
			wait = due(next) - time.Since(c.start)
		}
		if err := c.poll(wait); err != nil {
			return openLoopReport{}, err
		}
	}

	after, err := readCPU(o.PIDs)
	if err != nil {
		return openLoopReport{}, err
	}
	return openLoopReport{
		Answers: c.answers, P50: c.latency.quantile(0.50), P90: c.latency.quantile(0.90), P99: c.latency.quantile(0.99), Max: c.latency.max,
		CPU: after.since(before),
	}, nil
}
