package upstream_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// outcome has a request to the group end as it says, and returns the error of Connect.
func (r *route) outcome(works bool) error {
	done := make(chan error, 1)
	r.loops.Go(0, func(th *loop.Thread) {
		l := r.Lease()
		s, _, err := l.Connect(th, upstream.Reused)
		if err == nil {
			if works {
				l.NoteSuccess()
			} else {
				l.NoteFailure()
			}
			_ = s.Close()
		}
		l.Release() // and with that the circuit has opened, if it does
		done <- err
	})
	return <-done
}

// TestCircuit: the circuit of the only address opens when half of the requests fail, but not of a
// few. While it is open, requests are refused at once. Then one at a time tries whether it works.
func TestCircuit(t *testing.T) {
	s := start(t, says("hello"))
	var mu sync.Mutex
	var log []string
	r := alone(t, []string{s.address}, func(set *upstream.Settings) {
		set.Circuit = &upstream.Circuit{Percent: 50, Least: 8, Window: time.Hour, Open: time.Hour,
			Changed: func(_ string, open bool, failed, requests int) {
				mu.Lock()
				log = append(log, fmt.Sprint(open, failed, requests))
				mu.Unlock()
			}}
	})
	try := func(works bool, want string) {
		t.Helper()
		if err := r.outcome(works); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	const ok, refused = "<nil>", "too many requests have failed there"
	for i := range 16 {
		try(i%8 < 5, ok) // 6 of 16 fail
	}
	for range 4 {
		try(false, ok) // 10 of 20
	}
	if err := r.outcome(true); err == nil || !upstream.Busy(err) {
		t.Error(err)
	}
	upstream.EndOpen(r.Group)
	try(false, ok)
	try(true, refused)
	upstream.EndOpen(r.Group)
	try(true, ok)
	for range 7 {
		try(false, ok) // too few for a share
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(log, ", "); got != "true 10 20, false 0 0" {
		t.Error(got)
	}
}

// TestCircuitBeside: where one address fails, requests go to the others and wait for nothing, and
// those that wait for the last one are refused when its circuit opens.
func TestCircuitBeside(t *testing.T) {
	bad := nobody(t, "unix")
	_, a := crowd(t, 1)
	r := alone(t, []string{bad, a[0]}, func(s *upstream.Settings) {
		s.MaxFails = -1
		s.Circuit = &upstream.Circuit{Percent: 10, Least: 2, Window: time.Hour, Open: time.Hour,
			Changed: func(string, bool, int, int) {}}
	})
	if got := r.texts(8); got != "00000000" {
		t.Error(got)
	}
	if n := len(r.missed()); n != 2 {
		t.Errorf("it was tried %d times", n)
	}

	s := start(t, says("x"))
	pool := new(upstream.Pool)
	one := newRoute(t, pool, []string{s.address}, func(s *upstream.Settings) {
		s.MaxConns = 1
		s.Circuit = &upstream.Circuit{Percent: 10, Least: 1, Window: time.Hour, Open: time.Hour,
			Changed: func(string, bool, int, int) {}}
	})
	taken, goOn := make(chan error), make(chan bool)
	one.loops.Go(0, func(th *loop.Thread) {
		l := one.Lease()
		defer l.Release()
		s, _, err := l.Connect(th, upstream.Reused)
		taken <- err
		_ = th.Await(-1, func(context.Context) error { <-goOn; return nil })
		l.NoteFailure()
		_ = s.Close()
	})
	must.Do(t, <-taken)
	done := make(chan got, 1)
	one.ask("x", false, done)
	wait.Until(t, "a request waits", func() bool { return pool.Waiting() == 1 })
	close(goOn)
	if g := <-done; g.err == nil || !upstream.Busy(g.err) {
		t.Error(g)
	}
}
