package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/lwango/lwango/bench/tasks"
)

// A cell is one server at one work.
type cell struct {
	rounds []figures // nil where a round failed
	errs   []error
}

// values are a figure's, by round: NaN where there is none. A nil cell has none at all.
func (c *cell) values(name string) (values []float64) {
	if c == nil {
		return nil
	}
	for _, f := range c.rounds {
		v, ok := f[name]
		if !ok {
			v = math.NaN()
		}
		values = append(values, v)
	}
	return values
}

func (c *cell) value(name string) float64 {
	if figureTable[name].Worst {
		return most(c.values(name))
	}
	return median(c.values(name))
}

type cellKey struct{ work, peer string }

// results has a cell for each work and peer of the settings.
type results map[cellKey]*cell

// failures joins all errors; nil when everything was measured.
func (r results) failures() error {
	var lines []string
	for key, c := range r {
		for _, err := range c.errs {
			lines = append(lines, fmt.Sprintf("%s, %s: %v", key.work, key.peer, err))
		}
		if len(c.errs) == 0 && slices.ContainsFunc(c.rounds, func(f figures) bool { return f == nil }) {
			lines = append(lines, fmt.Sprintf("%s, %s: was not measured", key.work, key.peer))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	slices.Sort(lines)
	return errors.New(strings.Join(lines, "\n"))
}

// runWork interleaves the rounds, all servers once per round, and each round begins with another
// server: what changes slowly on the machine, and what one server leaves behind for the next, meets
// all of them. A server that fails keeps its other rounds.
func (env *environment) runWork(ctx context.Context, w work, all results) {
	peers := env.peersOf(w)
	if len(peers) == 0 {
		return
	}
	for _, p := range peers {
		all[cellKey{w.Name, p.Name}] = &cell{rounds: make([]figures, env.rounds)}
	}
	up, err := attempt(func(w work) *server { return startUpstream(ctx, env, w) }, w)
	for i := range env.rounds * len(peers) {
		p := peers[(i/len(peers)+i)%len(peers)]
		if ctx.Err() != nil {
			break
		}
		c := all[cellKey{w.Name, p.Name}]
		fmt.Fprintf(os.Stderr, "%s, round %d of %d: %s\n", w.Name, i/len(peers)+1, env.rounds, p.Name)
		t := trial{ctx: ctx, env: env, work: w, peer: p, up: up}
		failed := err
		if failed == nil {
			f, err := attempt(trial.measure, t)
			c.rounds[i/len(peers)], failed = f, err
			if err == nil {
				failed = checkChat(f)
			}
		}
		if failed != nil {
			fmt.Fprintf(os.Stderr, "%s, %s: %v\n", w.Name, p.Name, failed)
			c.errs = append(c.errs, failed)
		}
	}
	if up != nil {
		if err := up.stop(); err != nil {
			c := all[cellKey{w.Name, peers[0].Name}]
			c.errs = append(c.errs, err)
		}
	}
}

// A trial is one server at one work in one round. Like a client it ends with its first error.
type trial struct {
	ctx context.Context
	env *environment
	work
	peer peer
	up   *server
}

func (env *environment) job(w work, servers ...*server) job {
	j := job{load: w.load, Warmup: env.warmup, Duration: env.duration, Settle: env.settle, Spread: env.spread,
		Listen: verifyLimit, Patience: 3 * time.Second}
	for _, s := range servers {
		j.Addrs, j.PIDs = append(j.Addrs, s.Addr), append(j.PIDs, s.pids...)
	}
	return j
}

// client runs a client on the client's CPU. Its time limit only ends one that hangs.
func (t trial) client(name string, j job) (f figures) {
	limit := 3*time.Minute + 16*(j.Warmup+j.Duration+j.Settle) + j.Spread + j.Patience + j.Linger
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	out, err := pinned(ctx, t.env.clientFor(t.work), t.env.self, "client", name, string(must(json.Marshal(j)))).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		failf("%s client: %w: %s", name, err, bytes.TrimSpace(failed.Stderr))
	}
	check(err)
	check(json.Unmarshal(out, &f))
	return f
}

// meanwhile begins something that goes on beside the caller, and returns what waits for its result.
func meanwhile(do func() figures) (result func() (figures, error)) {
	var f figures
	var err error
	done := make(chan struct{})
	go func() {
		f, err = attempt(func(struct{}) figures { return do() }, struct{}{})
		close(done)
	}()
	return func() (figures, error) {
		<-done
		return f, err
	}
}

// measure starts a fresh server, so that memory is that of this work alone.
func (t trial) measure() figures {
	if t.Kind == "brokered" {
		return t.measureBrokered()
	}
	s := startServer(t.ctx, t.env, t.peer, t.work, t.up, "")
	f, err := attempt(func(j job) (f figures) {
		if t.Kind == "beside" {
			f = t.measureBeside(s, j)
		} else {
			f = t.client(t.Kind, j)
		}
		f["peak"] = mebi(must(peakMemory(s.pids)))
		return f
	}, t.env.job(t.work, s))
	check(errors.Join(err, s.stop()))
	return f
}

// measureBeside measures a probe. What goes on meanwhile is under way before it and outlasts it.
func (t trial) measureBeside(s *server, j job) figures {
	loaded := j
	loaded.Duration += j.Duration / 2
	load := meanwhile(func() figures {
		if j.Rate > 0 {
			return t.client("openloop", loaded)
		}
		j.once(fmt.Sprint(tasks.BurnPath, "?ms=", loaded.Duration.Milliseconds()))
		return nil
	})
	time.Sleep(j.Duration / 4)
	j.load, j.Addrs = t.probed(s)
	f, err := meanwhile(func() figures { return t.client("openloop", j) })()
	_, failed := load()
	check(errors.Join(err, failed))
	return f
}

// probed is the probe as a load of its own, and where it goes. Its connections are enough for it
// never to wait for one unless the server is late.
func (t work) probed(s *server) (load, []string) {
	l, addr := t.load, s.Addr
	l.Path, l.Rate, l.Conns = t.Probe.Path, t.Probe.Rate, 8
	if t.Probe.Plain {
		addr = s.Beside
	}
	return l, []string{addr}
}

// The broker is away from downAt to upAt of a run of disturbedFor: messages are published before,
// meanwhile and after.
const (
	downAt         = 1500 * time.Millisecond
	upAt           = 3 * time.Second
	disturbedFor   = 6 * time.Second
	brokerPatience = 20 * time.Second // for reconnecting, and for everything that waited
	brokerLinger   = time.Second      // for what a reconnected peer brings once more
)

// measureBrokered runs two servers of one kind with a broker between them. Twice: undisturbed, for
// the latency, and with the broker killed and started again while the members go on talking.
func (t trial) measureBrokered() figures {
	broker := t.env.newServer(t.work, freeAddress())
	check(broker.startBroker(t.ctx))
	defer broker.kill()
	var servers []*server
	for range 2 {
		s := startServer(t.ctx, t.env, t.peer, t.work, nil, broker.Addr)
		defer func() { check(s.stop()) }()
		servers = append(servers, s)
	}
	j := t.env.job(t.work, servers...)
	j.Linger = brokerLinger
	f := t.client("chat", j)

	j.Warmup, j.Duration, j.Patience = 0, disturbedFor, brokerPatience
	talk := meanwhile(func() figures { return t.client("chat", j) })
	time.Sleep(j.Settle + downAt)
	broker.kill()
	time.Sleep(upAt - downAt)
	err := broker.startBroker(t.ctx)
	disturbed, failed := talk()
	check(errors.Join(err, failed))
	for _, name := range []string{"lost", "reordered", "doubled"} {
		f[name] += disturbed[name]
	}
	return f
}
