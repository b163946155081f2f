package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const statTail = " -1 4194560 185 0 1 0 250 75 0 0 20 0 4 0 282221 4464640 784 18446744073709551615 1 1 0 0 0 0 0 0 17 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0"

func TestParseMemory(t *testing.T) {
	const status = "Name:\tnginx\nVmPeak:\t  999 kB\nVmHWM:\t   123 kB\nVmRSS:\t   120 kB\n"
	if got, err := parseMemory([]byte(status), "VmHWM:"); err != nil || got != 123<<10 {
		t.Errorf("VmHWM = %d, %v", got, err)
	}
	if got, err := parseMemory([]byte(status), "Rss:"); err == nil {
		t.Errorf("a missing key gave %d", got)
	}
}

// fakeProc is a /proc with the given files.
func fakeProc(t *testing.T, files map[string]string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	real := procRoot
	procRoot = root
	t.Cleanup(func() { procRoot = real })
}

func TestFamily(t *testing.T) {
	stat := func(pid, group int) string { return fmt.Sprintf("%d (x) S 1 %d 1 0%s", pid, group, statTail) }
	fakeProc(t, map[string]string{
		"1/stat": stat(1, 1), "10/stat": stat(10, 10), "11/stat": stat(11, 10), "12/stat": stat(12, 10), "20/stat": stat(20, 20),
		"self/stat": stat(10, 1), "uptime": "1 1",
	})
	got, err := family(10)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, []int{10, 11, 12}) {
		t.Errorf("family(10) = %v, %v", got, err)
	}
	if got, err := family(30); err == nil {
		t.Errorf("family of nobody = %v", got)
	}
}

// The command of a stat is in parentheses and may hold spaces and parentheses itself.
func TestReadCPU(t *testing.T) {
	for _, command := range []string{"nginx", "a b", "x) R 1 2 (y", ""} {
		fakeProc(t, map[string]string{
			"42/stat": fmt.Sprintf("42 (%s) S 17 42 42 0%s\n", command, statTail), "42/task/42/schedstat": "3000 1 1\n",
			"42/task/43/schedstat": "4000 1 1\n", "42/task/43/status": "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n",
			"42/task/44/other": "", // a thread that has just ended
		})
		got, err := readCPU([]int{42})
		if err != nil || got.user != 2500*time.Millisecond || got.system != 750*time.Millisecond || len(got.threads) != 2 || got.threads[43] != 4000 {
			t.Errorf("command %q: %+v, %v", command, got, err)
		}
		if n, err := readSwitches([]int{42}); n != 150 || err != nil {
			t.Errorf("%d context switches, %v", n, err)
		}
	}
}

func TestCPUSince(t *testing.T) {
	ms := time.Millisecond
	threads := func(times ...time.Duration) map[int]time.Duration {
		m := map[int]time.Duration{}
		for i, d := range times {
			m[i] = d
		}
		return m
	}
	rows := []struct {
		name          string
		before, after cpuSample
		want          cpuUsage
	}{
		{"nanoseconds divided as the ticks are", cpuSample{10 * ms, 10 * ms, threads(20*ms, 0)}, cpuSample{20 * ms, 40 * ms, threads(30*ms, 34*ms)}, cpuUsage{11 * ms, 33 * ms}},
		{"a new thread counts", cpuSample{0, 0, threads(5 * ms)}, cpuSample{10 * ms, 0, threads(5*ms, 12*ms)}, cpuUsage{12 * ms, 0}},
		{"no schedstat", cpuSample{0, 0, threads()}, cpuSample{10 * ms, 30 * ms, threads()}, cpuUsage{10 * ms, 30 * ms}},
		{"a thread ended", cpuSample{0, 0, threads(5*ms, 7*ms)}, cpuSample{20 * ms, 10 * ms, threads(9 * ms)}, cpuUsage{20 * ms, 10 * ms}},
		{"less than a tick", cpuSample{0, 0, threads(ms)}, cpuSample{0, 0, threads(4 * ms)}, cpuUsage{3 * ms, 0}},
	}
	for _, row := range rows {
		if got := row.after.since(row.before); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}

// The readers agree with the real /proc about this very process.
func TestOwnProcess(t *testing.T) {
	pids := []int{os.Getpid()}
	before, err := readCPU(pids)
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < 60*time.Millisecond; {
		strconv.Itoa(int(begin.Unix()))
	}
	after, err := readCPU(pids)
	if err != nil {
		t.Fatal(err)
	}
	if used := after.since(before).total(); used <= 0 || used > time.Minute {
		t.Errorf("used %v after some work", used)
	}
	resident, err := residentMemory(pids)
	if err != nil {
		t.Fatal(err)
	}
	highest, err := peakMemory(pids)
	if err != nil {
		t.Fatal(err)
	}
	if resident < 1<<20 || highest < 1<<20 {
		t.Errorf("resident %d, peak %d bytes", resident, highest)
	}
	if n, err := readSwitches(pids); n <= 0 || err != nil {
		t.Errorf("%d context switches, %v", n, err)
	}
	all, err := family(syscall.Getpgrp())
	if err != nil || !slices.Contains(all, os.Getpid()) {
		t.Errorf("this process is not in its group's family %v (%v)", all, err)
	}
}

// Latencies are exact to 1/1000, and what no clock should say does no harm.
func TestQuantiles(t *testing.T) {
	h := newHistogram()
	for i := range 1000 {
		h.add(time.Duration(i+1)*time.Millisecond, 1)
	}
	f := figures{}
	f.quantiles("x", h)
	for name, want := range map[string]float64{"x50": 500e3, "x90": 900e3, "x99": 990e3, "longest": 1000e3} {
		if got := f[name]; got < want || got > want*1.001 {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	h = newHistogram()
	h.add(-1, 1) // clocks of different CPUs may disagree by a little
	h.add(math.MaxInt64, 2)
	if f.quantiles("y", h); f["y50"] < 3600e6*0.999 || h.TotalCount() != 3 {
		t.Errorf("%v of %d", f, h.TotalCount())
	}
}
