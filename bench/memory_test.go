package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestParseSleep(t *testing.T) {
	type slept struct {
		late   time.Duration
		asleep int
	}
	for body, want := range map[string]slept{
		"0 1":         {0, 1},
		"1234 10000":  {1234 * time.Microsecond, 10000},
		"-5 2":        {-5 * time.Microsecond, 2},
		"1":           {},
		"":            {},
		"1 2 3":       {},
		"1.5 2":       {},
		"<html></h1>": {},
	} {
		got, err := attempt(func(body string) slept {
			late, asleep := parseSleep(body)
			return slept{late, asleep}
		}, body)
		if got != want || (err == nil) != (want != slept{}) {
			t.Errorf("%q: %+v, %v; want %+v", body, got, err, want)
		}
	}
}

// All sleep before the first wakes, and they wake evenly.
func TestSleepersDue(t *testing.T) {
	o := job{load: load{Conns: 4}, timing: timing{Settle: time.Second, Spread: 2 * time.Second}}
	if o.due(0) != o.lead() || o.lead() <= o.Settle {
		t.Errorf("the first wakes after %v, the lead is %v", o.due(0), o.lead())
	}
	for i := range 3 {
		if step := o.due(i+1) - o.due(i); step != 500*time.Millisecond {
			t.Errorf("%v between %d and the next", step, i)
		}
	}
}

func sleepersOf(addr string) job {
	return job{Addr: addr, load: load{Path: "/sleep", Conns: 20},
		timing: timing{Settle: time.Millisecond, Spread: 20 * time.Millisecond}, Group: ownGroup}
}

func TestSleepers(t *testing.T) {
	f, err := attempt(loadSleepers, sleepersOf(startHandler(t, http.HandlerFunc(sleepNetHTTP))))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f["bytesEach"]; !ok || f["resident"] <= 0 || f["cpu"] <= 0 ||
		f["late50"] > f["late99"] || f["late99"] > f["longest"] || f["longest"] <= 0 {
		t.Errorf("%+v", f)
	}
}

// A server that does not let them sleep, or not together, has not done the work.
func TestSleepersNoticesWhoDoesNotSleep(t *testing.T) {
	rows := []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"answers at once", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("0 1")) },
			"0 slept at the same time after "},
		{"other answer", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(hello)) },
			"want how late it is"},
		{"error", http.NotFound, "status 404"},
	}
	for _, row := range rows {
		if _, err := attempt(loadSleepers, sleepersOf(startHandler(t, row.handler))); err == nil ||
			!strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

// A server that closes idle connections looks frugal, and is noticed.
func TestIdle(t *testing.T) {
	answers := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, hello)
	})
	f, err := attempt(loadIdle, jobAt(startHandler(t, answers), 60, 1, 0, 0))
	if _, ok := f["bytesEach"]; !ok || err != nil || f["resident"] <= 0 || f["cpu"] <= 0 {
		t.Errorf("%+v, %v", f, err)
	}
	closes := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, hello)
	})
	if _, err := attempt(loadIdle, jobAt(startHandler(t, closes), 60, 1, 0, 0)); err == nil {
		t.Error("a server that closes passed")
	}
}
