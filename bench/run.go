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
	"strconv"
	"time"

	"github.com/lwango/lwango/bench/tasks"
)

// A cell is one server at one work.
type cell struct {
	Rounds []figures // nil where a round failed
	Errs   []string
}

// values are a figure's, by round: NaN where there is none. A nil cell has none at all.
func (c *cell) values(name string) (values []float64) {
	if c == nil {
		return nil
	}
	for _, f := range c.Rounds {
		v, ok := f[name]
		if !ok {
			v = math.NaN()
		}
		values = append(values, v)
	}
	return values
}

func (c *cell) value(name string) float64 { return median(c.values(name)) }

// results has a cell for each work and peer of the run.
type results map[string]map[string]*cell

// runWork interleaves the rounds, all servers once per round, and each round begins with another
// server: what changes slowly on the machine, and what one server leaves behind for the next, meets
// all of them. A server that fails keeps its other rounds.
func (env *environment) runWork(w work) map[string]*cell {
	cells, n := map[string]*cell{}, len(w.peers)
	for _, p := range w.peers {
		cells[p.Name] = &cell{Rounds: make([]figures, env.rounds)}
	}
	for i := 0; i < env.rounds*n && env.ctx.Err() == nil; i++ {
		p, round := w.peers[(i/n+i)%n], i/n
		fmt.Fprintf(os.Stderr, "%s, round %d of %d: %s\n", w.Name, round+1, env.rounds, p.Name)
		f, err := env.measure(w, p)
		c := cells[p.Name]
		c.Rounds[round] = f
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s, %s: %v\n", w.Name, p.Name, err)
			c.Errs = append(c.Errs, err.Error())
			env.failed++
		}
	}
	return cells
}

// measure starts fresh servers, so that memory is that of this work alone, and what they pass
// requests on to.
func (env *environment) measure(w work, p peer) (f figures, err error) {
	var started []*server
	start := func(p peer, backend string) *server {
		s := env.newServer(w, p, backend)
		check(s.start())
		started = append(started, s)
		return s
	}
	f, err = attempt(func(w work) figures {
		backend := ""
		if kind := w.Upstream.Kind; kind != "" {
			backend = start(application(kind), "").Addr
		}
		s := start(p, backend)
		j := job{
			load: s.loadOf(w), timing: env.timing, Addr: s.Addr, Group: s.cmd.Process.Pid,
			Patience: verifyLimit, Root: env.dir,
			Tool: env.files[h2load],
		}
		if p.HTTP1 {
			j.Conns, j.Streams = j.Conns*j.Streams, 0
		}
		defer s.profileFor(j.Warmup + j.Duration)()
		var f figures
		if w.Probe.Path != "" {
			f = s.measureBeside(j)
		} else {
			f = s.measure(j)
		}
		f["peak"] = mebi(must(peakMemory(must(family(j.Group)))))
		return f
	}, w)
	for _, s := range slices.Backward(started) {
		err = errors.Join(err, s.stop())
	}
	return f, err
}

// loadOf returns the work's load for the server.
func (s *server) loadOf(w work) load {
	l := w.load
	if s.Peer.Unfilled {
		l.Filled = 0
	}
	return l
}

// measure runs a client in a process of its own. Its time limit only ends one that hangs.
func (s *server) measure(j job) (f figures) {
	limit := 3*time.Minute + 16*(j.Warmup+j.Duration+j.Settle) + j.Spread + j.Patience
	ctx, cancel := context.WithTimeout(s.env.ctx, limit)
	defer cancel()
	told := string(must(json.Marshal(j)))
	argv := []string{must(os.Executable()), "client", told}
	// Its cryptography must not hold up the probe's client; but where others use all of the CPU, it
	// would never get on.
	if j.Kind == "connections" && !s.env.smoke {
		argv = append([]string{"chrt", "--idle", "0"}, argv...)
	}
	out, err := pinned(ctx, s.clientCPU, argv...).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("%s client: %w: %s", j.Kind, err, bytes.TrimSpace(failed.Stderr))
	}
	if err != nil {
		check(s.explain(err))
	}
	check(json.Unmarshal(out, &f))
	return f
}

// measureBeside measures a probe. What goes on meanwhile is under way before it and outlasts it.
func (s *server) measureBeside(j job) figures {
	loaded, ended := j, make(chan error, 1)
	loaded.Duration += j.Duration / 2
	lead := j.Duration / 4
	if s.Rooms > 0 { // to join takes its time, and both clients let a server settle
		joining := time.Duration(j.Conns) * 2 * time.Millisecond
		lead, loaded.Duration = lead+joining, loaded.Duration+joining
	}
	if s.Cold {
		loaded.Kind = "files"
	} else if s.Upload {
		loaded.Kind = "forms"
	} else if s.Secure {
		loaded.Kind = "connections"
	}
	var alone figures
	if s.Secure {
		alone = s.measure(s.probe(j))
	}
	var meanwhile figures
	go func() {
		var err error
		meanwhile, err = attempt(func(j job) figures {
			if j.Rate > 0 {
				return s.measure(j)
			}
			j.once(fmt.Sprint(tasks.BurnPath, "?ms=", j.Duration.Milliseconds()))
			return nil
		}, loaded)
		ended <- err
	}()
	time.Sleep(lead)
	f, err := attempt(s.measure, s.probe(j))
	check(errors.Join(err, <-ended))
	if s.Cold {
		f["disk"] = meanwhile["disk"]
		return f
	}
	if s.Secure {
		f["handshakes"] = meanwhile["handshakes"]
		f["alone99"], f["times99"] = alone["latency99"], f["latency99"]/alone["latency99"]
		return f
	}
	f["pause99"] = must(strconv.ParseFloat(j.once(tasks.PausesPath), 64))
	return f
}
