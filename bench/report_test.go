package main

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
)

func TestParseWrk(t *testing.T) {
	const out = "Running 1s test @ http://127.0.0.1:1/\nRequests/sec: 3\n\nbench {\"requests\":123,\"microseconds\":500000,\"bytes\":9,\"connect\":0,\"read\":1,\"write\":0,\"status\":0,\"timeout\":4}\n"
	report, err := parseWrk([]byte(out))
	if err != nil || report.Requests != 123 || report.perSecond() != 246 || report.Timeout != 4 {
		t.Errorf("%+v, %v", report, err)
	}
	if report.check() == nil {
		t.Error("a read error passed")
	}
	if report.Read = 0; report.check() != nil {
		t.Errorf("late answers: %v", report.check())
	}
	if _, err := parseWrk([]byte("unable to connect\n")); err == nil {
		t.Error("output without counters passed")
	}
}

func TestWholeText(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.6: "1,234,568", -4321: "-4,321", -432: "-432"} {
		if got := wholeText(v); got != want {
			t.Errorf("wholeText(%v) = %q, want %q", v, got, want)
		}
	}
	if got := wholeText(math.NaN()); got != "-" {
		t.Errorf("wholeText(NaN) = %q", got)
	}
}

// sample has lwango at 6 µs, nginx at 8 and a net/http that failed.
func sample(t *testing.T) (settings, results) {
	t.Helper()
	s, err := parseSettings([]string{"-works", "hello,idle", "-peers", "lwango-direct,nginx,nethttp"})
	if err != nil {
		t.Fatal(err)
	}
	all := results{}
	for _, w := range s.works {
		for _, p := range s.peers {
			all[cellKey{w.name, p.name}] = newCell(s.rounds)
		}
	}
	for m := range metrics {
		all[cellKey{"hello", "lwango-direct"}].values[m] = []float64{6, 6, 6}
		all[cellKey{"hello", "nginx"}].values[m] = []float64{8, 4, 8}
		all[cellKey{"hello", "nethttp"}].values[m] = []float64{10, 10, 10}
		all[cellKey{"idle", "lwango-direct"}].values[m] = []float64{501, 502, 503}
		all[cellKey{"idle", "nginx"}].values[m] = []float64{525, 525, 525}
	}
	all[cellKey{"idle", "nethttp"}].errs = []error{errors.New("gone | away\nlog")}
	return s, all
}

func TestReport(t *testing.T) {
	s, all := sample(t)
	text := report(machine{cpu: "some CPU", versions: []string{"nginx 1"}}, s, all)
	for _, want := range []string{
		"### hello: keep-alive hello, 64 connections\n", "| nginx | 8 | 1.33 | 8.00 |",
		"| hello | CPU per request, lwango / nginx | 1.00 | 0.75 | - | holds |",
		"| hello | CPU per request, lwango / nethttp | 0.60 | 0.60 | - | holds |",
		"| idle | bytes per idle connection | 500 | 502 | - | falls short |",
		"failed: gone / away |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if got := missingRows(text, s); len(got) != 1 || got[0] != "idle/nethttp" {
		t.Errorf("missing rows %v, want the failed one", got)
	}
	if err := all.failures(); err == nil || !strings.Contains(err.Error(), "idle, nethttp: gone") {
		t.Errorf("failures: %v", err)
	}
}

func TestParseSettings(t *testing.T) {
	for _, args := range [][]string{{"-works", "helo"}, {"-peers", "nginx,apache"}, {"-works", "hello", "-peers", "nginx-nopush"}, {"-rounds", "0"}, {"-duration", "1ms"}, {"extra"}, {"-no"}} {
		if _, err := parseSettings(args); !errors.As(err, new(usageError)) {
			t.Errorf("%q: %v, want a usage error", args, err)
		}
	}
	s, err := parseSettings([]string{"-smoke"})
	if err != nil || s.rounds != 1 || len(s.works) != len(works) || len(s.peers) != len(peers) {
		t.Errorf("-smoke: %+v, %v", s, err)
	}
	if works[4].conns != 4000 {
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
		{"close", closing, "does not stay open"},
	}
	for _, row := range rows {
		for _, w := range []work{works[0], works[1]} {
			err := verify(startHandler(t, row.handler), w)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%s, %s: %v, want %q", row.name, w.name, err, row.want)
			}
		}
	}
}

func TestUnknownBuild(t *testing.T) {
	s := settings{repo: t.TempDir(), works: works[:1], peers: peers[:1]}
	env := &environment{dir: t.TempDir()}
	if err := env.findLwango(context.Background(), &s); err == nil || !strings.Contains(err.Error(), "building ") {
		t.Errorf("findLwango in an empty folder: %v", err)
	}
}

func TestLimit(t *testing.T) {
	for _, row := range []struct {
		limit limit
		v     float64
		want  bool
	}{
		{atMost(1), 1, true}, {atMost(1), 1.01, false}, {atMost(0), 0, true}, {atLeast(0.97), 0.97, true}, {atLeast(0.97), 0.96, false},
	} {
		if got := row.limit.holds(row.v); got != row.want {
			t.Errorf("%+v, %v: %v", row.limit, row.v, got)
		}
	}
}
