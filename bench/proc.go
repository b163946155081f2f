package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/prometheus/procfs"
)

// procRoot is replaced by tests.
var procRoot = procfs.DefaultMountPoint

// tick is the unit of the times in /proc/PID/stat: USER_HZ, which is 100 on every architecture that
// Go runs on, whatever the kernel's own clock does (proc_pid_stat(5)).
const tick = 10 * time.Millisecond

// A cpuSample is the CPU time of some processes up to now: in ticks with user and system apart, and
// in nanoseconds for each thread, where only the sum is known.
type cpuSample struct {
	user, system time.Duration
	threads      map[int]time.Duration // by thread id; empty where the kernel has no schedstat
}

// cpuUsage is the CPU time between two samples.
type cpuUsage struct{ user, system time.Duration }

func (u cpuUsage) total() time.Duration { return u.user + u.system }

func readCPU(pids []int) (cpuSample, error) {
	sample := cpuSample{threads: map[int]time.Duration{}}
	err := each(pids, false, func(p procfs.Proc) error {
		stat, err := p.Stat()
		sample.user += time.Duration(stat.UTime) * tick
		sample.system += time.Duration(stat.STime) * tick
		return err
	})
	if err != nil {
		return sample, err
	}
	return sample, each(pids, true, func(t procfs.Proc) error {
		stat, err := t.Schedstat()
		if err == nil {
			sample.threads[t.PID] = time.Duration(stat.RunningNanoseconds)
		}
		return err
	})
}

// each visits processes or their threads. It leaves out a thread that has just ended, and files
// that the kernel does not have.
func each(pids []int, threads bool, use func(procfs.Proc) error) error {
	root, err := procfs.NewFS(procRoot)
	for _, pid := range pids {
		p, missing := root.Proc(pid)
		all := procfs.Procs{p}
		if threads && missing == nil {
			all, missing = root.AllThreads(pid)
		}
		if err = errors.Join(err, missing); err != nil {
			return err
		}
		for _, p := range all {
			if err := use(p); err != nil && !(threads && errors.Is(err, fs.ErrNotExist)) {
				return err
			}
		}
	}
	return err
}

// since takes the sum from the nanoseconds and only its division into user and system from the
// ticks. The nanoseconds of a thread that has ended meanwhile are gone; then the ticks, which are
// kept per process, give the sum too.
func (s cpuSample) since(before cpuSample) cpuUsage {
	usage := cpuUsage{user: s.user - before.user, system: s.system - before.system}
	exact := time.Duration(0)
	for _, t := range s.threads {
		exact += t
	}
	for tid, t := range before.threads {
		if _, ok := s.threads[tid]; !ok {
			return usage
		}
		exact -= t
	}
	ticks := usage.total()
	switch {
	case len(s.threads) == 0:
		return usage
	case ticks <= 0: // shorter than a tick: nothing to divide by
		return cpuUsage{user: exact}
	}
	user := time.Duration(float64(exact) * float64(usage.user) / float64(ticks))
	return cpuUsage{user: user, system: exact - user}
}

// family is the processes of a group, which a server and its children are.
func family(group int) (pids []int, err error) {
	root, err := procfs.NewFS(procRoot)
	if err != nil {
		return nil, err
	}
	all, err := root.AllProcs()
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && stat.PGRP == group { // an error: it has ended since
			pids = append(pids, p.PID)
		}
	}
	if err == nil && len(pids) == 0 {
		err = fmt.Errorf("process group %d has ended", group)
	}
	return pids, err
}

// residentMemory sums Rss over the processes, in bytes.
func residentMemory(pids []int) (int64, error) { return sumMemory(pids, "smaps_rollup", "Rss:") }

// peakMemory sums the highest Rss that each process ever had, in bytes.
func peakMemory(pids []int) (int64, error) { return sumMemory(pids, "status", "VmHWM:") }

// anonymousMemory sums what belongs to no file, in bytes; shared memory is divided among its
// sharers. (procfs knows only the sum that counts it for each.)
func anonymousMemory(pids []int) (int64, error) {
	return sumMemory(pids, "smaps_rollup", "Pss_Anon:")
}

func sumMemory(pids []int, file, key string) (sum int64, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), file))
		if err != nil {
			return 0, err
		}
		n, err := parseMemory(text, key)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// parseMemory finds a line "Key:   123 kB".
func parseMemory(text []byte, key string) (int64, error) {
	for line := range bytes.Lines(text) {
		words := bytes.Fields(line)
		if len(words) == 3 && string(words[0]) == key && string(words[2]) == "kB" {
			n, err := strconv.ParseInt(string(words[1]), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in %.200q", key, text)
}

// readSwitches sums the voluntary context switches of all threads. Each is a thread that had run
// and went to sleep: between two readings of sleeping processes it is the number of times that they
// were woken up. The other switches are no wake-ups: another thread got the CPU.
func readSwitches(pids []int) (sum int64, err error) {
	err = each(pids, true, func(t procfs.Proc) error {
		status, err := t.NewStatus()
		sum += int64(status.VoluntaryCtxtSwitches)
		return err
	})
	return sum, err
}

// A meter reads what a load takes of the servers' CPU time and of this process's own.
type meter struct {
	pids        []int
	server, own cpuSample
	start       time.Time
}

func newMeter(pids []int) meter {
	own := must(readCPU([]int{os.Getpid()}))
	return meter{pids, must(readCPU(pids)), own, time.Now()}
}

// figures are those of n requests, or whatever the work counts.
func (m meter) figures(n float64) figures {
	took := time.Since(m.start)
	server, own := must(readCPU(m.pids)), must(readCPU([]int{os.Getpid()}))
	return spent(server.since(m.server), own.since(m.own), took, n)
}

func spent(server, own cpuUsage, took time.Duration, n float64) figures {
	return figures{
		"perSecond": n / took.Seconds(),
		"cpu":       micro(server.total()) / n,
		"user":      micro(server.user) / n,
		"system":    micro(server.system) / n,
		"client":    micro(own.total()) / n,
		"both":      micro(server.total()+own.total()) / n,
		"busy":      server.total().Seconds() / took.Seconds(),
	}
}

// A histogram counts durations of up to an hour; its quantiles are exact to 1/1000.
type histogram struct{ *hdr.Histogram }

func newHistogram() histogram { return histogram{hdr.New(1, int64(time.Hour), 3)} }

func (h histogram) add(d time.Duration, n int) {
	h.RecordValues(min(int64(max(d, 0)), h.HighestTrackableValue()), int64(n))
}

// quantiles sets the figures of that name, followed by the percentile, and longest.
func (f figures) quantiles(name string, h histogram) {
	for _, percent := range []int{50, 90, 99} {
		f[name+strconv.Itoa(percent)] = float64(h.ValueAtQuantile(float64(percent))) / 1000
	}
	f["longest"] = float64(h.Max()) / 1000
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func mebi(bytes int64) float64 { return float64(bytes) / (1 << 20) }
