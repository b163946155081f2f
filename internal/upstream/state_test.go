package upstream_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

// TestDrain: a drained address gets the requests of clients that come back to it and no others, a
// disabled one gets none; both are back when they are enabled. Another group of the pool, as after
// a reload, knows that.
func TestDrain(t *testing.T) {
	services, a := crowd(t, 2)
	pool := new(upstream.Pool)
	secret := func(s *upstream.Settings) { s.Secret, s.MaxIdle = []byte("secret"), 4 }
	r := newRoute(t, pool, a, secret)
	var id, at uint64
	r.prepare = func(l *upstream.Lease, _ string) { l.StickyID = id }
	r.after = func(l *upstream.Lease) { at = l.LastStickyID() }
	for r.get("x").text != "0" {
	}
	id = at
	set := func(name, state string) {
		t.Helper()
		if !r.SetState(name, state) {
			t.Fatal(name)
		}
	}
	set(a[0], "drain")
	if got := r.texts(2); got != "00" {
		t.Error("drained, sticky: ", got)
	}
	id = 0
	if got := r.texts(4); got != "1111" {
		t.Error("drained: ", got)
	}
	set(a[0], "down")
	services[0].closed(t)
	if got := newRoute(t, pool, a, secret).texts(4); got != "1111" {
		t.Error("disabled, after a reload: ", got)
	}
	if rows := r.Report(); rows[0].State != "down" || rows[1].State != "" {
		t.Errorf("%+v", rows)
	}
	set(a[1], "drain")
	id = 0
	if g := r.get("x"); g.err == nil || !upstream.Busy(g.err) {
		t.Error("nothing is left: ", g)
	}
	set(a[0], "up")
	set(a[1], "up")
	if got := r.texts(4); got != "0101" && got != "1010" {
		t.Error("enabled: ", got)
	}
	if r.SetState("127.0.0.1:1", "drain") || len(r.States()) != 0 {
		t.Error("a state of an address that there is not")
	}
}

// TestDrainWaiting: requests that wait for an address that is disabled go to another one, or are
// refused; one that has begun goes on.
func TestDrainWaiting(t *testing.T) {
	one, goOn := stepwise(t)
	two, goTwo := stepwise(t)
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{one.address, two.address}, func(s *upstream.Settings) {
		s.MaxConns = 1
	})
	done := make(chan got, 3)
	r.ask("x", false, done)
	r.ask("x", false, done)
	one.requests(t, 1)
	two.requests(t, 1)
	r.ask("y", false, done)
	wait.Until(t, "one waits", func() bool { return pool.Waiting() == 2 })
	r.SetState(one.address, "down")
	if n := pool.Waiting(); n != 1 {
		t.Errorf("it waits at %d addresses", n)
	}
	goOn <- true
	answered(t, done)
	goTwo <- true
	answered(t, done)
	two.requests(t, 2)
	r.ask("z", false, done)
	wait.Until(t, "one waits", func() bool { return pool.Waiting() == 1 })
	r.SetState(two.address, "down")
	if g := <-done; g.err == nil || !strings.Contains(g.err.Error(), "disabled") {
		t.Error(g)
	}
	goTwo <- true
	answered(t, done)
}

// TestDrainAddressOfAName: of a name's addresses one can be drained, and all of them by the name.
func TestDrainAddressOfAName(t *testing.T) {
	_, _, r, all := named(t, "127.0.0.1", "127.0.0.2")
	r.texts(1)
	_, port, _ := strings.Cut(all[0].address, ":")
	if !r.SetState(all[0].address, "drain") {
		t.Fatal(all[0].address)
	}
	if got := r.texts(2); got != "127.0.0.2127.0.0.2" {
		t.Error(got)
	}
	if !r.SetState("app.test:"+port, "down") {
		t.Fatal("the name")
	}
	if g := r.get("x"); !upstream.Busy(g.err) {
		t.Error(g)
	}
	all[0].stop()
	all[1].stop()
}

// TestDrainedStickyWaiting: a request that waits for its drained sticky server, and for others,
// leaves its queue when it is disabled, and joins it no second time when it is enabled.
func TestDrainedStickyWaiting(t *testing.T) {
	for state, want := range map[string]int{"down": 1, "up": 2} {
		_, a := crowd(t, 2)
		pool := new(upstream.Pool)
		r := newRoute(t, pool, a, func(s *upstream.Settings) {
			s.MaxConns, s.Secret = 1, []byte("secret")
		})
		var id, at uint64
		r.after = func(l *upstream.Lease) { at = l.LastStickyID() }
		for r.get("x").text != "0" {
		}
		id = at
		r.prepare = func(l *upstream.Lease, _ string) { l.StickyID = id }
		r.SetState(a[0], "drain")
		letGo := []func(){r.holds(t, true, 0), r.holds(t, true, id)}
		done := make(chan got, 1)
		r.ask("x", false, done)
		wait.Until(t, "it waits", func() bool { return pool.Waiting() == 2 })
		r.SetState(a[0], state)
		if n := pool.Waiting(); n != want {
			t.Errorf("%s: it waits %d times, want %d", state, n, want)
		}
		for _, f := range letGo {
			f()
		}
		if g := <-done; g.err != nil {
			t.Error(g)
		}
	}
}

