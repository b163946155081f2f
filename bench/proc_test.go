package main

import (
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func TestLineNumber(t *testing.T) {
	const status = "Name:\tnginx\nVmPeak:\t  999 kB\nVmHWM:\t   123 kB\nVmRSS:\t   120 kB\n"
	for key, want := range map[string]int64{"VmHWM:": 123 << 10, "VmRSS:": 120 << 10} {
		if got, err := lineNumber([]byte(status), key); err != nil || got != want {
			t.Errorf("%s %d, %v", key, got, err)
		}
	}
	if got, err := lineNumber([]byte("rchar: 9\nread_bytes: 4096\n"), "read_bytes:"); got != 4096 ||
		err != nil {
		t.Errorf("without a unit: %d, %v", got, err)
	}
	if got, err := lineNumber([]byte(status), "Rss:"); err == nil {
		t.Errorf("a missing key gave %d", got)
	}
}

// A server's children are found by their group, whose leader need not live.
func TestFamily(t *testing.T) {
	p := startScript(t, "sleep 60 & sleep 60 & wait")
	group := p.cmd.Process.Pid
	for end := time.Now().Add(verifyLimit); ; time.Sleep(time.Millisecond) {
		got, err := family(group)
		if len(got) == 3 && slices.Contains(got, group) && err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("family(%d) = %v, %v", group, got, err)
		}
	}
	check(p.kill())
	for end := time.Now().Add(verifyLimit); ; time.Sleep(time.Millisecond) {
		got, err := family(group)
		if err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("family of nobody = %v", got)
		}
	}
	if _, err := residentMemory([]int{group}); err == nil {
		t.Error("an ended process has memory")
	}
	if _, err := readCPU([]int{group}); err == nil {
		t.Error("an ended process has CPU time")
	}
}

// A process that has ended, but that nobody has waited for, does not run.
func TestRunning(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(cmd.Start())
	group := cmd.Process.Pid
	if !running(group) {
		t.Error("it runs")
	}
	check(cmd.Process.Kill())
	for end := time.Now().Add(verifyLimit); running(group); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it still runs")
		}
	}
	if pids, err := family(group); len(pids) != 1 || err != nil {
		t.Errorf("family %v, %v: it is to be there until it is waited for", pids, err)
	}
	cmd.Wait()
	if running(group) {
		t.Error("a group of nothing runs")
	}
}

// No more is user than there was.
func TestCPUSince(t *testing.T) {
	ms := time.Millisecond
	for after, want := range map[cpuSample]cpuSample{
		{20 * ms, 64 * ms}: {10 * ms, 44 * ms}, {30 * ms, 32 * ms}: {12 * ms, 12 * ms},
	} {
		if got := after.since(cpuSample{10 * ms, 20 * ms}); got != want {
			t.Errorf("%v: %v, want %v", after, got, want)
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
	// It works in its own code, on one thread at least. The kernel may find that out by its ticks:
	// the process may then work for long without one.
	const work = 20 * time.Millisecond
	after := before
	for begin := time.Now(); time.Since(begin) < time.Minute && after.since(before).user < work; {
		for range 1000 {
			strconv.Itoa(int(begin.Unix()))
		}
		if after, err = readCPU(pids); err != nil {
			t.Fatal(err)
		}
	}
	if used := after.since(before); used.user < work || used.all > time.Hour {
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
	for name, want := range map[string]float64{"x50": 500e3, "x90": 900e3, "x99": 990e3, "x999": 999e3,
		"longest": 1000e3} {
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
