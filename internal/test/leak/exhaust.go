package leak

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// Exhaust uses up the process's descriptors, under a limit that is a little above those that are
// open, until free is called, or the test ends. Tests beside it would fail.
func Exhaust(t testing.TB) (free func()) {
	t.Helper()
	var taken []int
	var limit syscall.Rlimit
	done := false
	free = func() {
		if done {
			return
		}
		done = true
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
		for _, fd := range taken {
			_ = syscall.Close(fd)
		}
	}
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	t.Cleanup(free)
	highest := 0
	for name := range open() {
		if fd, err := strconv.Atoi(name); err == nil {
			highest = max(highest, fd)
		}
	}
	low := limit
	low.Cur = min(limit.Cur, uint64(highest)+16)
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	for {
		fd, err := syscall.Dup(0)
		if err != nil {
			return free
		}
		taken = append(taken, fd)
	}
}
