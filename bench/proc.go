package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// procRoot is replaced by tests.
var procRoot = "/proc"

// tick is the unit of the times in /proc/PID/stat. The kernel reports in USER_HZ, which is 100 on every architecture
// that Go runs on, whatever its own clock does (proc_pid_stat(5)).
const tick = 10 * time.Millisecond

// cpuSample is the CPU time of some processes up to now: in ticks with user and system apart, and in nanoseconds per
// thread, which knows only the sum.
type cpuSample struct {
	user, system time.Duration
	threads      map[int]time.Duration // by thread id; empty where the kernel has no schedstat
}

// cpuUsage is the CPU time between two samples.
type cpuUsage struct {
	User, System time.Duration
}

func (u cpuUsage) total() time.Duration { return u.User + u.System }

func readCPU(pids []int) (cpuSample, error) {
	sample := cpuSample{threads: map[int]time.Duration{}}
	for _, pid := range pids {
		st, err := readStat(pid)
		if err != nil {
			return sample, err
		}
		sample.user += st.user
		sample.system += st.system
		if err := sample.readThreads(pid); err != nil {
			return sample, err
		}
	}
	return sample, nil
}

func (s cpuSample) readThreads(pid int) error {
	tasks, err := os.ReadDir(filepath.Join(procRoot, strconv.Itoa(pid), "task"))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), "task", task.Name(), "schedstat"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without CONFIG_SCHED_INFO, or a thread that has just ended
		}
		if err != nil {
			return err
		}
		first, _, _ := bytes.Cut(text, []byte(" "))
		ns, err := strconv.ParseInt(string(first), 10, 64)
		if err != nil {
			return fmt.Errorf("schedstat of %d: %q", tid, text)
		}
		s.threads[tid] = time.Duration(ns)
	}
	return nil
}

// since takes the sum from the nanoseconds and only its division into user and system from the ticks. When a thread
// has ended meanwhile its nanoseconds are gone, and the ticks, which are kept per process, give the sum too.
func (s cpuSample) since(before cpuSample) cpuUsage {
	usage := cpuUsage{User: s.user - before.user, System: s.system - before.system}
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
	if len(s.threads) == 0 {
		return usage
	}
	ticks := usage.total()
	if ticks <= 0 {
		return cpuUsage{User: exact} // shorter than a tick: nothing to divide by
	}
	user := time.Duration(float64(exact) * float64(usage.User) / float64(ticks))
	return cpuUsage{User: user, System: exact - user}
}

type procStat struct {
	parent       int
	user, system time.Duration
}

func readStat(pid int) (procStat, error) {
	text, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), "stat"))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(text)
}

// parseStat reads /proc/PID/stat. The second field is the command in parentheses, and may hold spaces and
// parentheses itself: what follows begins at the last one.
func parseStat(text []byte) (procStat, error) {
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	const state, parent, utime, stime = 0, 1, 11, 12 // counted from the third field of proc_pid_stat(5)
	if end < 0 || len(fields) <= stime || len(fields[state]) != 1 {
		return procStat{}, fmt.Errorf("unexpected stat %q", text)
	}
	var n [3]int64
	for i, field := range []int{parent, utime, stime} {
		var err error
		if n[i], err = strconv.ParseInt(string(fields[field]), 10, 64); err != nil {
			return procStat{}, fmt.Errorf("unexpected stat %q", text)
		}
	}
	return procStat{parent: int(n[0]), user: time.Duration(n[1]) * tick, system: time.Duration(n[2]) * tick}, nil
}

// family is a process and its descendants, ascending. It walks all of /proc: the list of children below task/ is a
// kernel option that some machines lack.
func family(root int) ([]int, error) {
	entries, err := os.ReadDir(procRoot)
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if st, err := readStat(pid); err == nil { // an error: it has ended since
			parents[pid] = st.parent
		}
	}
	var pids []int
	for pid := range parents {
		for at := pid; at > 0; at = parents[at] {
			if at == root {
				pids = append(pids, pid)
				break
			}
		}
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("process %d has ended", root)
	}
	slices.Sort(pids)
	return pids, nil
}

// residentMemory sums Rss over the processes, in bytes.
func residentMemory(pids []int) (int64, error) { return sumMemory(pids, "smaps_rollup", "Rss:") }

// peakMemory sums the highest Rss that each process ever had, in bytes.
func peakMemory(pids []int) (int64, error) { return sumMemory(pids, "status", "VmHWM:") }

// anonymousMemory sums what belongs to no file, in bytes; what processes share is divided among them.
func anonymousMemory(pids []int) (int64, error) { return sumMemory(pids, "smaps_rollup", "Pss_Anon:") }

func sumMemory(pids []int, file, key string) (int64, error) {
	var sum int64
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
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == key && string(fields[2]) == "kB" {
			n, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in %.200q", key, text)
}