// TestDisabledKeeps: a connection whose request ends after its address was disabled is not kept.
func TestDisabledKeeps(t *testing.T) {
	s, goOn := stepwise(t)
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{s.address}, func(s *upstream.Settings) { s.MaxIdle = 4 })
	done := make(chan got, 1)
	r.ask("x", false, done)
	s.requests(t, 1)
	r.SetState(s.address, "down")
	goOn <- true
	answered(t, done)
	if n := pool.Idle(); n != 0 {
		t.Errorf("%d connections are idle", n)
	}
}

// TestInherit: a state from the process before is that of an address to which a name leads only
// later, and goes on to the next process. An operator can end it meanwhile.
func TestInherit(t *testing.T) {
	_, _, r, all := named(t, "127.0.0.1", "127.0.0.2")
	r.Inherit(map[string]string{all[0].address: "drain", "10.0.0.1:80": "down",
		"10.0.0.2:80": "later"})
	if got := r.texts(2); got != "127.0.0.2127.0.0.2" {
		t.Error(got)
	}
	if got := r.States(); len(got) != 2 || got[all[0].address] != "drain" ||
		got["10.0.0.1:80"] != "down" {
		t.Error(got)
	}
	if !r.SetState("10.0.0.1:80", "up") || !r.SetState(all[0].address, "up") || len(r.States()) != 0 {
		t.Error(r.States())
	}
	if r.SetState("10.0.0.1:80", "down") {
		t.Error("it has no state any more")
	}
}

// TestReportOfAddress: an address of a name that has a state of its own has a row, with what goes
// on there; requests stay in the row of the name.
func TestReportOfAddress(t *testing.T) {
	_, _, r, all := named(t, "127.0.0.1", "127.0.0.2")
	r.texts(4)
	r.SetState(all[0].address, "drain")
	rows := r.Report()
	if len(rows) != 2 || rows[1].Address != all[0].address || rows[1].State != "drain" ||
		rows[1].Idle != 1 || !rows[1].Up || rows[1].Requests != 0 || len(rows[1].Times) == 0 ||
		rows[0].State != "" || rows[0].Idle != 1 || rows[0].Requests != 4 {
		t.Errorf("%+v", rows)
	}
	r.SetState(all[1].address, "down")
	if rows := r.Report(); len(rows) != 3 || rows[0].State != "drain" || rows[2].State != "down" {
		t.Errorf("no address is left that takes all requests: %+v", rows)
	}
	r.SetState(all[1].address, "up")
	r.SetState(all[0].address, "up")
	r.texts(2)
	if rows := r.Report(); len(rows) != 1 || rows[0].State != "" || rows[0].Idle != 2 {
		t.Errorf("%+v", rows)
	}
}

// TestCountedWhereANameLed: what was counted at addresses that a name leads to no more stays in its
// row.
func TestCountedWhereANameLed(t *testing.T) {
	names, pool, r, all := named(t, "127.0.0.1", "127.0.0.2")
	r.texts(4)
	names.resolveTo("127.0.0.2")
	pool.LookUp()
	if rows := r.Report(); rows[0].Requests != 4 {
		t.Errorf("%d requests, want 4", rows[0].Requests)
	}
	names.resolveTo("127.0.0.1", "127.0.0.2")
	pool.LookUp()
	r.texts(4)
	if rows := r.Report(); rows[0].Requests != 8 {
		t.Errorf("%d requests, want 8", rows[0].Requests)
	}
	all[0].stop()
}

// TestWatchWhileStatesChange: checks begin while an operator sets states; the race detector
// watches.
func TestWatchWhileStatesChange(t *testing.T) {
	_, a := crowd(t, 2)
	r := newRoute(t, new(upstream.Pool), a, func(s *upstream.Settings) {
		s.Check = &upstream.Check{Interval: time.Hour, Timeout: wait.Patience, Rises: 1, Falls: 1,
			Run:     func(net.Conn, string) error { return errors.New("down") },
			Changed: func(string, bool, error) {}}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { r.Watch(ctx) })
	for range 4 {
		r.SetState(a[0], "drain")
		r.SetState(a[0], "up")
	}
	cancel()
	watching.Wait()
}
