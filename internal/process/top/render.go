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

// screen collects the lines for one look at a server.
type screen struct {
	now, ago *metrics.Snapshot // ago is a minute ago; if there is none, an empty one
	known    bool              // there is one, so there are rates
	seconds  float64           // since then
	columns  int               // of the terminal; 0: as many as there are
	rows     int               // of it; 0: as many as there are
	lines    []line
}

// line is a line of text, and how a terminal shows it.
type line struct {
	text  string
	style style
}

type style string // an escape sequence

const (
	plain   style = ""
	heading style = "\x1b[1m"
	alarm   style = "\x1b[31m"
)

// render makes the lines for a server. Rates and counts are those of the last minute, as it tells
// them; before it has anything to compare with, they are "-", since averages over the whole life of
// a server are no rates.
func render(now *metrics.Snapshot, columns, rows int) []line {
	s := &screen{now: now, ago: now.MinuteAgo, columns: columns, rows: rows}
	if s.ago == nil {
		s.ago = new(metrics.Snapshot)
	} else {
		s.seconds = now.Uptime - s.ago.Uptime
		s.known = s.seconds > 0
	}
	s.figures()
	s.routes()
	s.upstreams()
	s.cache()
	s.streams()
	s.handlers()
	s.server()
	s.loops()
	s.stalls()
	return s.lines
}

// add adds a line, which is cut if the terminal has no room for it.
func (s *screen) add(st style, format string, args ...any) {
	text := clean(fmt.Sprintf(format, args...))
	if r := []rune(text); s.columns > 0 && len(r) > s.columns {
		text = string(r[:s.columns-1]) + "…"
	}
	s.lines = append(s.lines, line{text, st})
}

// list adds the parts of a sentence in as many lines as they need.
func (s *screen) list(head string, parts []string) {
	text, indent := head, strings.Repeat(" ", len(head))
	for i, p := range parts {
		if i < len(parts)-1 {
			p += ","
		}
		if s.columns > 0 && len(text)+1+len(p) > s.columns && text != indent {
			s.add(plain, "%s", text)
			text = indent
		}
		text += " " + p
	}
	s.add(plain, "%s", text)
}

// rate is how many a second there were.
func (s *screen) rate(now, ago int64, text func(float64) string) string {
	if !s.known {
		return "-"
	}
	return text(float64(max(now-ago, 0)) / s.seconds)
}

// count is how many there were.
func (s *screen) count(now, ago int64) string {
	if !s.known {
		return "-"
	}
	return whole(float64(max(now-ago, 0)))
}

// column is one of a table. The last one of a table is on the left side of its room.
type column struct {
	head string
	rank int // where there is no room for all columns, those of the highest rank are left out
}

// table adds one of at most the given number of rows. bad says which rows are shown as alarms.
func (s *screen) table(columns []column, rows [][]string, most int, bad func(i int) bool) {
	if len(rows) == 0 {
		return
	}
	last := len(columns) - 1
	width := make([]int, len(columns))
	for i, c := range columns {
		width[i] = len([]rune(c.head))
		for _, r := range rows {
			width[i] = max(width[i], len([]rune(r[i])))
		}
	}
	shown := make([]bool, len(columns))
	for i := range shown {
		shown[i] = true
	}
	for s.columns > 0 {
		all, worst := min(width[last], 24), 0
		for i := range last {
			if shown[i] {
				all += width[i] + 2
				if columns[i].rank > columns[worst].rank || !shown[worst] {
					worst = i
				}
			}
		}
		if all <= s.columns || columns[worst].rank == 0 {
			break
		}
		shown[worst] = false
	}
	row := func(st style, cells func(i int) string) {
		text := ""
		for i := range last {
			if shown[i] {
				text += fmt.Sprintf("%*s  ", width[i], cells(i))
			}
		}
		s.add(st, "%s%s", text, cells(last))
	}
	s.add(plain, "")
	row(heading, func(i int) string { return columns[i].head })
	for j, r := range rows {
		if s.rows > 0 && j >= most {
			s.add(plain, "and %d more", len(rows)-j)
			break
		}
		st := plain
		if bad != nil && bad(j) {
			st = alarm
		}
		row(st, func(i int) string { return r[i] })
	}
}

