package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// bound is a figure that lwango is to reach: its value over the peer's, or with no peer the value itself.
type bound struct {
	work   string
	metric metric
	peer   string
	limit
}

// limit is what the figure may be: at most so much or, for what there should be much of, at least.
type limit struct {
	value float64 // NaN: for information
	least bool
}

func atMost(v float64) limit  { return limit{v, false} }
func atLeast(v float64) limit { return limit{v, true} }

func (l limit) holds(v float64) bool {
	if l.least {
		return v >= l.value
	}
	return v <= l.value
}

var bounds = []bound{
	{"hello", cpuTotal, "nginx", atMost(1.00)},
	{"hello", cpuTotal, "fasthttp", atMost(0.90)},
	{"hello", cpuTotal, "nethttp", atMost(0.60)},
	{"pipelined", cpuTotal, "fasthttp", atMost(1.00)},
	{"busy", cpuTotal, "fasthttp", atMost(0.85)},
	{"file4k", cpuTotal, "nginx", atMost(1.00)},
	{"file4k", cpuTotal, "nginx-nopush", atMost(1.00)},
	{"file1m", cpuTotal, "nginx", atMost(1.05)},
	{"file1m", cpuTotal, "nginx-nopush", atMost(1.05)},
	{"file1m", cpuBoth, "nginx", atMost(math.NaN())}, // see nginxCommand: the client may do the server's sending
	{"file1m", cpuBoth, "nginx-nopush", atMost(math.NaN())},
	{"bridge", cpuTotal, "nethttp", atMost(0.85)},
	{"idle", bytesEach, "", atMost(500)},
	{"echo", cpuTotal, "goecho", atMost(1.00)},
	{"echo", cpuTotal, "epollecho", atMost(1.08)},
	{"sleepers", bytesEach, "", atMost(10 << 10)},
	{"sleepers", late99, "", atMost(2000)},
	{"php4", perSecond, "nginx", atLeast(0.97)},
	{"php4kept", perSecond, "nginx", atLeast(0.97)},
	{"php4kept", latency99, "nginx", atMost(0.50)},
	{"php64", perSecond, "nginx", atLeast(0.97)},
	{"php64kept", perSecond, "nginx", atLeast(0.97)},
	{"php64kept", latency99, "nginx", atMost(0.50)},
	{"proxy", cpuTotal, "nginx", atMost(1.00)},
	{"proxykept", cpuTotal, "nginx", atMost(0.90)},
	{"download", growth, "", atMost(8)},
	{"download", mebiPerSecond, "nginx", atLeast(0.90)},
	{"upload", growth, "", atMost(8)},
	{"upload", mebiPerSecond, "nginx", atLeast(0.90)},
	{"uploadstream", growth, "", atMost(8)},
	{"uploadstream", mebiPerSecond, "nginx", atLeast(0.90)},
	{"waiting", bytesEach, "", atMost(12 << 10)},
	{"waiting", beside99, "nginx", atMost(math.NaN())},
	{"burst", failedEach, "", atMost(0)},
	{"idlews", bytesEach, "", atMost(8 << 10)},
	{"idlews", bytesEach, "gorilla", atMost(0.45)},
	{"idlews", bytesEach, "gorilla-plain", atMost(0.45)},
	{"wsecho", cpuTotal, "gorilla", atMost(0.95)},
	{"room", cpuTotal, "gorilla", atMost(1.00)},
	{"room", lostCount, "", atMost(0)},
	{"room", reorderedCount, "", atMost(0)},
	{"room", latency99, "gorilla", atMost(math.NaN())},
	{"rooms", cpuTotal, "gorilla", atMost(math.NaN())},
	{"rooms", lostCount, "", atMost(0)},
	{"rooms", reorderedCount, "", atMost(0)},
	{"quiet", latency50, "", atMost(1000)},
	{"quiet", wakeUps, "", atMost(0)},
	{"goroutines", latency90, "nethttp", atMost(2.00)},
	{"burning", latency50, "nethttp", atMost(1.00)},
	{"revproxy", latency50, "nethttp", atMost(1.50)},
	{"redis", latency50, "", atMost(2000)},
	{"redis", lostCount, "", atMost(0)},
	{"redis", doubledCount, "", atMost(0)},
}

// value is NaN where something was not measured.
func (b bound) value(all results, handoff string) float64 {
	own := all[cellKey{b.work, handoff}]
	if own == nil {
		return math.NaN()
	}
	switch {
	case b.metric == lostCount || b.metric == reorderedCount || b.metric == doubledCount:
		return most(own.values[b.metric])
	case b.peer == "":
		return median(own.values[b.metric])
	}
	other := all[cellKey{b.work, b.peer}]
	if other == nil {
		return math.NaN()
	}
	return ratio(own.values[b.metric], other.values[b.metric])
}

func (b bound) title() string {
	unit := works[slices.IndexFunc(works, func(w work) bool { return w.name == b.work })].unit
	versus := ""
	if b.peer != "" {
		versus = ", lwango / " + b.peer
	}
	switch b.metric {
	case bytesEach:
		return "bytes per " + unit + versus
	case latency50:
		return "µs to a " + unit + ", median" + versus
	case latency90:
		return "latency of a " + unit + ", p90" + versus
	case latency99:
		return "latency of a " + unit + ", p99" + versus
	case lostCount:
		return "what would be a " + unit + " and is lost, worst round"
	case reorderedCount:
		return unit + " after a later one of the same sender, worst round"
	case doubledCount:
		return unit + " for the second time, worst round"
	case wakeUps:
		return "wake-ups of the server while nobody speaks, beside its pings"
	case perSecond:
		return unit + "s/s" + versus
	case beside99:
		return "latency of another route meanwhile, p99" + versus
	case growth:
		return "MiB that memory grows by"
	case mebiPerSecond:
		return "MiB/s" + versus
	case failedEach:
		return "requests of a " + unit + " that fail"
	case late99:
		return "µs that a " + unit + " wakes late, p99"
	case cpuBoth:
		return "server's and client's CPU per " + unit + versus
	}
	return "CPU per " + unit + versus
}

// boundsTable is empty without lwango. The default handoff must hold; the other is for information.
func boundsTable(all results) string {
	var text strings.Builder
	for _, b := range bounds {
		own, rest := b.value(all, baseline), b.value(all, other)
		if math.IsNaN(own) && math.IsNaN(rest) {
			continue
		}
		verdict := "holds"
		switch {
		case math.IsNaN(b.limit.value):
			verdict = "-"
		case math.IsNaN(own):
			verdict = "not measured"
		case !b.holds(own):
			verdict = "falls short"
		}
		format := ratioText
		switch {
		case b.metric == growth || b.metric == failedEach:
			format = oneDigitText
		case b.peer == "":
			format = wholeText
		}
		bound := format(b.limit.value)
		if b.least {
			bound = "at least " + bound
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n", b.work, b.title(), bound, format(own), format(rest), verdict)
	}
	if text.Len() == 0 {
		return ""
	}
	return "### Bounds\n\n| work | figure | bound | direct (default) | channel | default |\n|---|---|---|---|---|---|\n" + text.String() + "\n"
}
