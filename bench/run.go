package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// metric is one figure of a cell, one value per round.
type metric uint8

const (
	perSecond metric = iota // requests or messages/s, closed loop
	cpuTotal                // server CPU for each of them, µs
	cpuUser                 // the part of it in the server's own code
	cpuSystem               // the part in the kernel
	cpuBoth                 // server's and client's, closed loop, µs
	cpuClient               // the client's CPU, closed loop, µs
	busyPart                // server CPU time per time: 1 is one CPU
	halfRate                // answers/s sent for in the open loop
	halfCPU                 // server CPU per request at that rate, µs
	latency50               // µs, at that rate
	latency90               // µs, at that rate
	latency99               // µs, at that rate
	peak                    // most resident memory, MiB
	bytesEach               // growth of resident memory per connection, bytes
	resident                // resident memory with them, MiB
	cpuEach                 // server CPU per connection: accept, one request, answer; µs
	late50                  // how late sleepers woke, µs
	late99
	lateMost
	mebiPerSecond // of a transfer
	growth        // of the server's anonymous memory during it, MiB
	alone50       // latency of another route with nobody waiting, µs
	alone99
	beside50 // and with those who wait
	beside99
	failedEach     // requests of a burst that got no answer
	burstMilli     // from its begin to its last answer
	lostCount      // deliveries that did not come
	reorderedCount // that came after a later one of the same sender
	doubledCount   // that came again
	wakeUps        // context switches of the server while nobody spoke
	pingCount      // that it sent meanwhile
	metrics
)

// cell is one server at one work.
type cell struct {
	values [metrics][]float64 // by round; NaN where a round failed or the work has no such figure
	errs   []error
}

func newCell(rounds int) *cell {
	c := &cell{}
	for m := range c.values {
		c.values[m] = slices.Repeat([]float64{math.NaN()}, rounds)
	}
	return c
}

// round is one row of a cell's values.
type round struct {
	*cell
	index int
}

func (r round) set(m metric, v float64) { r.values[m][r.index] = v }

type cellKey struct{ work, peer string }

// results has a cell for each work and peer of the settings.
type results map[cellKey]*cell