// figures are the warnings and the four figures with their last five minutes.
func (s *screen) figures() {
	now, ago := s.now, s.ago
	span := "no rates yet"
	switch {
	case s.seconds > 55:
		span = "rates of the last minute"
	case s.known:
		span = fmt.Sprintf("rates of the last %.0f s", s.seconds)
	}
	s.add(heading, "lwango %s", now.Version)
	s.list(fmt.Sprintf("process %d,", now.PID), []string{"up " + fmt.Sprint(
		time.Duration(now.Uptime*float64(time.Second)).Round(time.Second)), span})
	for i, w := range now.Warnings {
		if s.rows > 0 && i == 5 && len(now.Warnings) > 6 {
			s.add(alarm, "! And %d more.", len(now.Warnings)-i)
			break
		}
		s.add(alarm, "! %s", w)
	}
	s.add(plain, "")
	recent := now.Recent
	if recent == nil {
		recent = new(metrics.Recent)
	}
	q := &now.Requests
	p99 := "-"
	if t := s.quantile(now.Times(), ago.Times(), .99); t != "" && s.known {
		p99 = t
	}
	for _, f := range []struct {
		name, value string
		points      []float64
		text        func(float64) string
	}{
		{"requests/s", s.rate(q.Total, ago.Requests.Total, short), recent.Requests, short},
		{"errors/s", s.rate(q.Errors, ago.Requests.Errors, short), recent.Errors, short},
		{"99 % within", p99, recent.P99, seconds},
		{"connections", whole(float64(now.Connections.Open)), recent.Connections, whole},
	} {
		chart, highest := s.chart(f.points)
		text := fmt.Sprintf("%-11s %9s", f.name, f.value)
		if chart != "" {
			text += "  " + chart
			if s.columns == 0 || s.columns >= 100 {
				text += "  highest " + f.text(highest)
			}
		}
		s.add(plain, "%s", text)
	}
}

var bars = []rune("▁▂▃▄▅▆▇█")

// chart draws points, and returns the highest. Where there is no room, each bar is for several
// points, and as high as the highest of them.
func (s *screen) chart(points []float64) (text string, highest float64) {
	const beside = 23 // columns
	if len(points) == 0 {
		return "", 0
	}
	if n := metrics.HistorySamples - len(points); n > 0 { // the present is at the right end
		points = append(slices.Repeat([]float64{metrics.Unknown}, n), points...)
	}
	each := 1
	if s.columns > 0 && s.columns < beside+len(points) {
		each = (len(points)-1)/max(s.columns-beside, 1) + 1
	}
	for _, p := range points {
		highest = max(highest, p)
	}
	for part := range slices.Chunk(points, each) {
		most := slices.Max(part)
		switch {
		case most < 0:
			text += " "
		case most == 0 || highest == 0:
			text += string(bars[0])
		default:
			text += string(bars[1+int(most/highest*6)])
		}
	}
	return text, highest
}

// quantile is the time within which the share of the handlers ended that have since ago; "": none
// has ended.
func (s *screen) quantile(now, ago []int64, share float64) string {
	times := slices.Clone(now)
	for i := range min(len(ago), len(times)) {
		times[i] -= ago[i]
	}
	q, more := metrics.Quantile(times, share)
	switch {
	case q == metrics.Unknown:
		return ""
	case more:
		return "> " + seconds(q)
	}
	return seconds(q)
}

