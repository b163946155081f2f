package system_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestSocketsStop: with thousands of idle sockets a reload leaves all alone, and a stop tells each
// within two seconds.
func TestSocketsStop(t *testing.T) {
	many := 300
	if ci.Enabled() && !race.Enabled && !invariants.Enabled {
		many = 5000
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil ||
		files.Cur < uint64(2*many)+2000 {
		ci.Lacks(t, fmt.Sprintf("descriptors: %d, %v", files.Cur, err))
	}
	h := openHall(t, fmt.Sprintf("max_connections = %d\ngrace = \"1m\"", 2*many))
	for i := range many {
		way := "tcp"
		switch {
		case i%5 == 1:
			way = "tls"
		case i%5 == 2:
			way = "HTTP/2"
		}
		h.enter(way, false)
		if i%10 < 3 {
			h.enter(way, true)
		}
	}
	must.Write(t, h.file, "keep_alive_timeout = \"1m\"\n"+h.config)
	must.Do(t, h.Signal(syscall.SIGHUP))
	wait.Until(t, "the reload", func() bool { return strings.Contains(h.Log(), "msg=reloaded") })
	must.Do(t, h.all[0].say("after the reload"))
	h.hear(h.all, []string{"after the reload"})

	before, cpu := others(t), h.CPU(t)
	began := time.Now()
	must.Do(t, h.Signal(syscall.SIGTERM))
	_, last := h.end(h.all)
	took := last.Sub(began)
	if code := h.End(t, 0); code != 0 {
		t.Errorf("exit code %d", code)
	}
	busy := others(t) - before + cpu        // h's time before the stop is not the stop's
	busy /= time.Duration(runtime.NumCPU()) // while they had all of them
	t.Logf("%d sockets and streams: told within %v, while others had the machine for %v", len(h.all),
		took, busy)
	if took > 2*time.Second+busy && ci.Enabled() && !race.Enabled {
		t.Errorf("the last is told after %v, while others had the machine for %v only", took, busy)
	}
}

// others returns for how long processors have worked for others than this process and the children
// that it has waited for.
func others(t *testing.T) (used time.Duration) {
	t.Helper()
	line, _, _ := strings.Cut(must.Read(t, "/proc/stat"), "\n")
	for i, f := range strings.Fields(line)[1:] {
		const idle, iowait, last = 3, 4, 7 // proc_stat(5); what follows is in the first ones
		if i != idle && i != iowait && i <= last {
			used += time.Duration(must.Get(strconv.ParseInt(f, 10, 64))(t)) * (time.Second / 100) // USER_HZ
		}
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		must.Do(t, unix.Getrusage(who, &u))
		used -= time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return used
}
