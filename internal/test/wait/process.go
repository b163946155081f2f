package wait

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Stopped waits until all threads of a process stand still, to which SIGSTOP was sent. The call
// that sends it does not wait for that, and on a busy machine a process goes on for a while.
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

// GroupGone waits until no process of a group runs any more. What has ended and was not waited for
// does not count.
func GroupGone(t testing.TB, group int) {
	t.Helper()
	Until(t, "the end of all processes of a group", func() bool {
		processes, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, path := range processes {
			text, err := os.ReadFile(path)
			i := bytes.LastIndex(text, []byte(") "))
			if err != nil || i < 0 {
				continue // it has ended meanwhile
			}
			var state rune
			var parent, of int
			_, err = fmt.Sscanf(string(text[i+2:]), "%c %d %d", &state, &parent, &of)
			if err == nil && of == group && state != 'Z' && state != 'X' {
				return false
			}
		}
		return true
	})
}