// routes shows those with errors first, then the busiest.
func (s *screen) routes() {
	if !s.known {
		return
	}
	var busy []metrics.Route
	for _, r := range s.now.Routes {
		var b metrics.Route
		for _, o := range s.ago.Routes {
			if o.Site == r.Site && o.Route == r.Route {
				b = o
			}
		}
		for i := range r.Status {
			r.Status[i] -= b.Status[i]
		}
		r.Codes = maps.Clone(r.Codes)
		for code := range r.Codes {
			r.Codes[code] -= b.Codes[code]
		}
		r.Times = slices.Clone(r.Times)
		for i := range min(len(b.Times), len(r.Times)) {
			r.Times[i] -= b.Times[i]
		}
		r.Spent -= b.Spent
		r.Sent -= b.Sent
		if r.Requests() > 0 {
			busy = append(busy, r)
		}
	}
	slices.SortStableFunc(busy, func(a, b metrics.Route) int {
		return cmp.Or(cmp.Compare(b.Status[5], a.Status[5]), cmp.Compare(b.Requests(), a.Requests()))
	})
	var rows [][]string
	for i := range busy {
		r := &busy[i]
		mean := ""
		if n := r.Calls(); n > 0 {
			mean = seconds(r.Spent / float64(n))
		}
		name := place(r.Site, r.Route)
		var codes []string
		for _, code := range slices.Sorted(maps.Keys(r.Codes)) {
			if n := r.Codes[code]; n > 0 && strings.HasPrefix(code, "5") {
				codes = append(codes, fmt.Sprintf("%s: %d", code, n))
			}
		}
		if len(codes) > 0 {
			name += " (" + strings.Join(codes, ", ") + ")"
		}
		rows = append(rows, []string{s.rate(r.Requests(), 0, short), whole(float64(r.Status[5])),
			whole(float64(r.Status[4])), whole(float64(r.Status[0])), mean, s.quantile(r.Times, nil, .99),
			s.rate(r.Sent, 0, size), name})
	}
	s.table([]column{{"REQ/S", 0}, {"5XX", 0}, {"4XX", 2}, {"LEFT", 3}, {"MEAN", 4}, {"99 %", 1},
		{"SENT/S", 5}, {"ROUTE", 0}}, rows, max(s.rows/3, 5),
		func(i int) bool { return busy[i].Status[5] > 0 })
}

// upstreams shows each once, however many routes use it, unless they find it in different states.
func (s *screen) upstreams() {
	type id struct{ address, state string }
	used := map[id]int{}
	var all []metrics.Upstream
	for i := range s.now.Upstreams {
		u := &s.now.Upstreams[i]
		at := id{u.Address, u.Shown()}
		if used[at]++; used[at] == 1 {
			all = append(all, *u)
		}
	}
	order := []string{"failed", "disabled", "drained", "up"}
	slices.SortStableFunc(all, func(a, b metrics.Upstream) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Shown()), slices.Index(order, b.Shown())),
			cmp.Compare(a.Address, b.Address))
	})
	var rows [][]string
	for i := range all {
		u := &all[i]
		var b metrics.Upstream
		for _, o := range s.ago.Upstreams {
			if o.Address == u.Address {
				b = o
				break
			}
		}
		failed := func(u *metrics.Upstream) int64 {
			return u.Failures.Connect + u.Failures.Silent + u.Failures.Status
		}
		name := u.Address + " of " + place(u.Site, u.Route)
		if n := used[id{u.Address, u.Shown()}] - 1; n > 0 {
			name += fmt.Sprintf(" and %d more", n)
		}
		rows = append(rows, []string{u.Shown(), s.rate(u.Requests, b.Requests, short),
			s.count(failed(u), failed(&b)), s.quantile(u.Times, b.Times, .99), strconv.Itoa(u.Active),
			strconv.Itoa(u.Idle), strconv.Itoa(u.Waiting), name})
	}
	s.table([]column{{"STATE", 0}, {"REQ/S", 0}, {"FAILED", 1}, {"99 %", 4}, {"ACTIVE", 2},
		{"IDLE", 5}, {"WAITING", 3}, {"UPSTREAM", 0}}, rows, max(s.rows/4, 4),
		func(i int) bool { return all[i].Shown() == "failed" })
}

// cache shows the store, and what it has answered for each route.
func (s *screen) cache() {
	c, ago := s.now.Cache, cmp.Or(s.ago.Cache, new(metrics.Cache))
	if c == nil {
		return
	}
	s.add(plain, "")
	parts := []string{fmt.Sprintf("%d in memory (%s)", c.MemoryObjects, size(float64(c.MemoryBytes))),
		fmt.Sprintf("%d on disk (%s)", c.DiskObjects, size(float64(c.DiskBytes))),
		fmt.Sprintf("%d filling", c.Filling), s.rate(int64(c.Fills), int64(ago.Fills), short) + "/s kept"}
	for _, n := range []struct {
		what     string
		now, ago uint64
	}{{"not kept", c.Dropped, ago.Dropped}, {"evicted", c.Evicted, ago.Evicted},
		{"purged", c.Purged, ago.Purged}, {"damaged", c.Damaged, ago.Damaged},
		{"failed", c.Failed, ago.Failed}} {
		if n.now > n.ago && s.known {
			parts = append(parts, fmt.Sprintf("%d %s", n.now-n.ago, n.what))
		}
	}
	s.list("cache      ", parts)
	for i := range s.now.Routes {
		r := &s.now.Routes[i]
		var before map[string]int64
		for _, o := range s.ago.Routes {
			if o.Site == r.Site && o.Route == r.Route {
				before = o.Cache
			}
		}
		parts := []string{}
		for _, use := range slices.Sorted(maps.Keys(r.Cache)) {
			if n := r.Cache[use] - before[use]; n > 0 && s.known {
				parts = append(parts, fmt.Sprintf("%d %s", n, use))
			}
		}
		if len(parts) > 0 {
			s.add(plain, "            %s: %s", place(r.Site, r.Route), strings.Join(parts, ", "))
		}
	}
}

