package main

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseSleep(t *testing.T) {
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
		got, err := parseSleep(body)
		if got != want || (err == nil) != (want != slept{}) {
			t.Errorf("%q: %+v, %v; want %+v", body, got, err, want)
		}
	}
}

// All sleep before the first wakes, and they wake evenly.
func TestSleepersDue(t *testing.T) {
	o := sleeperOptions{Conns: 4, Settle: time.Second, Spread: 2 * time.Second}
	if o.due(0) != o.lead() || o.lead() <= o.Settle {
		t.Errorf("the first wakes after %v, the lead is %v", o.due(0), o.lead())
	}
	for i := range 3 {
		if step := o.due(i+1) - o.due(i); step != 500*time.Millisecond {
			t.Errorf("%v between %d and the next", step, i)
		}
	}
}

func sleepersOf(addr string) sleeperOptions {
	return sleeperOptions{Addr: addr, Path: "/sleep", Conns: 20, Settle: time.Millisecond, Spread: 20 * time.Millisecond, PIDs: []int{os.Getpid()}}
}

func TestSleepers(t *testing.T) {
	report, err := loadSleepers(sleepersOf(startHandler(t, http.HandlerFunc(sleepNetHTTP))))
	if err != nil {
		t.Fatal(err)
	}
	if report.Before <= 0 || report.Asleep <= 0 || report.CPU.total() <= 0 || report.P50 > report.P99 || report.P99 > report.Max || report.Max <= 0 {
		t.Errorf("%+v", report)
	}
}

// A server that does not let them sleep, or not together, has not done the work.
func TestSleepersNoticesWhoDoesNotSleep(t *testing.T) {
	rows := []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"answers at once", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("0 1")) }, "0 slept at the same time after "},
		{"other answer", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(hello)) }, "want how late it is"},
		{"error", http.NotFound, "status 404"},
	}
	for _, row := range rows {
		if _, err := loadSleepers(sleepersOf(startHandler(t, row.handler))); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}
