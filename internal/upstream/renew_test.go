package upstream_test

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// TestTryFor: requests wait for the only address until a process listens there, and with several
// addresses for any of them; none is tried without an end.
func TestTryFor(t *testing.T) {
	for _, n := range []int{1, 2} {
		var addresses []string
		for range n {
			addresses = append(addresses, nobody(t, "unix"))
		}
		r := alone(t, addresses, func(s *upstream.Settings) { s.TryFor = wait.Patience })
		done := make(chan got, 8)
		for range cap(done) {
			r.ask("x", false, done)
		}
		wait.Until(t, "all have tried", func() bool { return n == 1 || len(r.missed()) > 0 })
		startAt(t, addresses[n-1], says("hello"))
		for range cap(done) {
			answered(t, done)
		}
	}
	short := alone(t, []string{nobody(t, "tcp")}, func(s *upstream.Settings) {
		s.TryFor = 30 * time.Millisecond
	})
	begin := time.Now()
	if g := short.get("x"); g.err == nil || !strings.Contains(g.err.Error(), "refused") {
		t.Error(g)
	}
	if d := time.Since(begin); d < 30*time.Millisecond {
		t.Errorf("it was tried for %v only", d)
	}
}

// TestMaxFails: an address is passed over after as many failures in a row as the group says, and
// never with -1.
func TestMaxFails(t *testing.T) {
	for _, tt := range []struct{ most, want int }{{0, 3}, {1, 1}, {5, 5}, {-1, 8}} {
		_, a := crowd(t, 2)
		r := alone(t, []string{a[0], a[1]}, func(s *upstream.Settings) {
			s.MaxFails, s.FailTimeout = tt.most, time.Hour
		})
		failed := 0
		for range 16 {
			if r.fails("0") {
				failed++
			}
		}
		if failed != tt.want {
			t.Errorf("max_fails %d: %d requests have failed, want %d", tt.most, failed, tt.want)
		}
	}
}

// TestSlowStart: an address that works again gets a small part of the requests at first.
func TestSlowStart(t *testing.T) {
	_, a := crowd(t, 2)
	for _, b := range []upstream.Balance{upstream.RoundRobin, upstream.Random} {
		r := alone(t, []string{a[0], a[1]}, func(s *upstream.Settings) {
			s.MaxFails, s.FailTimeout, s.SlowStart, s.Balance = 1, time.Millisecond, time.Hour, b
		})
		if n := strings.Count(r.texts(100), "0"); n < 25 {
			t.Errorf("%d requests of 100 at the start", n)
		}
		for !r.fails("0") {
		}
		wait.Until(t, "it is tried again", func() bool { return r.get("x").text == "0" })
		if n := strings.Count(r.texts(200), "0"); n > 20 {
			t.Errorf("%d requests of 200 after it has come back", n)
		}
	}
}

// TestGrowingWeight: the weight of a service's record grows over hours, too.
func TestGrowingWeight(t *testing.T) {
	if w := upstream.Weight(65535, 2*time.Hour, time.Hour); w < 65535*49 || w > 65535*51 {
		t.Error(w)
	}
}

// fails sends a request, whose connection counts as broken if its address gives that answer. It
// reports whether it does.
func (r *route) fails(answer string) bool {
	done := make(chan bool)
	r.loops.Go(0, func(th *loop.Thread) {
		l := r.Lease()
		defer l.Release()
		s, _, err := l.Connect(th, upstream.Reused)
		if err != nil {
			done <- false
			return
		}
		_, _ = io.WriteString(s, "x\n")
		line, _ := bufio.NewReader(s).ReadString('\n')
		_ = s.Close()
		if strings.TrimSpace(line) == answer {
			l.NoteFailure()
			done <- true
			return
		}
		l.NoteSuccess()
		done <- false
	})
	return <-done
}
