package leak

import (
	"runtime"
	"strings"
	"testing"
)

// Goroutines fails a test at whose end there are goroutines that were not there when it was called;
// they get some seconds to end. What the test starts later, and ends by Cleanup, ends before. It is
// for tests that do not run in parallel.
func Goroutines(t testing.TB) {
	before := goroutines()
	t.Cleanup(func() {
		if left := since(before, goroutines); len(left) > 0 {
			t.Errorf("goroutines left behind:\n\n%s", strings.Join(left, "\n\n"))
		}
	})
}

// kept are functions of goroutines that live as long as the process, once something has needed
// them: that of package os/signal, and the runtime's for it.
var kept = []string{"os/signal.loop(", "os/signal.signal_recv(", "runtime.ensureSigM("}

// goroutines lists the stacks of all goroutines but those, by the goroutines' numbers.
func goroutines() map[string]string {
	buf := make([]byte, 64<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	all := make(map[string]string)
stacks:
	for stack := range strings.SplitSeq(strings.TrimSpace(string(buf[:n])), "\n\n") {
		for _, f := range kept {
			if strings.Contains(stack, f) {
				continue stacks
			}
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		all[number] = stack
	}
	return all
}
