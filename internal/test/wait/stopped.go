package wait

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Stopped waits until all threads of a process stand still, to which SIGSTOP was sent. The call that
// sends it does not wait for that, and on a busy machine a process goes on for a while.
func Stopped(t testing.TB, pid int) {
	t.Helper()
	Until(t, "a process that stands still", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, path := range threads {
			text, err := os.ReadFile(path)
			// The state is behind the name, see proc_pid_stat(5).
			if i := bytes.LastIndex(text, []byte(") ")); err != nil || i < 0 || text[i+2] != 'T' {
				return false
			}
		}
		return len(threads) > 0
	})
}
