package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// column is a figure of a table; derived ones are computed from the baseline's cell too.
type column struct {
	title string
	text  func(c, base *cell) string
}

func value(title string, m metric, format func(float64) string) column {
	return column{title, func(c, _ *cell) string { return format(median(c.values[m])) }}
}

func toLwango(title string, m metric) column {
	return column{title, func(c, base *cell) string {
		if base == nil {
			return "-"
		}
		return ratioText(ratio(c.values[m], base.values[m]))
	}}
}

// worst is for what must not happen at all: a median would hide it.
func worst(title string, m metric) column {
	return column{title, func(c, _ *cell) string { return wholeText(most(c.values[m])) }}
}

var loadColumns = []column{
	value("requests/s", perSecond, wholeText),
	toLwango("x lwango", perSecond),
	value("CPU µs/request", cpuTotal, microText),
	value("user", cpuUser, microText),
	value("system", cpuSystem, microText),
	toLwango("x lwango", cpuTotal),
	{"spread", func(c, _ *cell) string { return percentText(spread(c.values[cpuTotal])) }},
	value("client's CPU µs/request", cpuClient, microText),
	toLwango("both x lwango", cpuBoth),
	value("CPUs busy", busyPart, ratioText),
	value("half load, requests/s", halfRate, wholeText),
	value("CPU µs/request there", halfCPU, microText),
	toLwango("x lwango", halfCPU),
	value("p50 µs", latency50, wholeText),
	value("p99 µs", latency99, wholeText),
	toLwango("x lwango", latency99),
	value("peak MiB", peak, oneDigitText),
	toLwango("x lwango", peak),
}

var idleColumns = []column{
	value("bytes/connection", bytesEach, wholeText),
	toLwango("x lwango", bytesEach),
	{"spread", func(c, _ *cell) string { return percentText(spread(c.values[bytesEach])) }},
	value("resident MiB", resident, oneDigitText),
	value("CPU µs/connection", cpuEach, microText),
	toLwango("x lwango", cpuEach),
}

var echoColumns = []column{
	value("messages/s", perSecond, wholeText),
	toLwango("x lwango", perSecond),
	value("CPU µs/message", cpuTotal, microText),
	value("user", cpuUser, microText),
	value("system", cpuSystem, microText),
	toLwango("x lwango", cpuTotal),
	{"spread", func(c, _ *cell) string { return percentText(spread(c.values[cpuTotal])) }},
	value("client's CPU µs/message", cpuClient, microText),
	toLwango("both x lwango", cpuBoth),
	value("CPUs busy", busyPart, ratioText),
	value("peak MiB", peak, oneDigitText),
	toLwango("x lwango", peak),
}

var sleeperColumns = []column{
	value("bytes/handler", bytesEach, wholeText),
	toLwango("x lwango", bytesEach),
	{"spread", func(c, _ *cell) string { return percentText(spread(c.values[bytesEach])) }},
	value("resident MiB", resident, oneDigitText),
	value("woke late by µs, p50", late50, wholeText),
	value("p99", late99, wholeText),
	value("at most", lateMost, wholeText),
	value("CPU µs/handler", cpuEach, microText),
	toLwango("x lwango", cpuEach),
}

var transferColumns = []column{
	value("MiB/s", mebiPerSecond, wholeText),
	toLwango("x lwango", mebiPerSecond),
	{"spread", func(c, _ *cell) string { return percentText(spread(c.values[mebiPerSecond])) }},
	value("memory grows by MiB", growth, oneDigitText),
	value("CPU µs/MiB", cpuTotal, wholeText),
	toLwango("x lwango", cpuTotal),
}

var waitingColumns = []column{
	value("bytes/request", bytesEach, wholeText),
	toLwango("x lwango", bytesEach),
	{"spread", func(c, _ *cell) string { return percentText(spread(c.values[bytesEach])) }},
	value("resident MiB", resident, oneDigitText),
	value("other route alone, p50 µs", alone50, wholeText),
	value("p99", alone99, wholeText),
	value("beside them, p50 µs", beside50, wholeText),
	value("p99", beside99, wholeText),
}

var burstColumns = []column{
	value("of 6 fail", failedEach, ratioText),
	value("last answer after ms", burstMilli, oneDigitText),
}

var chatColumns = []column{
	value("deliveries/s", perSecond, wholeText),
	value("CPU µs/delivery", cpuTotal, microText),
	value("user", cpuUser, microText),
	value("system", cpuSystem, microText),
	toLwango("x lwango", cpuTotal),
	{"spread", func(c, _ *cell) string { return percentText(spread(c.values[cpuTotal])) }},
	value("p50 µs", latency50, wholeText),
	toLwango("x lwango", latency50),
	value("p99 µs", latency99, wholeText),
	toLwango("x lwango", latency99),
	worst("lost", lostCount),
	worst("reordered", reorderedCount),
	worst("doubled", doubledCount),
	value("wake-ups in silence", wakeUps, wholeText),
	value("pings", pingCount, wholeText),
	value("client's CPU µs/delivery", cpuClient, microText),
	value("peak MiB", peak, oneDigitText),
}

