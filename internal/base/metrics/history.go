package metrics

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// HistoryInterval is the time between two samples of a History.
const HistoryInterval = 5 * time.Second

// HistorySamples is how many samples a History has at most: those of five minutes. Of those of the
// last minute it has all that was counted.
const (
	HistorySamples = int(5 * time.Minute / HistoryInterval)
	minuteSamples  = int(time.Minute / HistoryInterval)
)

// Unknown is a sample of Recent that is not known: a loop did not answer, the process stood still,
// or, for a time, no handler has ended.
const Unknown = -1

// Recent has samples of the last five minutes, HistoryInterval apart, oldest first, or Unknown.
type Recent struct {
	Interval    float64   `json:"interval_seconds"`
	Requests    []float64 `json:"requests_per_second"`
	Errors      []float64 `json:"errors_per_second"` // answers of 500 and above
	P99         []float64 `json:"p99_seconds"`       // of handlers
	Connections []float64 `json:"connections"`       // open, at the end of the interval
}

// History keeps the last five minutes of a server, in memory that does not grow with time. The zero
// value is empty. Any goroutine may call the methods.
type History struct {
	mu     sync.Mutex
	recent Recent
	minute []*Snapshot // oldest first
}

// Record adds what take returns, now and each HistoryInterval, until ctx ends.
func (h *History) Record(ctx context.Context, take func(context.Context) *Snapshot) {
	tick := time.NewTicker(HistoryInterval)
	defer tick.Stop()
	for {
		if s := take(ctx); ctx.Err() == nil {
			h.Add(s)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Add adds s, which nobody changes any more.
func (h *History) Add(s *Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.minute); n > 0 {
		h.sample(h.minute[n-1], s)
	}
	if h.minute = append(h.minute, s); len(h.minute) > minuteSamples+1 {
		h.minute = slices.Delete(h.minute, 0, 1)
	}
}

// sample adds what has happened from before to now to h.recent.
func (h *History) sample(before, now *Snapshot) {
	seconds := now.Uptime - before.Uptime
	if seconds <= 0 {
		return
	}
	r := &h.recent
	r.Interval = HistoryInterval.Seconds()
	missed := min(int(math.Round(seconds/r.Interval))-1, HistorySamples)
	for range missed { // the process stood still
		r.add(Unknown, Unknown, Unknown, Unknown)
	}
	requests, errors, p99 := float64(Unknown), float64(Unknown), float64(Unknown)
	if before.answered() && now.answered() {
		requests = float64(now.Requests.Total-before.Requests.Total) / seconds
		errors = float64(now.Requests.Errors-before.Requests.Errors) / seconds
		times := now.Times()
		for i, n := range before.Times() {
			times[i] -= n
		}
		p99, _ = Quantile(times, .99)
	}
	r.add(requests, errors, p99, float64(now.Connections.Open))
}

func (r *Recent) add(requests, errors, p99, connections float64) {
	add := func(to *[]float64, v float64) {
		if *to = append(*to, v); len(*to) > HistorySamples {
			*to = slices.Delete(*to, 0, 1)
		}
	}
	add(&r.Requests, requests)
	add(&r.Errors, errors)
	add(&r.P99, p99)
	add(&r.Connections, connections)
}

// Attach sets what s has of the past: MinuteAgo and Recent.
func (h *History) Attach(s *Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	const most = time.Minute + HistoryInterval + 2*time.Second // a sample may come late
	for _, k := range h.minute {
		if age := s.Uptime - k.Uptime; age > 0 && age < most.Seconds() && k.answered() {
			s.MinuteAgo = k
			break
		}
	}
	r := h.recent
	for _, list := range []*[]float64{&r.Requests, &r.Errors, &r.P99, &r.Connections} {
		*list = slices.Clone(*list)
	}
	if len(r.Requests) > 0 {
		s.Recent = &r
	}
}

// answered reports whether all loops have answered, so that no sum has what was counted before.
func (s *Snapshot) answered() bool {
	return !slices.ContainsFunc(s.Loops, func(l Loop) bool { return !l.Answered })
}

// Times adds up the times of all routes.
func (s *Snapshot) Times() []int64 {
	sum := make([]int64, TimeBounds+1)
	for i := range s.Routes {
		for j, n := range s.Routes[i].Times {
			sum[j] += n
		}
	}
	return sum
}

// Quantile estimates, from counts by the bounds of Route.Times, how many seconds the given share
// of them takes at most: within a bucket times are taken to be spread evenly. more says that it is
// more than that, which is the last bound. It is Unknown if nothing was counted.
func Quantile(times []int64, share float64) (seconds float64, more bool) {
	total := int64(0)
	for _, n := range times {
		total += n
	}
	if total <= 0 {
		return Unknown, false
	}
	rank, least := share*float64(total), 0.0
	for i, n := range times[:min(len(times), TimeBounds)] {
		most := (FirstBound << i).Seconds()
		if n > 0 && rank <= float64(n) {
			return least + (most-least)*rank/float64(n), false
		}
		rank -= float64(n)
		least = most
	}
	return least, true
}
