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
	most   float64 // NaN: for information
}

var bounds = []bound{
	{"hello", cpuTotal, "nginx", 1.00},
	{"hello", cpuTotal, "fasthttp", 0.90},
	{"hello", cpuTotal, "nethttp", 0.60},
	{"pipelined", cpuTotal, "fasthttp", 1.00},
	{"busy", cpuTotal, "fasthttp", 0.85},
	{"file4k", cpuTotal, "nginx", 1.00},
	{"file4k", cpuTotal, "nginx-nopush", 1.00},
	{"file1m", cpuTotal, "nginx", 1.05},
	{"file1m", cpuTotal, "nginx-nopush", 1.05},
	{"file1m", cpuBoth, "nginx", math.NaN()}, // see nginxCommand: the client may do the server's sending
	{"file1m", cpuBoth, "nginx-nopush", math.NaN()},
	{"bridge", cpuTotal, "nethttp", 0.85},
	{"idle", bytesEach, "", 500},
	{"echo", cpuTotal, "goecho", 1.00},
	{"echo", cpuTotal, "epollecho", 1.08},
	{"sleepers", bytesEach, "", 10 << 10},
	{"sleepers", late99, "", 2000},
	{"idlews", bytesEach, "", 8 << 10},
	{"idlews", bytesEach, "gorilla", 0.45},
	{"idlews", bytesEach, "gorilla-plain", 0.45},
	{"wsecho", cpuTotal, "gorilla", 0.95},
	{"room", cpuTotal, "gorilla", 1.00},
	{"room", lostCount, "", 0},
	{"room", reorderedCount, "", 0},
	{"room", latency99, "gorilla", math.NaN()},
	{"rooms", cpuTotal, "gorilla", math.NaN()},
	{"rooms", lostCount, "", 0},
	{"rooms", reorderedCount, "", 0},
	{"quiet", latency50, "", 1000},
	{"quiet", wakeUps, "", 0},
	{"redis", latency50, "", 2000},
	{"redis", lostCount, "", 0},
	{"redis", doubledCount, "", 0},
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
	case latency99:
		return "µs to a " + unit + ", p99" + versus
	case lostCount:
		return "what would be a " + unit + " and is lost, worst round"
	case reorderedCount:
		return unit + " after a later one of the same sender, worst round"
	case doubledCount:
		return unit + " for the second time, worst round"
	case wakeUps:
		return "wake-ups of the server while nobody speaks, beside its pings"
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
		channel, direct := b.value(all, baseline), b.value(all, "lwango-direct")
		if math.IsNaN(channel) && math.IsNaN(direct) {
			continue
		}
		verdict := "holds"
		switch {
		case math.IsNaN(b.most):
			verdict = "-"
		case math.IsNaN(channel):
			verdict = "not measured"
		case channel > b.most:
			verdict = "falls short"
		}
		format := ratioText
		if b.peer == "" {
			format = wholeText
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n", b.work, b.title(), format(b.most), format(channel), format(direct), verdict)
	}
	if text.Len() == 0 {
		return ""
	}
	return "### Bounds\n\n| work | figure | at most | channel (default) | direct | default |\n|---|---|---|---|---|---|\n" + text.String() + "\n"
}