var besideColumns = []column{
	value("probes/s", perSecond, wholeText),
	value("p50 µs", latency50, wholeText),
	toLwango("x lwango", latency50),
	value("p90 µs", latency90, wholeText),
	toLwango("x lwango", latency90),
	value("p99 µs", latency99, wholeText),
	value("at most", lateMost, wholeText),
	value("CPUs busy", busyPart, ratioText),
}

// columnsOf are the figures that a kind of work has.
func columnsOf(k kind) []column {
	switch k {
	case idle:
		return idleColumns
	case echo:
		return echoColumns
	case sleepers:
		return sleeperColumns
	case bulk:
		return transferColumns
	case waiting:
		return waitingColumns
	case burst:
		return burstColumns
	case wsIdle:
		return idleColumns
	case wsEcho:
		return echoColumns
	case chat, brokered:
		return chatColumns
	case beside:
		return besideColumns
	}
	return loadColumns
}

// report is the whole result as Markdown.
func report(m machine, s settings, all results) string {
	var text strings.Builder
	fmt.Fprintf(&text, "## %s\n\n", m.date.Format(time.DateOnly))
	fmt.Fprintf(&text, "%s, %d CPUs, Linux %s; %s.\n", m.cpu, m.cpus, m.kernel, strings.Join(m.versions, ", "))
	fmt.Fprintf(&text, "%s of %v each, medians; server on CPU %d, client on CPU %d.%s\n\n",
		plural(s.rounds, "round"), s.duration, s.serverCPU, s.clientCPU, caveat(m, s))
	for _, w := range s.works {
		fmt.Fprintf(&text, "### %s: %s\n\n", w.name, titleOf(w))
		text.WriteString(table(w, columnsOf(w.kind), s.peersOf(w), all))
		text.WriteString("\n")
	}
	if !s.smoke {
		text.WriteString(boundsTable(all))
	}
	return text.String()
}

func caveat(m machine, s settings) string {
	var text string
	if s.smoke {
		text += " A smoke run: too short for its figures to mean anything."
	}
	if s.serverCPU == s.clientCPU {
		text += " Server and client share that CPU: only CPU times compare."
	}
	if m.load > quietLoad {
		text += fmt.Sprintf(" The machine was busy at the start (load %.2f): requests/s and latencies say little.", m.load)
	}
	return text
}

// titleOf says so where a smoke run or the descriptor limit has taken connections away.
func titleOf(w work) string {
	for _, full := range works {
		if full.name != w.name {
			continue
		}
		if full.size != w.size {
			return fmt.Sprintf("%s (here %.0f MiB)", w.title, mebi(w.size))
		}
		if full.conns != w.conns {
			return fmt.Sprintf("%s (here %d)", w.title, w.conns)
		}
	}
	return w.title
}

func table(w work, columns []column, peers []peer, all results) string {
	var text strings.Builder
	text.WriteString("| server |")
	for _, col := range columns {
		text.WriteString(" " + col.title + " |")
	}
	text.WriteString("\n|---|" + strings.Repeat("---:|", len(columns)) + "\n")
	base := all[cellKey{w.name, baseline}]
	for _, p := range peers {
		c := all[cellKey{w.name, p.name}]
		text.WriteString(rowStart(p))
		for _, col := range columns {
			text.WriteString(" " + col.text(c, base) + " |")
		}
		if len(c.errs) > 0 {
			fmt.Fprintf(&text, " failed: %s |", firstLine(strings.ReplaceAll(c.errs[0].Error(), "|", "/")))
		}
		text.WriteString("\n")
	}
	return text.String()
}

func rowStart(p peer) string { return "| " + p.name + " |" }

// missingRows lists what was to be measured and has no row of figures.
func missingRows(text string, s settings) []string {
	var missing []string
	for _, w := range s.works {
		_, section, found := strings.Cut(text, "### "+w.name+":")
		section, _, _ = strings.Cut(section, "\n### ")
		for _, p := range s.peersOf(w) {
			_, row, ok := strings.Cut(section, "\n"+rowStart(p))
			row, _, _ = strings.Cut(row, "\n")
			if first, _, _ := strings.Cut(strings.TrimSpace(row), " "); !found || !ok || first == "-" || first == "" {
				missing = append(missing, w.name+"/"+p.name)
			}
		}
	}
	return missing
}

func number(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

func ratioText(v float64) string    { return number(v, 2) }
func microText(v float64) string    { return number(v, 2) }
func oneDigitText(v float64) string { return number(v, 1) }

func percentText(v float64) string {
	if text := number(100*v, 0); text != "-" {
		return text + "%"
	}
	return "-"
}

// wholeText groups thousands, which makes long columns readable.
func wholeText(v float64) string {
	text := number(v, 0)
	digits := strings.TrimPrefix(text, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if text != "-" && strings.HasPrefix(text, "-") {
		return "-" + digits
	}
	if text == "-" {
		return text
	}
	return digits
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
