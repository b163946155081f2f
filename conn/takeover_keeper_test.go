package conn_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// keeper sends back what comes, and says why it was called.
type keeper struct {
	below  conn.HijackedConn
	c      io.ReadWriter
	thread *loop.Thread
	ctx    context.Context
	idle   time.Duration
	since  time.Duration // of the loop's clock, when it last ran
	does   func(k *keeper, what string) bool
	log    chan string
	greets bool

	notified atomic.Bool
}

// notify has the keeper run.
func (k *keeper) notify() {
	k.notified.Store(true)
	loop.Notify(k.thread)
}

func (k *keeper) Run(t *loop.Thread) (time.Duration, bool) {
	why, now := "event", t.Loop().Layer().Clock(t.Loop().Time())
	switch {
	case k.notified.Swap(false):
		why = "notice"
	case k.idle > 0 && now-k.since >= k.idle:
		why = "time"
	}
	k.since = now
	if !k.greets {
		k.greets, why = true, "first"
		t.Defer(func() { k.log <- "deferred by Run" })
	}
	if t.Loop().Stopping() {
		return 0, false
	}
	var all []byte
	for b := make([]byte, 100); ; {
		n, err := k.c.Read(b)
		if all = append(all, b[:n]...); n > 0 {
			continue
		}
		if ne, ok := err.(interface{ Temporary() bool }); err == stream.ErrWouldBlock ||
			ok && ne.Temporary() {
			break
		}
		return 0, false
	}
	if len(all) > 0 {
		why = string(all)
		_, _ = k.c.Write(all)
	}
	if !invariants.Enabled || why != "event" { // there reads are short
		k.log <- why
	}
	if k.does != nil && !k.does(k, why) {
		return 0, false
	}
	return k.idle, true
}

func (k *keeper) End(t *loop.Thread) {
	conn.TakeoverOf(t).SetCloseCode(1234)
	if conn.TakeoverOf(t).Panicked() {
		k.log <- "panicked"
	}
	k.log <- "end"
	_ = t.Sleep(time.Millisecond) // a killed thread does not return from it
	k.log <- "slept"
}

// keeping hands connections on to a keeper.
type keeping struct {
	does func(k *keeper, what string) bool
	log  chan string
	kept chan *keeper
}

func newKeeping(does func(k *keeper, what string) bool) *keeping {
	return &keeping{does, make(chan string, 100), make(chan *keeper, 100)}
}

func (h *keeping) serve(req *conn.Request, resp *conn.Response) int {
	if err := resp.Layer().HandOver(nil); err == nil {
		panic("handed over before Hijack")
	}
	req.Defer(func() { h.log <- "deferred first" })
	c, _, err := resp.Hijack()
	if err != nil {
		return 500
	}
	_, _ = io.WriteString(c, "HTTP/1.1 101 S\r\n\r\n")
	below := conn.HijackedOf(c)
	below.SetNoWait(true)
	k := &keeper{below: below, c: c, thread: req.Thread, idle: -1, does: h.does, log: h.log,
		ctx: req.Context()}
	req.Defer(func() { h.log <- "deferred last" })
	if err := resp.Layer().HandOver(k); err != nil {
		panic(err)
	}
	if resp.Layer().HandOver(k) == nil {
		panic("handed over twice")
	}
	_ = req.Sleep(time.Millisecond)
	h.kept <- k
	return 0
}

func (h *keeping) connect(s *site) (*client, *keeper) {
	s.T.Helper()
	c := s.Dial()
	send(s.T, c, strings.Replace(upgradeTo, "%s", "/", 1))
	if a := c.Answer("GET"); a.StatusCode != http.StatusSwitchingProtocols {
		s.T.Fatal(a.Status)
	}
	k := <-h.kept
	h.expect(s.T, "first", "deferred by Run")
	return c, k
}

const upgradeTo = "GET %s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// expect reads what the keeper says.
func (h *keeping) expect(t testing.TB, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-h.log:
			if got != w {
				t.Errorf("got %q, want %q", got, w)
			}
		case <-time.After(wait.Patience):
			t.Fatalf("no %q", w)
		}
	}
}

var handed = []mode{plain, direct, overTLS, modes.HTTP2, modes.HTTP2TLS}

