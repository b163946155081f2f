package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// quietLoad is how much else may run: above it the report says so, since server and client want a
// CPU each.
const quietLoad = 0.5

// report is the whole result as Markdown.
func (env *environment) report(head string, all results) string {
	text := fmt.Sprintf("## %s\n\n%s\n\nRounds: %d of %v each, medians; server on CPU %d, client on CPU %d.",
		time.Now().Format(time.DateOnly), head, env.rounds, env.duration, env.serverCPU, env.clientCPU)
	if env.smoke {
		text += " A smoke run: too short for its figures to mean anything."
	}
	if env.serverCPU == env.clientCPU {
		text += " Server and client share that CPU: only CPU times compare."
	}
	if env.load > quietLoad {
		text += fmt.Sprintf(" The machine was busy at the start (load %.2f): requests/s and latencies say little.", env.load)
	}
	text += "\n\n"
	bounds := [][]string{{"work", "figure", "bound", "direct (default)", "channel", "default"}}
	for _, w := range env.works {
		text += fmt.Sprintf("### %s: %s\n\n%s\n", w.Name, w.Title,
			markdown(w.rows(env.peersOf(w), all), "---:"))
		bounds = append(bounds, w.boundRows(all)...)
	}
	if !env.smoke && len(bounds) > 1 {
		text += "### Bounds\n\n" + markdown(bounds, "---") + "\n"
	}
	return text
}

// markdown is a table whose first row is its head.
func markdown(rows [][]string, align string) (text string) {
	for i, row := range rows {
		text += "| " + strings.Join(row, " | ") + " |\n"
		if i == 0 {
			text += "|---|" + strings.Repeat(align+"|", len(row)-1) + "\n"
		}
	}
	return text
}

// rows has a row for each peer. A column is a figure, x:FIGURE its ratio to the baseline's, ~FIGURE
// its spread over the rounds.
func (w work) rows(peers []peer, all results) [][]string {
	rows := [][]string{{"server"}}
	columns := strings.Fields(w.kind.Columns)
	for _, column := range columns {
		title := w.kind.named(figureTable[column].Title, w.kind.Unit)
		switch {
		case column == "x:both":
			title = "both x lwango"
		case column[0] == 'x':
			title = "x lwango"
		case column[0] == '~':
			title = "spread"
		}
		rows[0] = append(rows[0], title)
	}
	for _, p := range peers {
		c, row := all[cellKey{w.Name, p.Name}], []string{p.Name}
		for _, column := range columns {
			text := number(c.value(column), figureTable[column].Digits)
			if name, ok := strings.CutPrefix(column, "x:"); ok {
				text = number(ratio(c.values(name), all[cellKey{w.Name, baseline}].values(name)), 2)
			} else if name, ok := strings.CutPrefix(column, "~"); ok {
				text = number(100*spread(c.values(name)), 0) + "%"
			}
			row = append(row, text)
		}
		if len(c.errs) > 0 {
			row = append(row, "failed: "+firstLine(strings.ReplaceAll(c.errs[0].Error(), "|", "/")))
		}
		rows = append(rows, row)
	}
	return rows
}

// boundRows is empty without lwango. The default handoff must hold; the other is for information.
func (w work) boundRows(all results) (rows [][]string) {
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
		title, digits, limit := w.kind.named(figureTable[b.Figure].Bound, cmp.Or(w.kind.Long, w.kind.Unit)), figureTable[b.Figure].Digits, "-"
		if b.Of != "" {
			title, digits = title+", lwango / "+b.Of, 2
		}
		if b.Most != nil {
			limit = number(*b.Most, digits)
		} else if b.Least != nil {
			limit = "at least " + number(*b.Least, digits)
		}
		rows = append(rows, []string{w.Name, title, limit, number(own, digits), number(rest, digits), verdict})
	}
	return rows
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
	return message.NewPrinter(language.English).Sprintf("%.*f", digits, v)
}

// median leaves out NaN, a round that failed. Of no values it is NaN, which the report shows as a
// dash.
func median(values []float64) float64 {
	sorted := sortedNumbers(values)
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
	sorted := sortedNumbers(values)
	return sorted[len(sorted)-1]
}

// spread is the distance between the extremes as a part of the median.
func spread(values []float64) float64 {
	sorted := sortedNumbers(values)
	return (sorted[len(sorted)-1] - sorted[0]) / median(sorted)
}

// sortedNumbers has NaN only where there is nothing else.
func sortedNumbers(values []float64) []float64 {
	numbers := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(numbers) == 0 {
		return []float64{math.NaN()}
	}
	slices.Sort(numbers)
	return numbers
}
