package main

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lwango/lwango/bench/tasks"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.6: "1,234,568",
		-4321: "-4,321", -432: "-432"} {
		if got := number(v, 0); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
	if got := number(1234.567, 2); got != "1,234.57" {
		t.Errorf("number(1234.567, 2) = %q", got)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		if got := number(v, 0); got != "-" {
			t.Errorf("number(%v) = %q", v, got)
		}
	}
}

// sample has lwango at 6 µs, nginx at 8 and a net/http that failed.
func sample(t *testing.T) (*environment, record) {
	t.Helper()
	s, err := parse(t.Context(),
		[]string{"-works", "hello,idle", "-peers", "lwango-direct,nginx,nethttp"})
	if err != nil {
		t.Fatal(err)
	}
	all := record{"some CPU; nginx 1.", results{"hello": {}, "idle": {}}}
	for key, values := range map[[2]string][]float64{
		{"hello", "lwango-direct"}: {6, 6, 6}, {"hello", "nginx"}: {8, 4, 8},
		{"hello", "nethttp"}:      {10, 10, 10},
		{"idle", "lwango-direct"}: {501, 502, 503}, {"idle", "nginx"}: {525, 525, 525},
		{"idle", "nethttp"}: {},
	} {
		c := &cell{}
		for _, v := range values {
			f := figures{}
			for name := range figureTable {
				f[name] = v
			}
			c.Rounds = append(c.Rounds, f)
		}
		all.Cells[key[0]][key[1]] = c
	}
	all.Cells["idle"]["nethttp"].Errs = []string{"gone | away\nlog"}
	return s, all
}

func TestReport(t *testing.T) {
	env, all := sample(t)
	text := env.report(all, nil)
	for _, want := range []string{
		"### hello: keep-alive hello, 64 connections\n", "| nginx | 8 | 1.33 | 8.00 |",
		"| hello | CPU per request, lwango / nginx | 0.92 | 0.75 | - | holds |",
		"| hello | CPU per request, lwango / nethttp | 0.60 | 0.60 | - | holds |",
		"| idle | bytes per idle connection | 230 | 502 | - | falls short |",
		"failed: gone / away |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

// A later run says how many times as much it took, by figure and server.
func TestCompare(t *testing.T) {
	env, then := sample(t)
	kept := filepath.Join(t.TempDir(), "kept")
	check(os.WriteFile(kept, must(json.Marshal(then)), 0o600))
	later, err := parse(t.Context(), []string{"-compare", kept, "-works", "hello,pipelined"})
	if err != nil {
		t.Fatal(err)
	}
	_, now := sample(t)
	for _, f := range now.Cells["hello"]["nginx"].Rounds {
		f["cpu"] *= 2
	}
	text := env.report(now, later.earlier)
	for _, want := range []string{"That run: some CPU; nginx 1.\n", "| nginx | 1.00 | 2.00 | 1.00 |",
		"| nethttp | - |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	for _, text := range []string{"", "{", "[]"} {
		check(os.WriteFile(kept, []byte(text), 0o600))
		if _, err := parse(t.Context(), []string{"-compare", kept}); !errors.As(err, new(usageError)) {
			t.Errorf("a file with %q: %v", text, err)
		}
	}
	if _, err := parse(t.Context(), []string{"-compare", kept + "x"}); !errors.As(err,
		new(usageError)) {
		t.Errorf("no file: %v", err)
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"-works", "helo"}, {"-peers", "nginx,apache"},
		{"-works", "hello", "-peers", "nginx-nopush"}, {"-rounds", "0"}, {"-duration", "1ms"}, {"extra"},
		{"-no"}} {
		if _, err := parse(t.Context(), args); !errors.As(err, new(usageError)) {
			t.Errorf("%q: %v, want a usage error", args, err)
		}
	}
	s, err := parse(t.Context(), []string{"-smoke"})
	if err != nil || s.rounds != 1 || len(s.works) != len(works) {
		t.Errorf("-smoke: %+v, %v", s, err)
	}
	if works[4].Conns != 4000 {
		t.Error("a smoke run changed the works themselves")
	}
}

func TestVerify(t *testing.T) {
	body := func(text, contentType string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Server", "x")
			w.Header().Set("Content-Type", contentType)
			io.WriteString(w, text)
		})
	}
	closing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		body(hello, "text/plain").ServeHTTP(w, r)
	})
	rows := []struct {
		name    string
		handler http.Handler
		want    string // part of the error
	}{
		{"good", body(hello, "text/plain; charset=utf-8"), ""},
		{"other body", body("Hello, earth!", "text/plain"), "wrong body"},
		{"short body", body("Hello", "text/plain"), "Content-Length 5"},
		{"type", body(hello, "text/html"), "Content-Type"},
		{"status", http.NotFoundHandler(), "status 404"},
		{"encoded, unasked", encodedAs("br", body(hello, "text/plain")), `Content-Encoding "br"`},
		{"close", closing, "does not stay open"},
	}
	for _, row := range rows {
		for _, w := range []work{works[0], works[1]} {
			_, err := attempt(job.answerShape, job{load: w.load, Addr: startHandler(t, row.handler)})
			if row.want == "" && err != nil ||
				row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%s, %s: %v, want %q", row.name, w.Name, err, row.want)
			}
		}
	}
}

