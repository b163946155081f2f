package server

import (
	"bytes"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	status "github.com/lwango/lwango/internal/base/metrics"
)

// process reads what the kernel says of this process. Any goroutine may call its methods.
type process struct {
	started time.Time
	// memory is /proc/self/statm, opened before the process confines itself; nil: there is none.
	memory *os.File
}

func newProcess() *process {
	p := &process{started: time.Now()}
	p.memory, _ = os.Open("/proc/self/statm")
	return p
}

func (p *process) close() {
	if p != nil && p.memory != nil {
		_ = p.memory.Close()
	}
}

// read returns the figures of now; 0: one is not known.
func (p *process) read() (out status.Process) {
	out.Started = p.started
	var cpu unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &cpu) == nil {
		out.CPU = time.Duration(cpu.Nano()).Seconds()
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		out.MaxFiles = int64(min(limit.Cur, 1<<62))
	}
	out.OpenFiles = openFiles()
	if p.memory != nil {
		b := make([]byte, 128)
		n, _ := p.memory.ReadAt(b, 0)
		if fields := bytes.Fields(b[:n]); len(fields) > 1 { // proc_pid_statm(5)
			pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			out.Resident = pages * int64(os.Getpagesize())
		}
	}
	return out
}

// openFiles returns how many descriptors the process has. Since Linux 6.2 the size of the folder
// says it, which costs nothing and works behind Landlock, too.
func openFiles() int64 {
	const folder = "/proc/self/fd"
	info, err := os.Stat(folder)
	if err != nil {
		return 0
	}
	if n := info.Size(); n > 0 {
		return n
	}
	var all []fs.DirEntry
	if all, err = os.ReadDir(folder); err != nil {
		return 0
	}
	return int64(len(all)) - 1 // that of the folder
}
