package loop_test

import (
	"runtime"
	"testing"

	"github.com/lwango/lwango/loop"
)

// TestReserve: there is a processor more than loops, and a second call counts the same CPUs as the
// first.
func TestReserve(t *testing.T) {
	cpus := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(cpus)
	for _, step := range []struct{ n, want, processors int }{
		{0, cpus, cpus + 1},
		{0, cpus, cpus + 1},
		{1, 1, cpus + 1}, // what is there is not taken away
		{cpus + 5, cpus + 5, cpus + 6},
		{0, cpus, cpus + 6},
	} {
		if n := loop.Reserve(step.n); n != step.want {
			t.Errorf("Reserve(%d): %d loops, want %d", step.n, n, step.want)
		}
		if got := runtime.GOMAXPROCS(0); got != step.processors {
			t.Errorf("Reserve(%d): GOMAXPROCS %d, want %d", step.n, got, step.processors)
		}
	}
}

// TestReserveBeside: a second server of a process gets room beside the loops of the first, until
// those have ended.
func TestReserveBeside(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for range 2 {
		runtime.GOMAXPROCS(1)
		var loops []*loop.Loop
		for _, want := range []int{4, 7} {
			for range loop.Reserve(3) {
				l, err := loop.New(loop.Options{})
				if err != nil {
					t.Fatal(err)
				}
				loops = append(loops, l)
			}
			if got := runtime.GOMAXPROCS(0); got != want {
				t.Errorf("%d loops: GOMAXPROCS %d, want %d", len(loops), got, want)
			}
		}
		for _, l := range loops {
			l.Close()
		}
	}
}
