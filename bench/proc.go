package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// The CPU clocks of a process as clock_gettime numbers them (clock_getcpuclockid(3)). Each has the
// time of all threads that the process ever had. The scheduler's is exact. That of the process's
// own code may be counted in ticks.
const (
	userClock      = 1
	schedulerClock = 2
)

// A cpuSample is the sum of some processes' CPU clocks up to now.
type cpuSample struct{ user, all time.Duration }

func readCPU(pids []int) (sample cpuSample, err error) {
	for _, pid := range pids {
		for id, sum := range map[int]*time.Duration{
			userClock: &sample.user, schedulerClock: &sample.all,
		} {
			var now unix.Timespec
			if err := unix.ClockGettime(int32(^pid<<3|id), &now); err != nil {
				return sample, fmt.Errorf("the CPU time of process %d: %w", pid, err)
			}
			*sum += time.Duration(now.Nano())
		}
	}
	return sample, nil
}

// since is the time since an earlier sample. Ticks may count more than there was.
func (s cpuSample) since(before cpuSample) cpuSample {
	all := s.all - before.all
	return cpuSample{min(s.user-before.user, all), all}
}

// family is the processes of a group, which a server and its children are.
func family(group int) (pids []int, err error) {
	for _, entry := range must(os.ReadDir("/proc")) {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if its, _ := unix.Getpgid(pid); its == group { // an error: it has ended since
				pids = append(pids, pid)
			}
		}
	}
	if len(pids) == 0 {
		err = fmt.Errorf("process group %d has ended", group)
	}
	return pids, err
}

// running tells whether a process of a group has not ended. One that has stays in the group until
// its parent has waited for it; where that is init, on a busy machine, it may take a while.
func running(group int) bool {
	pids, _ := family(group) // an error: none is there
	return slices.ContainsFunc(pids, func(pid int) bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		// The state follows the command, which may have any character in it (proc_pid_stat(5)).
		state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
		return err == nil && len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
	})
}

// residentMemory sums Rss over the processes, in bytes.
func residentMemory(pids []int) (int64, error) { return sumLines(pids, "smaps_rollup", "Rss:") }

// peakMemory sums the highest Rss that each process ever had, in bytes.
func peakMemory(pids []int) (int64, error) { return sumLines(pids, "status", "VmHWM:") }

// anonymousMemory sums what belongs to no file, in bytes; shared memory is divided among its
// sharers.
func anonymousMemory(pids []int) (int64, error) {
	return sumLines(pids, "smaps_rollup", "Pss_Anon:")
}

// diskReads sums what the processes have had read from the disk, in bytes.
func diskReads(pids []int) (int64, error) { return sumLines(pids, "io", "read_bytes:") }

// sumLines sums the numbers of the lines "key: number" in that file of the processes.
func sumLines(pids []int, file, key string) (sum int64, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return 0, err
		}
		n, err := lineNumber(text, key)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// lineNumber is the number in the line of a key, in bytes, also where the file has kB.
func lineNumber(text []byte, key string) (int64, error) {
	for line := range bytes.Lines(text) {
		if words := bytes.Fields(line); len(words) > 1 && string(words[0]) == key {
			n, err := strconv.ParseInt(string(words[1]), 10, 64)
			if len(words) > 2 {
				n <<= 10
			}
			return n, err
		}
	}
	return 0, fmt.Errorf("no %s in %.200q", key, text)
}

// A meter reads what a load takes of the servers' CPU time and of this process's own.
type meter struct {
	pids        []int
	server, own cpuSample
	start       time.Time
}

// newMeter begins with the processes that there are now: nginx's master listens before its workers
// start, but the server has answered.
func newMeter(group int) meter {
	pids := must(family(group))
	own := must(readCPU([]int{os.Getpid()}))
	return meter{pids, must(readCPU(pids)), own, time.Now()}
}

// figures are those of n requests, or whatever the work counts.
func (m meter) figures(n float64) figures {
	took := time.Since(m.start)
	server := must(readCPU(m.pids)).since(m.server)
	own := must(readCPU([]int{os.Getpid()})).since(m.own)
	return figures{
		"perSecond": n / took.Seconds(),
		"cpu":       micro(server.all) / n,
		"user":      micro(server.user) / n,
		"system":    micro(server.all-server.user) / n,
		"client":    micro(own.all) / n,
		"both":      micro(server.all+own.all) / n,
		"busy":      server.all.Seconds() / took.Seconds(),
	}
}

// A histogram counts durations of up to an hour; its quantiles are exact to 1/1000.
type histogram struct{ *hdr.Histogram }

func newHistogram() histogram { return histogram{hdr.New(1, int64(time.Hour), 3)} }

func (h histogram) add(d time.Duration, n int) {
	h.RecordValues(min(int64(max(d, 0)), h.HighestTrackableValue()), int64(n))
}

// quantiles sets the figures of that name, followed by the percentile (999: 99.9), and longest.
func (f figures) quantiles(name string, h histogram) {
	for percent, at := range map[string]float64{"50": 50, "90": 90, "99": 99, "999": 99.9} {
		f[name+percent] = float64(h.ValueAtQuantile(at)) / 1000
	}
	f["longest"] = float64(h.Max()) / 1000
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func mebi(bytes int64) float64 { return float64(bytes) / (1 << 20) }