// TestHandOver: what keeps a connection is called for all that comes, and between the calls nothing
// is held: no coroutine, no request. What the request has left to its end comes at the
// connection's.
func TestHandOver(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		h := newKeeping(nil)
		lines := &entries{}
		s := start(t, m, conn.Config{Handler: h.serve, AccessLog: lines})
		c, k := h.connect(s)
		nothing := func() {
			t.Helper()
			s.Settle()
			s.On(func(l *loop.Loop) {
				if n := l.Stats().Working; n > 0 {
					t.Errorf("%d coroutines work", n)
				}
			})
			k.onLoop(func() {
				if n := s.Stats(k.thread.Loop()); n.Hijacked+n.Tunnels != 1 {
					t.Error("not counted")
				}
			})
		}
		nothing()
		send(t, c, "one")
		if b := make([]byte, 3); must.Get(io.ReadFull(c.R, b))(t) != 3 || string(b) != "one" {
			t.Errorf("%q", b)
		}
		for got := ""; len(got) < 3; { // with the invariants tag it comes in pieces
			got += <-h.log
		}
		nothing()
		k.notify()
		h.expect(t, "notice")
		nothing()
		k.onLoop(func() { k.idle = time.Hour; k.notified.Store(true); k.thread.Layer().NotifyLocal() })
		h.expect(t, "notice")
		s.Skip(2 * time.Hour)
		h.expect(t, "time")
		if k.ctx.Err() != nil {
			t.Error("the context has ended")
		}
		lines.mu.Lock()
		if n := len(lines.all); n > 0 {
			t.Errorf("%d lines too early", n)
		}
		lines.mu.Unlock()
		c.Close()
		h.expect(t, "end", "slept", "deferred last", "deferred first")
		<-k.ctx.Done()
		if err := context.Cause(k.ctx); err != loop.ErrClientGone && err != context.Canceled {
			t.Error(err)
		}
		s.Idle()
		if e := lines.one(t); !e.Hijacked || e.CloseCode != 1234 {
			t.Errorf("logged: %+v", e)
		}
		loop.Notify(k.thread)
	}, handed...)
}

// onLoop calls f on the keeper's loop.
func (k *keeper) onLoop(f func()) {
	done := make(chan struct{})
	_ = k.thread.Loop().Post(func() { f(); close(done) })
	<-done
}

// TestHandOverEnds: End is called once, whichever end it is, and then what was deferred.
func TestHandOverEnds(t *testing.T) {
	for name, row := range map[string]struct {
		does func(k *keeper, what string) bool
		act  func(s *site, k *keeper)
		want []string
	}{
		"returns": {func(_ *keeper, what string) bool { return what != "notice" }, nil,
			[]string{"notice", "end", "slept", "deferred last", "deferred first"}},
		"panics": {func(_ *keeper, what string) bool {
			if what == "notice" {
				panic("keeper")
			}
			return true
		}, nil, []string{"notice", "panicked", "end", "slept", "deferred last", "deferred first"}},
		"closes": {func(k *keeper, what string) bool {
			if what == "notice" {
				_ = k.below.Close()
			}
			return true
		}, nil, []string{"notice", "end", "slept", "deferred last", "deferred first"}},
		"stop": {nil, func(s *site, _ *keeper) { go s.Stop(time.Minute) },
			[]string{"end", "slept", "deferred last", "deferred first"}},
		"killed": {nil, func(_ *site, k *keeper) {
			k.thread.Loop().Stop(0)
		}, []string{"end", "deferred last", "deferred first"}},
		"killed at work": {func(k *keeper, what string) bool {
			return what != "notice" || k.thread.Sleep(time.Hour) == nil
		}, func(s *site, k *keeper) {
			k.notify()
			k.onLoop(func() {})
			go s.Stop(time.Millisecond)
		}, []string{"notice", "end", "deferred last", "deferred first"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m mode) {
				h := newKeeping(row.does)
				s := start(t, m, conn.Config{Handler: h.serve})
				if name == "panics" {
					s.Panics.Expect()
				}
				c, k := h.connect(s)
				s.Settle()
				if row.act != nil {
					row.act(s, k)
				} else {
					k.notify()
				}
				got := []string{}
				for len(got) < len(row.want) {
					select {
					case what := <-h.log:
						got = append(got, what)
					case <-time.After(wait.Patience):
						t.Fatalf("only %q", got)
					}
				}
				if name == "killed" && slices.Contains(got, "slept") { // it was told to stop before
					got = slices.DeleteFunc(got, func(s string) bool { return s == "slept" })
					got = append(got, <-h.log)
				}
				if !slices.Equal(got, row.want) {
					t.Errorf("got %q, want %q", got, row.want)
				}
				_, _ = io.Copy(io.Discard, c)
				if len(h.log) > 0 {
					t.Errorf("then %q", <-h.log)
				}
			}, handed...)
		})
	}
}

// TestHandOverMissesNothing: what comes while the thread waits behind the keeper's last look has
// the keeper run again.
func TestHandOverMissesNothing(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		waited := false
		var h *keeping
		h = newKeeping(func(k *keeper, what string) bool {
			switch {
			case what == "notice":
				k.thread.Defer(func() {
					loop.Notify(k.thread)
					_ = k.thread.Sleep(2 * time.Millisecond)
					waited = true
				})
			case waited:
				waited = false
				h.log <- "again"
			case what == "1":
				h.log <- "waits"
				for !k.below.Unread() {
					_ = k.thread.Sleep(time.Millisecond)
				}
			}
			return true
		})
		s := start(t, m, conn.Config{Handler: h.serve})
		c, k := h.connect(s)
		s.Settle()
		k.notify()
		for got := ""; got != "again"; {
			got = receive(t, h.log)
		}
		send(t, c, "1")
		for got := ""; got != "waits"; {
			got = receive(t, h.log)
		}
		send(t, c, "2")
		for got := ""; got != "2"; {
			got = receive(t, h.log)
		}
		c.Close()
		s.Idle()
	}, handed...)
}

func receive[T any](t testing.TB, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(wait.Patience):
		t.Fatal("nothing comes")
	}
	return got
}
