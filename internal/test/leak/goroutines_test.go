package leak_test

import (
	"fmt"
	"iter"
	"os"
	"os/signal"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// spy is a test that keeps its failure, and what is to be done at its end.
type spy struct {
	testing.TB
	message string
	end     func()
}

func (s *spy) Cleanup(f func())                  { s.end = f }
func (s *spy) Errorf(format string, args ...any) { s.message = fmt.Sprintf(format, args...) }

// TestGoroutines: what waits, and a coroutine, are found; what was there before, what ends, and
// what the process keeps are not.
func TestGoroutines(t *testing.T) {
	earlier, end := make(chan struct{}), make(chan struct{})
	go func() { <-earlier }()
	s := new(spy)
	leak.Goroutines(s)
	left := func(end chan struct{}) { <-end }
	go left(end)
	next, stop := iter.Pull(func(yield func(int) bool) { yield(1) })
	next()
	undo := leak.Hurry()
	s.end()
	undo()
	if !strings.Contains(s.message, "TestGoroutines.func2") ||
		!strings.Contains(s.message, "iter.Pull") {
		t.Errorf("of a goroutine and a coroutine, found:\n%s", s.message)
	}
	close(end)
	stop()

	s.message = ""
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	signal.Stop(signals)
	go func() {}()
	s.end()
	if s.message != "" {
		t.Error(s.message)
	}
	close(earlier)
}