func (s *screen) streams() {
	var rows [][]string
	for _, st := range s.now.Streams {
		var b metrics.Stream
		for _, o := range s.ago.Streams {
			if o.Address == st.Address {
				b = o
			}
		}
		rows = append(rows, []string{strconv.FormatInt(st.Open, 10),
			s.rate(st.Accepted, b.Accepted, short), s.count(st.Refused, b.Refused),
			s.count(st.Failed, b.Failed), s.rate(st.Got, b.Got, size), s.rate(st.Sent, b.Sent, size),
			st.Address})
	}
	s.table([]column{{"OPEN", 0}, {"ACCEPTED/S", 1}, {"REFUSED", 3}, {"FAILED", 2}, {"RECEIVED/S", 4},
		{"SENT/S", 5}, {"STREAM", 0}}, rows, 5, nil)
}

// handlers shows what handlers count of themselves.
func (s *screen) handlers() {
	s.now.ByKind(func(all []*metrics.Counted) {
		var columns []column
		for i, n := range all[0].Counts {
			columns = append(columns, column{strings.ToUpper(n.Name), i})
		}
		var rows [][]string
		for _, c := range all {
			var row []string
			var b metrics.Counted
			for _, o := range s.ago.Handlers {
				if o.Kind == c.Kind && o.Site == c.Site && o.Route == c.Route && o.Of == c.Of {
					b = o
				}
			}
			for i := range all[0].Counts {
				n := c.Value(all[0].Counts[i].Name)
				if all[0].Counts[i].Gauge {
					row = append(row, whole(float64(n)))
				} else {
					row = append(row, s.count(n, b.Value(all[0].Counts[i].Name)))
				}
			}
			rows = append(rows, append(row, strings.TrimSpace(place(c.Site, c.Route)+" "+c.Of)))
		}
		s.table(append(columns, column{strings.ToUpper(all[0].Kind), 0}), rows, 5, nil)
	})
}

