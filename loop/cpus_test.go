package loop_test

import (
	"runtime"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
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
// those have ended; then the processors go back, unless the program has set their number.
func TestReserveBeside(t *testing.T) {
	cpus := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(cpus)
	loop.Reserve(1) // it counts the CPUs, if it is the first
	for range 2 {
		runtime.GOMAXPROCS(1)
		var loops []*loop.Loop
		for _, want := range []int{4, 7} {
			for range loop.Reserve(3) {
				l := must.Get(loop.New(loop.Options{}))(t)
				loops = append(loops, l)
			}
			if got := runtime.GOMAXPROCS(0); got != want {
				t.Errorf("%d loops: GOMAXPROCS %d, want %d", len(loops), got, want)
			}
		}
		for i, l := range loops {
			l.Close()
			left := len(loops) - i - 1
			want := max(left+1, cpus)
			if got := runtime.GOMAXPROCS(0); got != want {
				t.Errorf("%d loops are left: GOMAXPROCS %d, want %d", left, got, want)
			}
		}
	}
	l := must.Get(loop.New(loop.Options{}))(t)
	runtime.GOMAXPROCS(cpus + 9)
	if l.Close(); runtime.GOMAXPROCS(0) != cpus+9 {
		t.Error("GOMAXPROCS of the program was changed")
	}
}
