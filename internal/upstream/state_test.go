package upstream_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

// TestDrain: a drained address gets the requests of clients that come back to it and no others, a
// disabled one gets none; both are back when they are enabled. Another group of the pool, as after a
// reload, knows that.
func TestDrain(t *testing.T) {
	services, a := crowd(t, 2)
	pool := new(upstream.Pool)
	secret := func(s *upstream.Settings) { s.Secret, s.MaxIdle = []byte("secret"), 4 }
	r := newRoute(t, pool, a, secret)
	var home, at uint64
	r.prepare = func(l *upstream.Lease, _ string) { l.Home = home }
	r.after = func(l *upstream.Lease) { at = l.At() }
	for r.get("x").text != "0" {
	}
	home = at
	set := func(name, state string) {
		t.Helper()
		if !r.SetState(name, state) {
			t.Fatal(name)
		}
	}
	set(a[0], "drain")
	if got := r.texts(2); got != "00" {
		t.Error("drained, at home: ", got)
	}
	home = 0
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
	home = 0
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
	r := newRoute(t, pool, []string{one.address, two.address}, func(s *upstream.Settings) { s.MaxConns = 1 })
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