// server shows the parts of the connections, and the process.
func (s *screen) server() {
	c, q, b := &s.now.Connections, &s.now.Requests, s.ago
	s.add(plain, "")
	parts := []string{fmt.Sprintf("%d idle", c.Idle), fmt.Sprintf("%d busy", c.Busy)}
	some := func(n int64, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	some(c.Hijacked, "hijacked")
	some(c.Lingering, "lingering")
	some(c.Refusing, "refusing")
	some(c.HTTP2, "of HTTP/2")
	some(c.Streams, "streams")
	parts = append(parts, s.rate(c.Accepted, b.Connections.Accepted, short)+"/s accepted")
	s.list("connections", parts)
	parts = []string{s.rate(q.Sent, b.Requests.Sent, size) + "/s sent",
		s.rate(q.Got, b.Requests.Got, size) + "/s received"}
	if s.known {
		some(c.Resets-b.Connections.Resets, "resets")
		some(c.FailedHandshakes-b.Connections.FailedHandshakes, "failed handshakes")
		some(q.Panics-b.Requests.Panics, "panics")
		for _, kind := range slices.Sorted(maps.Keys(s.now.Refusals)) {
			some(s.now.Refusals[kind]-b.Refusals[kind], "refused by "+kind)
		}
	}
	some(int64(s.now.Handshakes.Waiting), "handshakes wait")
	some(int64(s.now.Passwords.Waiting), "passwords wait")
	s.list("traffic    ", append(parts, fmt.Sprintf("requests running: %d", q.Running)))
	p := &s.now.Process
	cpu := "-"
	if s.known {
		cpu = whole(100*max(p.CPU-b.Process.CPU, 0)/s.seconds) + " %"
	}
	parts = []string{cpu + " of a CPU", size(float64(p.Resident)) + " memory",
		size(float64(s.now.HeapBytes)) + " of it heap",
		fmt.Sprintf("%d of %d files open", p.OpenFiles, p.MaxFiles)}
	if n := s.now.SpoolBytes; n > 0 {
		parts = append(parts, size(float64(n))+" spool")
	}
	parts = append(parts, fmt.Sprintf("%d goroutines", s.now.Goroutines))
	if t := &s.now.Topics; t.Count > 0 {
		parts = append(parts, fmt.Sprintf("%d topics with %d subscriptions", t.Count, t.Subscribers))
	}
	if s.known {
		some(s.now.Logs.Access-b.Logs.Access, "lost lines of access logs")
		some(s.now.Logs.Error-b.Logs.Error, "lost lines of the log")
	}
	s.list("process    ", parts)
	r := &s.now.Reload
	parts = []string{"read " + r.Configured.Local().Format(time.DateTime)}
	if r.Error != "" {
		parts = append(parts, "reload refused "+r.Last.Local().Format(time.DateTime))
	}
	s.list("config     ", parts)
	for _, d := range s.now.Draining {
		s.add(plain, "replaced    process %d: %d connections, until %s at most", d.PID, d.Connections,
			d.Until.Local().Format(time.DateTime))
	}
}

func (s *screen) loops() {
	var rows [][]string
	for i, l := range s.now.Loops {
		var b metrics.Loop
		if i < len(s.ago.Loops) {
			b = s.ago.Loops[i]
		}
		id, stalls := strconv.Itoa(l.Loop), s.count(l.Stalls, b.Stalls)
		if !l.Answered {
			rows = append(rows, []string{"-", "-", "-", "-", "-", "-", "-", stalls,
				id + " held up by a handler"})
			continue
		}
		busy, wakeups, resumes := "-", "-", "-"
		if age := l.Age - b.Age; s.known && b.Answered && age > 0 {
			busy = whole(100*min(max((l.Busy-b.Busy)/age, 0), 1)) + " %"
			wakeups = s.rate(l.Wakeup, b.Wakeup, short)
			resumes = s.rate(l.Resume, b.Resume, short)
		}
		rows = append(rows, []string{busy, wakeups, resumes, strconv.Itoa(l.Threads),
			strconv.Itoa(l.Coroutines), strconv.Itoa(l.Timers), strconv.Itoa(l.Workers), stalls, id})
	}
	s.table([]column{{"BUSY", 0}, {"WAKE-UPS/S", 3}, {"RESUMES/S", 2}, {"THREADS", 4}, {"COROS", 5},
		{"TIMERS", 7}, {"WORKERS", 6}, {"STALLS", 1}, {"LOOP", 0}}, rows, len(rows),
		func(i int) bool { return !s.now.Loops[i].Answered })
}

func (s *screen) stalls() {
	var rows [][]string
	for _, st := range slices.Backward(s.now.Stalls) {
		rows = append(rows, []string{st.Since.Local().Format(time.TimeOnly), strconv.Itoa(st.Loop),
			seconds(st.Held), st.Place})
	}
	s.table([]column{{"STALL", 0}, {"LOOP", 1}, {"HELD", 0}, {"PLACE", 0}}, rows, len(rows), nil)
}

// place names a route. What no site or no route answers has empty names.
func place(site, route string) string {
	return cmp.Or(site, "(no site)") + " " + cmp.Or(route, "(no route)")
}

// whole is a number with commas.
func whole(n float64) string {
	text := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// short is a rate: small ones have decimals.
func short(n float64) string {
	switch {
	case n == 0 || n >= 9.95:
		return whole(n)
	case n >= 0.095:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

// scaled is n in the largest unit of which it has one; each is base times the one before.
func scaled(n, base float64, units ...string) string {
	i := 0
	for ; n >= base*0.9995 && i < len(units)-1; i++ {
		n /= base
	}
	if i > 0 && n < 9.95 {
		return strconv.FormatFloat(n, 'f', 1, 64) + " " + units[i]
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + " " + units[i]
}

// seconds is a time with a unit, size a number of bytes with one.
func seconds(n float64) string { return scaled(n*1e6, 1000, "µs", "ms", "s") }

func size(n float64) string { return scaled(n, 1024, "B", "KiB", "MiB", "GiB", "TiB") }
