package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// A record is what a run has found, as it is kept for a later run to compare itself with.
type record struct {
	Head  string // the machine and the versions
	Cells results
}

// report is the whole result as Markdown. earlier is nil when there is nothing to compare it with.
func (env *environment) report(now record, earlier *record) string {
	text := fmt.Sprintf("## %s\n\n%s\n\nRounds: %d of %v each, medians; server on CPU %d, "+
		"client on CPU %d; load %.2f at the start.", time.Now().Format(time.DateOnly), now.Head,
		env.rounds, env.Duration, env.serverCPU, env.clientCPU, env.load)
	if env.smoke {
		text += " A smoke run: too short for its figures to mean anything."
	}
	if earlier != nil {
		text += "\n\nThe second table of each work has medians over those of an earlier run. The " +
			"rows of other servers tell how much of it is the machine. That run: " + earlier.Head
	}
	text += "\n\n"
	bounds := [][]string{{"work", "figure", "bound", "direct (default)", "channel", "default"}}
	for _, w := range env.works {
		cells, columns := now.Cells[w.Name], strings.Fields(w.kind.Columns)
		text += fmt.Sprintf("### %s: %s\n\n", w.Name, w.Title)
		text += markdown(w.rows(columns, cells, func(p, column string) string {
			return show(cells[p], cells[baseline], column)
		}), "---:")
		if earlier != nil {
			columns = slices.DeleteFunc(columns, func(column string) bool {
				return column[0] == '~' || column[0] == 'x'
			})
			text += markdown(w.rows(columns, cells, func(p, column string) string {
				then := earlier.Cells[w.Name][p].value(column)
				return number(cells[p].value(column)/then, 2)
			}), "---:")
		}
		bounds = append(bounds, w.boundRows(cells)...)
	}
	if !env.smoke && len(bounds) > 1 {
		text += "### Bounds\n\n" + markdown(bounds, "---")
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
	return text + "\n"
}

// rows has a row for each peer, and what is to be shown of each column.
func (w work) rows(
	columns []string, cells map[string]*cell, show func(peer, column string) string,
) [][]string {
	rows := [][]string{{"server"}}
	for _, column := range columns {
		title := w.kind.named(figureTable[column].Title)
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
	for _, p := range w.peers {
		row := []string{p.Name}
		for _, column := range columns {
			row = append(row, show(p.Name, column))
		}
		if c := cells[p.Name]; len(c.Errs) > 0 {
			row = append(row, "failed: "+firstLine(strings.ReplaceAll(c.Errs[0], "|", "/")))
		}
		rows = append(rows, row)
	}
	return rows
}

// show is a figure: x:FIGURE its ratio to the baseline's, ~FIGURE its spread over the rounds.
func show(c, base *cell, column string) string {
	if name, ok := strings.CutPrefix(column, "x:"); ok {
		return number(ratio(c.values(name), base.values(name)), 2)
	}
	if name, ok := strings.CutPrefix(column, "~"); ok {
		return number(100*spread(c.values(name)), 0) + "%"
	}
	return number(c.value(column), figureTable[column].Digits)
}

// boundRows is empty without lwango. The default handoff must hold; the other is for information.
func (w work) boundRows(cells map[string]*cell) (rows [][]string) {
	for _, b := range w.Bounds {
		own, rest := b.measured(baseline, cells), b.measured(other, cells)
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
		title := w.kind.named(figureTable[b.Figure].Bound)
		digits, limit := figureTable[b.Figure].Digits, "-"
		if b.Of != "" {
			title, digits = title+", lwango / "+b.Of, 2
		} else if b.Above != "" {
			title += ", lwango - " + b.Above
		}
		if b.Most != nil {
			limit = number(*b.Most, digits)
		} else if b.Least != nil {
			limit = "at least " + number(*b.Least, digits)
		}
		rows = append(rows,
			[]string{w.Name, title, limit, number(own, digits), number(rest, digits), verdict})
	}
	return rows
}

// measured is NaN where something was not measured.
func (b bound) measured(handoff string, cells map[string]*cell) float64 {
	own := cells[handoff]
	switch {
	case b.Of != "":
		return ratio(own.values(b.Figure), cells[b.Of].values(b.Figure))
	case b.Above != "":
		return difference(own.values(b.Figure), cells[b.Above].values(b.Figure))
	}
	return own.value(b.Figure)
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

// difference is the median of the rounds' differences, as ratio is of their ratios.
func difference(values, base []float64) float64 {
	var differences []float64
	for i := range min(len(values), len(base)) {
		differences = append(differences, values[i]-base[i])
	}
	return median(differences)
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
