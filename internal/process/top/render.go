package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/base/metrics"
)

// render makes the lines for a server. Rates are those since before; if that is nil, or of another
// process, they are "-", since averages over the whole life of a server are no rates. If a loop did
// not answer before, its counts may be older: its rates, and those of sums over the loops, are "-",
// too.
func render(before, now *metrics.Snapshot) (lines []string) {
	first := before == nil || now.PID != before.PID || !now.Time.After(before.Time)
	if first {
		before = new(metrics.Snapshot)
	}
	seconds := now.Time.Sub(before.Time).Seconds()
	known, allKnown := make([]bool, len(now.Loops)), !first
	for i, l := range now.Loops {
		known[i] = !first && (i >= len(before.Loops) || before.Loops[i].Answered)
		allKnown = allKnown && (known[i] || !l.Answered)
	}
	rate := func(known bool, now, before int64, text func(float64) string) string {
		if !known {
			return "-"
		}
		return text(max(float64(now-before), 0) / seconds)
	}
	add := func(format string, args ...any) {
		lines = append(lines, clean(fmt.Sprintf(format, args...)))
	}
	c, q, old := &now.Connections, &now.Requests, &before.Requests
	add("lwango %s, process %d, up %v", now.Version, now.PID,
		time.Duration(now.Uptime*float64(time.Second)).Round(time.Second))
	add("requests    %s/s, %d running, %d in all, %d errors (5xx), %d panics",
		rate(allKnown, q.Total, old.Total, tenths), q.Running, q.Total, q.Errors, q.Panics)
	add("bytes       %s/s sent, %s/s received", rate(allKnown, q.Sent, old.Sent, size),
		rate(allKnown, q.Got, old.Got, size))
	add("connections %d: %d idle, %d busy, %d hijacked, %d lingering; %d refusing", c.Open, c.Idle,
		c.Busy, c.Hijacked, c.Lingering, c.Refusing)
	if c.HTTP2 > 0 || c.Resets > 0 {
		add("http/2      %d connections, %d streams, %s/s resets", c.HTTP2, c.Streams,
			rate(allKnown, c.Resets, before.Connections.Resets, tenths))
	}
	h, p := &now.Handshakes, &now.Passwords
	add("handshakes  %d compute, %d wait, %d have failed; passwords: %d compute, %d wait", h.Taken,
		h.Waiting, c.FailedHandshakes, p.Taken, p.Waiting)
	add("memory      %s heap, %s spool, %d goroutines, %d topics with %d subscriptions",
		size(float64(now.HeapBytes)), size(float64(now.SpoolBytes)), now.Goroutines, now.Topics.Count,
		now.Topics.Subscribers)

	add("")
	add("%4s %6s %10s %10s %8s %8s %8s %8s %7s", "LOOP", "BUSY", "WAKE-UPS/S", "RESUMES/S", "THREADS",
		"COROS", "TIMERS", "WORKERS", "STALLS")
	for i, l := range now.Loops {
		if !l.Answered {
			add("%4d does not answer: a handler holds it; %d stalls", l.Loop, l.Stalls)
			continue
		}
		var b metrics.Loop
		if i < len(before.Loops) {
			b = before.Loops[i]
		}
		busy := "-"
		if known[i] && l.Age > b.Age {
			busy = tenths(100*min(max((l.Busy-b.Busy)/(l.Age-b.Age), 0), 1)) + "%"
		}
		add("%4d %6s %10s %10s %8d %8d %8d %8d %7d", l.Loop, busy,
			rate(known[i], l.Wakeup, b.Wakeup, whole), rate(known[i], l.Resume, b.Resume, whole),
			l.Threads, l.Coroutines, l.Timers, l.Workers, l.Stalls)
	}

	add("")
	add("%10s %9s %8s %8s %8s %10s  %s", "REQUESTS", "PER S", "4XX", "5XX", "LEFT", "MEAN",
		"ROUTE, SLOWEST FIRST")
	slices.SortStableFunc(now.Routes, func(a, b metrics.Route) int {
		return cmp.Compare(mean(&b), mean(&a))
	})
	for i := range now.Routes {
		r := &now.Routes[i]
		var b metrics.Route
		for j := range before.Routes {
			if o := &before.Routes[j]; o.Site == r.Site && o.Route == r.Route {
				b = *o
			}
		}
		add("%10d %9s %8d %8d %8d %10v  %s", r.Requests(),
			rate(allKnown, r.Requests(), b.Requests(), tenths), r.Status[4], r.Status[5], r.Status[0],
			time.Duration(mean(r)*float64(time.Second)).Round(10*time.Nanosecond),
			cmp.Or(r.Site, "(no site)")+" "+cmp.Or(r.Route, "(no route)"))
	}
	if len(now.Streams) > 0 {
		add("")
		add("%8s %10s %8s %8s %10s %10s  %s", "OPEN", "ACCEPTED", "REFUSED", "FAILED", "RECEIVED", "SENT",
			"STREAM")
	}
	for _, s := range now.Streams {
		add("%8d %10d %8d %8d %10s %10s  %s", s.Open, s.Accepted, s.Refused, s.Failed,
			size(float64(s.Got)), size(float64(s.Sent)), s.Address)
	}
	now.ByKind(func(all []*metrics.Counted) {
		head := ""
		for _, n := range all[0].Counts {
			head += fmt.Sprintf("%10s  ", strings.ToUpper(n.Name))
		}
		add("")
		add("%s%s", head, strings.ToUpper(all[0].Kind))
		for _, c := range all {
			line := ""
			for _, n := range c.Counts {
				line += fmt.Sprintf("%*d  ", max(10, len(n.Name)), n.Value)
			}
			add("%s%s %s %s", line, cmp.Or(c.Site, "(no site)"), cmp.Or(c.Route, "(no route)"), c.Of)
		}
	})
	lines = append(lines, cacheLines(before, now, func(now, old int64) string {
		return rate(!first, now, old, tenths)
	})...)
	if len(now.Upstreams) > 0 {
		add("")
		add("%-8s %8s %8s %8s  %s", "STATE", "ACTIVE", "IDLE", "WAITING", "UPSTREAM")
	}
	for _, u := range now.Upstreams {
		add("%-8s %8d %8d %8d  %s of %s %s", u.Shown(), u.Active, u.Idle, u.Waiting, u.Address, u.Site,
			u.Route)
	}
	if len(now.Stalls) > 0 {
		add("")
		add("%-8s %4s %10s  %s", "STALL", "LOOP", "HELD", "PLACE")
	}
	for _, s := range slices.Backward(now.Stalls) {
		add("%-8s %4d %10v  %s", s.Since.Local().Format(time.TimeOnly), s.Loop,
			time.Duration(s.Held*float64(time.Second)).Round(time.Millisecond), s.Place)
	}
	return lines
}