func encodedAs(encoding string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", encoding)
		h.ServeHTTP(w, r)
	})
}

// Where an encoding is asked for, the answer must have it, and be the text when it is decoded,
// whether its length is said or not.
func TestVerifyEncoded(t *testing.T) {
	good := gzipped(sourceText())
	send := func(p []byte, pieces int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			if r.Header.Get("Accept-Encoding") != "gzip" {
				http.NotFound(w, r)
				return
			}
			if pieces == 1 {
				w.Header().Set("Content-Length", strconv.Itoa(len(p)))
			}
			for piece := range slices.Chunk(p, len(p)/pieces+1) {
				w.Write(piece)
				http.NewResponseController(w).Flush()
			}
		})
	}
	j := job{load: works[slices.IndexFunc(works, func(w work) bool {
		return w.Name == "gziptext"
	})].load}
	for _, row := range []struct {
		name    string
		handler http.Handler
		want    string // part of the error
	}{
		{"with a length", encodedAs("gzip", send(good, 1)), ""},
		{"chunked", encodedAs("gzip", send(good, 3)), ""},
		{"plain", send(sourceText(), 1), `Content-Encoding ""`},
		{"another text", encodedAs("gzip", send(gzipped([]byte(hello)), 1)), "wrong body"},
		{"cut", encodedAs("gzip", send(good[:len(good)-1], 3)), "unexpected EOF"},
	} {
		j.Addr = startHandler(t, row.handler)
		its, err := attempt(job.answerShape, j)
		if row.want == "" && (err != nil || its.body != len(good) || its.size < its.body) ||
			row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %+v, %v, want %q", row.name, its, err, row.want)
		}
	}
}

func TestUnknownBuild(t *testing.T) {
	env := &environment{ctx: t.Context(), dir: t.TempDir(), files: map[string]string{},
		repo: t.TempDir()}
	if _, err := attempt(func(program string) bool { env.build(program); return true },
		lwangoCommand); err == nil || !strings.Contains(err.Error(), "building ") {
		t.Errorf("a build in an empty folder: %v", err)
	}
}

func TestBound(t *testing.T) {
	one, zero := 1.0, 0.0
	for _, row := range []struct {
		bound bound
		v     float64
		want  bool
	}{
		{bound{Most: &one}, 1, true}, {bound{Most: &one}, 1.01, false}, {bound{Most: &zero}, 0, true},
		{bound{Least: &one}, 1, true}, {bound{Least: &one}, 0.99, false}, {bound{}, 99, true},
	} {
		if got := row.bound.holds(row.v); got != row.want {
			t.Errorf("%+v, %v: %v", row.bound, row.v, got)
		}
	}
}

