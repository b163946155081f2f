package server

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"github.com/lwango/lwango/handlers"
)

// TestThreads: there are more processors than loops, whatever `threads` says, and the next server of the process has as
// many loops as the one before.
func TestThreads(t *testing.T) {
	cpus := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(cpus)
	for _, threads := range []int{0, 0, cpus + 2, 1, 0} {
		source := Source{Modules: new(handlers.Registry), Listen: []string{"127.0.0.1:0"}, Logger: slog.New(slog.DiscardHandler)}
		config, err := source.Parse("", fmt.Sprintf("threads = %d", threads))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Start(source, config)
		if err != nil {
			t.Fatal(err)
		}
		loops, processors := len(s.loops), runtime.GOMAXPROCS(0)
		want := threads
		if want == 0 {
			want = cpus
		}
		if loops != want || processors <= loops {
			t.Errorf("threads = %d: %d loops and %d processors, want %d loops and more processors", threads, loops, processors, want)
		}
		s.Stop()
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
	}
}