// cacheLines returns the lines of the cache, if routes keep answers: for the store, and for each
// route.
func cacheLines(before, now *metrics.Snapshot, rate func(now, old int64) string) (lines []string) {
	add := func(format string, args ...any) {
		lines = append(lines, clean(fmt.Sprintf(format, args...)))
	}
	c, old := now.Cache, cmp.Or(before.Cache, new(metrics.Cache))
	if c == nil {
		return nil
	}
	add("")
	add("cache       %d in memory, %s; %d on disk, %s; %d filling, %s/s kept", c.MemoryObjects,
		size(float64(c.MemoryBytes)), c.DiskObjects, size(float64(c.DiskBytes)), c.Filling,
		rate(int64(c.Fills), int64(old.Fills)))
	add("            %d kept in all, %d not kept, %d evicted, %d purged, %d damaged, %d failed",
		c.Fills, c.Dropped, c.Evicted, c.Purged, c.Damaged, c.Failed)
	for i := range now.Routes {
		r := &now.Routes[i]
		if r.Cache == nil {
			continue
		}
		line := "            "
		for _, use := range slices.Sorted(maps.Keys(r.Cache)) {
			line += fmt.Sprintf("%d %s, ", r.Cache[use], use)
		}
		add("%s  %s %s", strings.TrimSuffix(line, ", "), cmp.Or(r.Site, "(no site)"),
			cmp.Or(r.Route, "(no route)"))
	}
	return lines
}

func mean(r *metrics.Route) float64 { return r.Spent / float64(max(r.Calls(), 1)) }

func whole(n float64) string { return strconv.FormatFloat(n, 'f', 0, 64) }

func tenths(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) }

// size is a number of bytes with a unit.
func size(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; n >= 1024 && i < len(units)-1; i++ {
		n /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, units[i])
}