// A bound above a peer is a difference, of each round.
func TestBoundAbove(t *testing.T) {
	w, most := work{Name: "x", kind: kind{Unit: "request"}}, 0.6
	w.Bounds = []bound{{Figure: "cpu", Above: "nginx", Most: &most}}
	measured := func(values ...float64) *cell {
		c := &cell{}
		for _, v := range values {
			c.Rounds = append(c.Rounds, figures{"cpu": v})
		}
		return c
	}
	cells := map[string]*cell{
		baseline: measured(6.5, 9, math.NaN(), 6.6), "nginx": measured(6, 8, 6, 6),
	}
	want := "x | CPU per request, lwango - nginx | 0.60 | 0.60 | - | holds"
	if got := markdown(w.boundRows(cells), "---"); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// The bridge work measures the bridge: a server that answers its path in another way is refused.
func TestVerifyBridge(t *testing.T) {
	bridge := works[slices.IndexFunc(works, func(w work) bool { return w.Name == "bridge" })]
	for name, want := range map[string]bool{tasks.Server: true, "lwango": false} {
		addr := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Server", name)
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, hello)
		}))
		_, err := attempt(job.answerShape, job{load: bridge.load, Addr: addr})
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No work is lost, and each has what its kind needs.
func TestWorks(t *testing.T) {
	const all = "hello,pipelined,file4k,file1m,busy,fresh,idle,twoloops,steady,twosteady,twobusier,bridge,routes,json,echo,sleepers,php4,php4kept,php64,php64kept,proxy,proxykept," +
		"download,upload,uploadstream,waiting,idlews,wsecho,room,rooms,quiet,rooms2000,crowded,fillroom,idlerooms,idleevents,idlewss,deflated,goroutines,burning,revproxy,pauses," +
		"hello0x20,hello1x20,hello2x20,hello4x1,hello4x20,hello4x64,bridge0x20,bridge1x20,bridge2x20,bridge4x1,bridge4x20,bridge4x64,logins," +
		"gziptext,gzipcached,gzipfresh,accesslog,counted,rules10,httpproxy,hung,fanout,wsproxied,idlewsproxied,cached4k,cached1m,missed,hitsbeside,missesbeside,herd,frontpage,proxied1g,proxied1gtls,stream1g,cold,form,tlshello,tlsidle,handshakes," +
		"h2hello,h2tls,h2conns,h2tlsconns,h2one,h2file4k,h2file1m," +
		"h2varied,h2waiting,h2bulk,h2idle,h2tlsidle,h2ws,h2grpc,h2upload"
	var names []string
	for _, w := range works {
		names = append(names, w.Name)
	}
	if got := strings.Join(names, ","); got != all {
		t.Errorf("works %s", got)
	}
	for _, w := range works {
		if w.kind.Unit == "" || len(w.Peers) == 0 || w.Peers[0] != baseline {
			t.Errorf("%+v", w)
		}
		for _, name := range w.Peers {
			if _, err := choose(name, peers); err != nil {
				t.Errorf("%s: %v", w.Name, err)
			}
		}
	}
}

func TestMedian(t *testing.T) {
	rows := []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1, 1, 1000}, 1}, // one bad round does not show
		{[]float64{math.NaN(), 3, 1}, 2},
	}
	for _, row := range rows {
		before := append([]float64(nil), row.values...)
		if got := median(row.values); got != row.want {
			t.Errorf("median(%v) = %v, want %v", row.values, got, row.want)
		}
		for i := range before {
			if math.Float64bits(before[i]) != math.Float64bits(row.values[i]) {
				t.Errorf("median reordered %v to %v", before, row.values) // ratio pairs values by round
				break
			}
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing = %v, want NaN", got)
	}
}

func TestRatio(t *testing.T) {
	rows := []struct {
		name         string
		values, base []float64
		want         float64
	}{
		{"same in every round", []float64{2, 4, 6}, []float64{1, 2, 3}, 2},
		// The machine was three times slower in the second round: the ratio of medians would say
		// 4/2, too.
		{"disturbed round", []float64{3, 12, 4}, []float64{2, 6, 2}, 2},
		{"failed round", []float64{3, math.NaN(), 5}, []float64{1, 1, 1}, 4},
		{"base of zero", []float64{3, 5}, []float64{0, 1}, 5},
		{"fewer rounds", []float64{3}, []float64{1, 2}, 3},
	}
	for _, row := range rows {
		if got := ratio(row.values, row.base); got != row.want {
			t.Errorf("%s: ratio = %v, want %v", row.name, got, row.want)
		}
	}
	if got := ratio([]float64{1}, nil); !math.IsNaN(got) {
		t.Errorf("ratio to nothing = %v, want NaN", got)
	}
}

func TestSpread(t *testing.T) {
	if got := spread([]float64{math.NaN()}); !math.IsNaN(got) {
		t.Errorf("spread of a failed round = %v", got)
	}
	if got := spread([]float64{9, 10, 12}); math.Abs(got-0.3) > 1e-9 {
		t.Errorf("spread = %v, want 0.3", got)
	}
}
