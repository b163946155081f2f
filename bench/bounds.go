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
}

// value is NaN where something was not measured.
func (b bound) value(all results, handoff string) float64 {
	own := all[cellKey{b.work, handoff}]
	if own == nil {
		return math.NaN()
	}
	if b.peer == "" {
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
	switch b.metric {
	case bytesEach:
		return "bytes per " + unit
	case perSecond:
		return unit + "s/s, lwango / " + b.peer
	case latency99:
		return "latency at half load, p99, lwango / " + b.peer
	case beside99:
		return "latency of another route meanwhile, p99, lwango / " + b.peer
	case growth:
		return "MiB that memory grows by"
	case mebiPerSecond:
		return "MiB/s, lwango / " + b.peer
	case failedEach:
		return "requests of a " + unit + " that fail"
	case late99:
		return "µs that a " + unit + " wakes late, p99"
	case cpuBoth:
		return "server's and client's CPU per " + unit + ", lwango / " + b.peer
	}
	return "CPU per " + unit + ", lwango / " + b.peer
}

// boundsTable is empty without lwango. The default handoff must hold; the other is for information.
func boundsTable(all results) string {
	var text strings.Builder
	for _, b := range bounds {
		channel, direct := b.value(all, baseline), b.value(all, "lwango-direct")
		if math.IsNaN(channel) && math.IsNaN(direct) {
			continue
		}
		verdict := "holds"
		switch {
		case math.IsNaN(b.limit.value):
			verdict = "-"
		case math.IsNaN(channel):
			verdict = "not measured"
		case !b.holds(channel):
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
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n", b.work, b.title(), bound, format(channel), format(direct), verdict)
	}
	if text.Len() == 0 {
		return ""
	}
	return "### Bounds\n\n| work | figure | bound | channel (default) | direct | default |\n|---|---|---|---|---|---|\n" + text.String() + "\n"
}
