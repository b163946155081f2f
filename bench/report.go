package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// quietLoad is how much else may run: above it the report says so, since server and client want a
// CPU each.
const quietLoad = 0.5

// report is the whole result as Markdown.
func (env *environment) report(head string, all results) string {
	var text strings.Builder
	fmt.Fprintf(&text, "## %s\n\n%s\n", time.Now().Format(time.DateOnly), head)
	fmt.Fprintf(&text, "Rounds: %d of %v each, medians; server on CPU %d, client on CPU %d.",
		env.rounds, env.duration, env.serverCPU, env.clientCPU)
	if env.smoke {
		text.WriteString(" A smoke run: too short for its figures to mean anything.")
	}
	if env.serverCPU == env.clientCPU {
		text.WriteString(" Server and client share that CPU: only CPU times compare.")
	}
	if env.load > quietLoad {
		fmt.Fprintf(&text,
			" The machine was busy at the start (load %.2f): requests/s and latencies say little.",
			env.load)
	}
	text.WriteString("\n\n")
	for _, w := range env.works {
		fmt.Fprintf(&text, "### %s: %s%s\n\n%s\n",
			w.Name, w.Title, w.less(), table(w, env.peersOf(w), all))
	}
	if !env.smoke {
		text.WriteString(boundsTable(env.works, all))
	}
	return text.String()
}

// less says so where a smoke run or the descriptor limit has taken something away.
func (w work) less() string {
	switch {
	case w.Size != w.planned.Size:
		return fmt.Sprintf(" (here %.0f MiB)", mebi(w.Size))
	case w.Conns != w.planned.Conns:
		return fmt.Sprintf(" (here %d)", w.Conns)
	}
	return ""
}

// table has a row for each peer. A column is a figure, x:FIGURE its ratio to the baseline's,
// ~FIGURE its spread over the rounds.
func table(w work, peers []peer, all results) string {
	head, line := "| server |", "|---|"
	unit := w.kind.Unit[strings.LastIndex(w.kind.Unit, " ")+1:]
	columns := strings.Fields(w.kind.Columns)
	for _, column := range columns {
		title := "spread"
		if name, ratio := strings.CutPrefix(column, "x:"); ratio {
			title = "x lwango"
			if name == "both" {
				title = "both x lwango"
			}
		} else if !strings.HasPrefix(column, "~") {
			title = named(figureTable[column].Title, unit)
		}
		head, line = head+" "+title+" |", line+"---:|"
	}
	text := head + "\n" + line + "\n"
	for _, p := range peers {
		c := all[cellKey{w.Name, p.Name}]
		text += "| " + p.Name + " |"
		for _, column := range columns {
			shown := ""
			if name, ok := strings.CutPrefix(column, "x:"); ok {
				shown = number(ratio(
					c.values(name), all[cellKey{w.Name, baseline}].values(name)), 2)
			} else if name, ok := strings.CutPrefix(column, "~"); ok {
				shown = number(100*spread(c.values(name)), 0) + "%"
			} else {
				shown = number(c.value(column), figureTable[column].Digits)
			}
			text += " " + shown + " |"
		}
		if len(c.errs) > 0 {
			text += " failed: " + firstLine(strings.ReplaceAll(c.errs[0].Error(), "|", "/")) + " |"
		}
		text += "\n"
	}
	return text
}

// boundsTable is empty without lwango. The default handoff must hold; the other is for information.
func boundsTable(works []work, all results) string {
	var text strings.Builder
	for _, w := range works {
		for _, b := range w.Bounds {
			own, rest := b.measured(w, baseline, all), b.measured(w, other, all)
			if math.IsNaN(own) && math.IsNaN(rest) {
				continue
			}
			verdict := "holds"
			switch {
			case b.Most == nil && b.Least == nil:
				verdict = "-"
			case math.IsNaN(own):
				verdict = "not measured"
			case !b.holds(own):
				verdict = "falls short"
			}
			title, digits, limit :=
				named(figureTable[b.Figure].Bound, w.kind.Unit), figureTable[b.Figure].Digits, "-"
			if b.Of != "" {
				title, digits = title+", lwango / "+b.Of, 2
			}
			if b.Most != nil {
				limit = number(*b.Most, digits)
			} else if b.Least != nil {
				limit = "at least " + number(*b.Least, digits)
			}
			fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n",
				w.Name, title, limit, number(own, digits), number(rest, digits), verdict)
		}
	}
	if text.Len() == 0 {
		return ""
	}
	return "### Bounds\n\n| work | figure | bound | direct (default) | channel | default |\n|---|---|---|---|---|---|\n" +
		text.String() + "\n"
}

// measured is NaN where something was not measured.
func (b bound) measured(w work, handoff string, all results) float64 {
	own := all[cellKey{w.Name, handoff}]
	if b.Of == "" {
		return own.value(b.Figure)
	}
	return ratio(own.values(b.Figure), all[cellKey{w.Name, b.Of}].values(b.Figure))
}

// number groups thousands, which makes long columns readable.
func number(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	whole, rest, point := strings.Cut(strconv.FormatFloat(math.Abs(v), 'f', digits, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		whole += "." + rest
	}
	if v < 0 {
		whole = "-" + whole
	}
	return whole
}

// median leaves out NaN, a round that failed. Of no values it is NaN, which the report shows as a
// dash.
func median(values []float64) float64 {
	sorted := sortedNumbers(values)
	if len(sorted) == 0 {
		return math.NaN()
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// ratio is the median of the rounds' ratios, not the ratio of medians: what disturbs the machine
// for a while disturbs both servers of a round. NaN in either list leaves its round out.
func ratio(values, base []float64) float64 {
	var ratios []float64
	for i := range min(len(values), len(base)) {
		if r := values[i] / base[i]; !math.IsInf(r, 0) {
			ratios = append(ratios, r)
		}
	}
	return median(ratios)
}

// most is the largest value.
func most(values []float64) float64 {
	if sorted := sortedNumbers(values); len(sorted) > 0 {
		return sorted[len(sorted)-1]
	}
	return math.NaN()
}

// spread is the distance between the extremes as a part of the median.
func spread(values []float64) float64 {
	if sorted := sortedNumbers(values); len(sorted) > 0 {
		return (sorted[len(sorted)-1] - sorted[0]) / median(sorted)
	}
	return math.NaN()
}

func sortedNumbers(values []float64) []float64 {
	numbers := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	slices.Sort(numbers)
	return numbers
}