// failures joins all errors; nil when everything was measured.
func (r results) failures() error {
	var errs []error
	for key, c := range r {
		for _, err := range c.errs {
			errs = append(errs, fmt.Errorf("%s, %s: %w", key.work, key.peer, err))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// runAll measures work after work.
func runAll(ctx context.Context, env *environment, s settings) results {
	all := results{}
	for _, w := range s.works {
		for _, p := range s.peersOf(w) {
			all[cellKey{w.name, p.name}] = newCell(s.rounds)
		}
		if err := runWork(ctx, env, s, w, all); err != nil { // of what they all share
			fmt.Fprintf(os.Stderr, "%s: %v\n", w.name, err)
			for _, p := range s.peersOf(w) {
				c := all[cellKey{w.name, p.name}]
				c.errs = append(c.errs, err)
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return all
}

// runWork interleaves the rounds, all servers once per round, and each round begins with another server: what changes
// slowly on the machine, and what one server leaves behind for the next, meets all of them. A server that fails keeps
// its other cells.
func runWork(ctx context.Context, env *environment, s settings, w work, all results) (err error) {
	up, err := startUpstream(ctx, env, w)
	if err != nil {
		return err
	}
	if up != nil {
		defer func() { err = up.stop() }()
	}
	peers := s.peersOf(w)
	for index := range s.rounds {
		for i := range peers {
			p := peers[(index+i)%len(peers)]
			if ctx.Err() != nil {
				return nil
			}
			fmt.Fprintf(os.Stderr, "%s, round %d of %d: %s\n", w.name, index+1, s.rounds, p.name)
			c := all[cellKey{w.name, p.name}]
			if err := measure(ctx, env, s, w, p, up, round{c, index}); err != nil {
				fmt.Fprintf(os.Stderr, "%s, %s: %v\n", w.name, p.name, err)
				c.errs = append(c.errs, err)
			}
		}
	}
	return nil
}

// measure starts a fresh server, so that memory is that of this work alone.
func measure(ctx context.Context, env *environment, s settings, w work, p peer, up *server, r round) (err error) {
	if w.kind == brokered {
		return measureBrokered(ctx, env, s, w, p, r)
	}
	srv, err := startServer(ctx, env, p, w, up)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	switch w.kind {
	case idle:
		return measureIdleCell(ctx, w, srv, s.settle, r)
	case echo:
		return measureEcho(ctx, env, s, w, srv, r)
	case sleepers:
		return measureSleepers(ctx, env, s, w, srv, r)
	case bulk:
		return measureTransfer(ctx, env, w, srv, r)
	case waiting:
		return measureWaiting(ctx, env, s, w, srv, r)
	case burst:
		return measureBurstCell(ctx, s, w, srv, r)
	case wsIdle:
		return measureWSIdle(ctx, env, s, w, srv, r)
	case wsEcho:
		return measureEcho(ctx, env, s, w, srv, r)
	case beside:
		return measureBeside(ctx, env, s, w, srv, r)
	case chat:
		return measureChat(ctx, env, s, w, srv, r)
	}
	return measureLoad(ctx, env, s, w, srv, r)
}

func measureLoad(ctx context.Context, env *environment, s settings, w work, srv *server, r round) error {
	if s.warmup > 0 {
		// Not checked: on a slow machine it may take thousands of connections that long to come about.
		if _, err := runWrk(ctx, env, w, srv.addr, s.warmup); err != nil {
			return err
		}
	}
	if err := srv.findProcesses(); err != nil {
		return err
	}
	before, err := readCPU(srv.pids)
	if err != nil {
		return err
	}
	closed, err := runWrk(ctx, env, w, srv.addr, s.duration)
	if err != nil {
		return err
	}
	after, err := readCPU(srv.pids)
	if err != nil {
		return err
	}
	if err := closed.check(); err != nil {
		return err
	}
	usage := after.since(before)
	requests := float64(closed.Requests)

	half := closed.perSecond() / 2
	open, err := runOpenLoop(ctx, env, w, srv, half, s.duration)
	if err != nil {
		return err
	}
	if open.Answers == 0 {
		return errors.New("open loop: no request was answered")
	}
	highest, err := peakMemory(srv.pids)
	if err != nil {
		return err
	}

	r.set(perSecond, closed.perSecond())
	r.set(cpuTotal, micro(usage.total())/requests)
	r.set(cpuUser, micro(usage.User)/requests)
	r.set(cpuSystem, micro(usage.System)/requests)
	r.set(cpuClient, micro(closed.client)/requests)
	r.set(cpuBoth, micro(closed.client+usage.total())/requests)
	r.set(busyPart, micro(usage.total())/float64(closed.Microseconds))
	r.set(halfRate, half)
	r.set(halfCPU, micro(open.CPU.total())/float64(open.Answers))
	r.set(latency50, micro(open.P50))
	r.set(latency99, micro(open.P99))
	r.set(peak, mebi(highest))
	return nil
}

func measureEcho(ctx context.Context, env *environment, s settings, w work, srv *server, r round) error {
	report, err := runEcho(ctx, env, s, w, srv)
	if err != nil {
		return err
	}
	highest, err := peakMemory(srv.pids)
	if err != nil {
		return err
	}
	messages := float64(report.Messages)
	r.set(perSecond, messages/report.Took.Seconds())
	r.set(cpuTotal, micro(report.CPU.total())/messages)
	r.set(cpuUser, micro(report.CPU.User)/messages)
	r.set(cpuSystem, micro(report.CPU.System)/messages)
	r.set(cpuClient, micro(report.Client.total())/messages)
	r.set(cpuBoth, micro(report.Client.total()+report.CPU.total())/messages)
	r.set(busyPart, report.CPU.total().Seconds()/report.Took.Seconds())
	r.set(peak, mebi(highest))
	return nil
}

func measureIdleCell(ctx context.Context, w work, srv *server, settle time.Duration, r round) error {
	figures, err := measureIdle(ctx, w, srv, settle)
	if err != nil {
		return err
	}
	r.set(bytesEach, float64(figures.after-figures.before)/float64(w.conns))
	r.set(resident, mebi(figures.after))
	r.set(cpuEach, micro(figures.cpu.total())/float64(w.conns))
	return nil
}

func measureSleepers(ctx context.Context, env *environment, s settings, w work, srv *server, r round) error {
	report, err := runSleepers(ctx, env, s, w, srv)
	if err != nil {
		return err
	}
	r.set(bytesEach, float64(report.Asleep-report.Before)/float64(w.conns))
	r.set(resident, mebi(report.Asleep))
	r.set(cpuEach, micro(report.CPU.total())/float64(w.conns))
	r.set(late50, micro(report.P50))
	r.set(late99, micro(report.P99))
	r.set(lateMost, micro(report.Max))
	return nil
}

func measureTransfer(ctx context.Context, env *environment, w work, srv *server, r round) error {
	report, err := runTransfer(ctx, env, w, srv)
	if err != nil {
		return err
	}
	r.set(mebiPerSecond, mebi(w.size)/report.Took.Seconds())
	r.set(growth, mebi(report.Most-report.Before))
	r.set(cpuTotal, micro(report.CPU.total())/mebi(w.size))
	return nil
}

func measureWaiting(ctx context.Context, env *environment, s settings, w work, srv *server, r round) error {
	report, err := runWaiting(ctx, env, s, w, srv)
	if err != nil {
		return err
	}
	r.set(bytesEach, float64(report.Waiting-report.Before)/float64(w.conns))
	r.set(resident, mebi(report.Waiting))
	r.set(alone50, micro(report.Alone.P50))
	r.set(alone99, micro(report.Alone.P99))
	r.set(beside50, micro(report.Beside.P50))
	r.set(beside99, micro(report.Beside.P99))
	return nil
}

func measureBurstCell(ctx context.Context, s settings, w work, srv *server, r round) error {
	report, err := measureBurst(ctx, w, srv, s.duration)
	if err != nil {
		return err
	}
	r.set(failedEach, float64(report.failed)/float64(report.bursts))
	r.set(burstMilli, micro(report.last)/1000)
	return nil
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func mebi(bytes int64) float64 { return float64(bytes) / (1 << 20) }
