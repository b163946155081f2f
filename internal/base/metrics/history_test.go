package metrics_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lwango/lwango/internal/base/metrics"
)

// TestHistory: of a server with 10 requests a second, one of 20 an error, the history has five
// minutes, and what was counted a minute ago.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, held := time.Now(), new(atomic.Bool)
		take := func(context.Context) *metrics.Snapshot {
			up := time.Since(start)
			n := int64(up / (100 * time.Millisecond))
			return &metrics.Snapshot{Uptime: up.Seconds(),
				Connections: metrics.Connections{Open: 7},
				Requests:    metrics.Requests{Total: n, Errors: n / 20},
				Routes:      []metrics.Route{{Times: []int64{0, n}}},
				Loops:       []metrics.Loop{{Answered: true}, {Loop: 1, Answered: !held.Load()}}}
		}
		h, none := new(metrics.History), take(nil)
		if h.Attach(none); none.MinuteAgo != nil || none.Recent != nil {
			t.Errorf("at the start: %+v", none)
		}
		ctx, stop := context.WithCancel(t.Context())
		go h.Record(ctx, take)
		look := func(after time.Duration) *metrics.Snapshot {
			time.Sleep(after)
			synctest.Wait()
			s := take(nil)
			h.Attach(s)
			return s
		}
		if s := look(time.Second); s.MinuteAgo == nil || s.MinuteAgo.Uptime != 0 || s.Recent != nil {
			t.Errorf("after a second: %+v", s)
		}
		s := look(20 * time.Minute)
		if ago := s.Uptime - s.MinuteAgo.Uptime; ago < 60 || ago > 66 {
			t.Errorf("a minute ago was %v s ago", ago)
		}
		r := s.Recent
		if len(r.Requests) != 60 || slices.Min(r.Requests) != 10 || slices.Max(r.Requests) != 10 {
			t.Errorf("requests/s: %v", r.Requests)
		}
		if len(r.Errors) != 60 || slices.Min(r.Errors) < 0.39 || slices.Max(r.Errors) > 0.61 {
			t.Errorf("errors/s: %v", r.Errors)
		}
		// All are in the second bucket, from 64 to 128 µs.
		if len(r.P99) != 60 || slices.Min(r.P99) < 127e-6 || slices.Max(r.P99) > 128e-6 {
			t.Errorf("p99: %v", r.P99)
		}
		if len(r.Connections) != 60 || r.Connections[59] != 7 || r.Interval != 5 {
			t.Errorf("connections: %v, each %v s", r.Connections, r.Interval)
		}

		// While a loop does not answer, and until it has once more, sums are not known.
		held.Store(true)
		look(10 * time.Second)
		held.Store(false)
		s = look(10 * time.Second)
		want := []float64{10, metrics.Unknown, metrics.Unknown, metrics.Unknown, 10}
		if got := s.Recent.Requests[55:]; !slices.Equal(got, want) {
			t.Errorf("a loop was held up: %v, want %v", got, want)
		}
		s = look(44 * time.Second)
		if ago := s.Uptime - s.MinuteAgo.Uptime; ago > 62 || slices.ContainsFunc(s.MinuteAgo.Loops,
			func(l metrics.Loop) bool { return !l.Answered }) {
			t.Errorf("a minute ago: %v s, %+v", ago, s.MinuteAgo.Loops)
		}
		stop()
		synctest.Wait()

		// The process stands still for half a minute.
		time.Sleep(30 * time.Second)
		h.Add(take(nil))
		if r := look(0).Recent; len(r.Requests) != 60 || r.Requests[59] != 10 ||
			r.Requests[58] != metrics.Unknown || r.Requests[55] != metrics.Unknown {
			t.Errorf("after a standstill: %v", r.Requests[50:])
		}
		if s := look(time.Hour); s.MinuteAgo != nil {
			t.Errorf("a minute ago was %v s ago", s.Uptime-s.MinuteAgo.Uptime)
		}
	})
}

// TestQuantile: the bounds of the steps are exact, and what is beyond the last one is said to be.
func TestQuantile(t *testing.T) {
	const last = metrics.TimeBounds
	for _, c := range []struct {
		times map[int]int64
		share float64
		want  time.Duration
		more  bool
	}{
		{map[int]int64{0: 100}, 1, metrics.FirstBound, false},
		{map[int]int64{0: 100}, 0.5, metrics.FirstBound / 2, false},
		{map[int]int64{0: 98, 3: 2}, 0.98, metrics.FirstBound, false},
		{map[int]int64{0: 98, 3: 2}, 0.99, metrics.FirstBound * 6, false},
		{map[int]int64{last - 1: 1}, 1, metrics.FirstBound << (last - 1), false},
		{map[int]int64{0: 1, last: 99}, 0.99, metrics.FirstBound << (last - 1), true},
	} {
		times := make([]int64, last+1)
		for i, n := range c.times {
			times[i] = n
		}
		got, more := metrics.Quantile(times, c.share)
		if d := got - c.want.Seconds(); d > 1e-9 || d < -1e-9 || more != c.more {
			t.Errorf("%v of %v: %v s, %v; want %v, %v", c.share, c.times, got, more, c.want, c.more)
		}
	}
	if got, more := metrics.Quantile(make([]int64, last+1), 0.99); got != metrics.Unknown || more {
		t.Errorf("of nothing: %v, %v", got, more)
	}
}
