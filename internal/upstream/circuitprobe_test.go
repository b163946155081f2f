package upstream_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// holds has a request to the group end as it says, without giving its slot back until the function
// is called that it returns.
func (r *route) holds(t *testing.T, works bool, id uint64) (letGo func()) {
	t.Helper()
	taken, goOn, ended := make(chan error), make(chan bool), make(chan bool)
	r.loops.Go(0, func(th *loop.Thread) {
		defer close(ended)
		l := r.Lease()
		defer l.Release()
		l.StickyID = id
		s, _, err := l.Connect(th, upstream.Reused)
		if err == nil {
			if works {
				l.NoteSuccess()
			} else {
				l.NoteFailure()
			}
		}
		taken <- err
		if err == nil {
			_ = th.Await(-1, func(context.Context) error { <-goOn; return nil })
			_ = s.Close()
		}
	})
	must.Do(t, <-taken)
	letGo = sync.OnceFunc(func() { close(goOn); <-ended })
	t.Cleanup(letGo)
	return letGo
}

// TestCircuitOfTunnel: a request that tries an address says what it has found when the answer
// begins, and not when it ends: that may be a tunnel.
func TestCircuitOfTunnel(t *testing.T) {
	s := start(t, says("hello"))
	r := alone(t, []string{s.address}, func(set *upstream.Settings) {
		set.MaxFails = -1
		set.Circuit = &upstream.Circuit{Percent: 50, Least: 1, Window: time.Hour, Open: time.Hour,
			Changed: func(string, bool, int, int) {}}
	})
	opens := func() {
		t.Helper()
		must.Do(t, r.outcome(false))
		upstream.EndOpen(r.Group)
	}
	opens()
	letGo := r.holds(t, false, 0)
	upstream.EndOpen(r.Group)
	if err := r.outcome(true); err != nil { // another one tries it
		t.Error(err)
	}
	letGo() // it has said all
	if err := r.outcome(true); err != nil {
		t.Error(err)
	}
	opens()
	r.holds(t, true, 0)
	if err := r.outcome(true); err != nil {
		t.Error(err)
	}
}

// TestCircuitWakes: a request that waits goes to an address whose circuit was open when that is
// over.
func TestCircuitWakes(t *testing.T) {
	free := start(t, says("free"))
	busy := start(t, says("busy"))
	pool := new(upstream.Pool)
	limit := func(s *upstream.Settings) {
		s.MaxConns, s.MaxFails = 1, -1
		s.Circuit = &upstream.Circuit{Percent: 50, Least: 1, Window: time.Hour,
			Open:    200 * time.Millisecond,
			Changed: func(string, bool, int, int) {}}
	}
	r := newRoute(t, pool, []string{free.address, busy.address}, limit)
	must.Do(t, r.outcome(false)) // the first one's turn
	r.holds(t, true, 0)
	done := make(chan got, 1)
	r.ask("x", false, done)
	select {
	case g := <-done:
		if g.err != nil { // the other address, if Open was over before this test got that far
			t.Error(g)
		}
	case <-time.After(wait.Patience):
		t.Error("it waits on")
	}
}

// TestCircuitOfSticky: a drained address gets the requests of clients that come back to it, also
// while the circuit of the only other one is open.
func TestCircuitOfSticky(t *testing.T) {
	_, a := crowd(t, 2)
	r := alone(t, a, func(s *upstream.Settings) {
		s.Secret, s.MaxFails = []byte("secret"), -1
		s.Circuit = &upstream.Circuit{Percent: 50, Least: 1, Window: time.Hour, Open: time.Hour,
			Changed: func(string, bool, int, int) {}}
	})
	var id, at uint64
	r.prepare = func(l *upstream.Lease, _ string) { l.StickyID = id }
	r.after = func(l *upstream.Lease) { at = l.LastStickyID() }
	for r.get("x").text != "0" {
	}
	r.SetState(a[0], "drain")
	for range 2 {
		_ = r.outcome(false) // of the other one
	}
	if err := r.outcome(false); err == nil {
		t.Fatal("the circuit is closed")
	}
	id = at
	if g := r.get("x"); g.text != "0" {
		t.Error(g)
	}
}
