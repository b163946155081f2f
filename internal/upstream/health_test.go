package upstream_test

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

// startFull returns the address of a UNIX socket whose queue is full, and stays so.
func startFull(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/s"
	fd := must.Get(syscall.Socket(syscall.AF_UNIX,
		syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0))(t)
	t.Cleanup(func() { syscall.Close(fd) })
	must.Do(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	must.Do(t, syscall.Listen(fd, 0))
	wait.Until(t, "the queue is full", func() bool {
		c, err := net.Dial("unix", path)
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err != nil
	})
	return "unix:" + path
}

// TestConnectTimesOut: an upstream to which a connection takes too long leaves time for the others,
// whose fault it is not, and is not asked again for a while.
func TestConnectTimesOut(t *testing.T) {
	full := startFull(t)
	_, a := crowd(t, 2)
	r := alone(t, []string{full, a[0], a[1] + " backup"}, func(s *upstream.Settings) {
		s.ConnectTimeout = 600 * time.Millisecond
	})
	done := make(chan got)
	for range 8 {
		r.ask("x", true, done)
	}
	for range 8 {
		if g := <-done; g.text != "0" {
			t.Error(g)
		}
	}
	if names := r.missed(); len(names) == 0 || len(names) > 4 ||
		strings.Contains(strings.Join(names, " "), a[0]) {
		t.Errorf("not reached: %q", names)
	}
	if g := r.get("x"); g.text != "0" || r.missed() != nil {
		t.Error("asked again: ", g)
	}
}

// TestFull: where there is no other upstream, a queue that stays full is no fault of its own.
func TestFull(t *testing.T) {
	r := alone(t, []string{startFull(t)},
		func(s *upstream.Settings) { s.ConnectTimeout = 50 * time.Millisecond })
	if g := r.get("x"); !upstream.Busy(g.err) {
		t.Error(g)
	}
}

// TestHealth: of the requests to an address that does not work, one at a time finds out whether it
// does again.
func TestHealth(t *testing.T) {
	now := time.Now()
	var h upstream.Health
	if h.Chosen(); !h.Works(now) {
		t.Error("it works from the start")
	}
	h.Avoid(now.Add(-time.Second))
	if !h.Works(now) {
		t.Error("none finds out")
	}
	if h.Chosen(); h.Works(now) {
		t.Error("two find out at once")
	}
}

// TestConnectFails: an address is avoided once so many connects in a row have failed.
func TestConnectFails(t *testing.T) {
	_, a := crowd(t, 1)
	r := alone(t, []string{"unix:" + t.TempDir() + "/none", a[0]},
		func(s *upstream.Settings) { s.ConnectFails = 3 })
	for range 10 {
		if g := r.get("x"); g.text != "0" {
			t.Error(g)
		}
	}
	if n := len(r.missed()); n != 3 {
		t.Errorf("%d connects have failed", n)
	}
	for group, own := range map[int]int{1: 2, 3: 1, -1: 2} { // an address has its own number
		r := alone(t, []string{fmt.Sprintf("unix:%s/none max_fails=%d", t.TempDir(), own), a[0]},
			func(s *upstream.Settings) { s.MaxFails, s.ConnectFails = min(group, 0), group })
		for range 10 {
			if g := r.get("x"); g.text != "0" {
				t.Error(g)
			}
		}
		if n := len(r.missed()); n != own {
			t.Errorf("%d connects have failed, with max_fails=%d of %d", n, own, group)
		}
	}
}

// TestOwnLimits: an address may have limits in place of those of the group.
func TestOwnLimits(t *testing.T) {
	few, _ := stepwise(t)
	many, _ := stepwise(t)
	r := alone(t, []string{few.address + " max_conns=1", many.address}, nil)
	done := make(chan got, 6)
	for range 6 {
		r.ask("x", false, done)
	}
	wait.Until(t, "six requests", func() bool {
		all := r.Report()
		return all[0].Active+all[1].Active == 6
	})
	if all := r.Report(); all[0].Active != 1 {
		t.Errorf("%d and %d requests", all[0].Active, all[1].Active)
	}

	_, a := crowd(t, 1)
	r = alone(t, []string{"unix:" + t.TempDir() + "/none max_fails=-1", a[0]}, nil)
	for range 10 {
		if g := r.get("x"); g.text != "0" {
			t.Error(g)
		}
	}
	if n := len(r.missed()); n < 4 {
		t.Errorf("%d connects to an address that is never avoided", n)
	}
}
