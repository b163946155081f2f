package asynclog_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lwango/lwango/internal/base/asynclog"
)

// closing is a sink that can be closed, and may take a part of what it gets.
type closing struct {
	sink
	closed bool
	takes  int // bytes, before it fails; -1: all
}

func (c *closing) Write(p []byte) (int, error) {
	if c.takes < 0 {
		return c.sink.Write(p)
	}
	n, _ := c.sink.Write(p[:min(c.takes, len(p))])
	c.takes -= n
	return n, errors.New("full")
}

func (c *closing) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

// TestSetLevel: existing loggers change, priority ones too.
func TestSetLevel(t *testing.T) {
	var s sink
	l := asynclog.New(&s)
	log := l.Logger()
	for _, logger := range []*slog.Logger{log.With("a", 1), asynclog.Priority(log)} {
		logger.Debug("hidden")
		l.SetLevel(slog.LevelDebug)
		logger.Debug("seen")
		l.SetLevel(slog.LevelError)
		logger.Warn("hidden")
		l.SetLevel(slog.LevelInfo)
		logger.Info("seen")
	}
	l.Close(time.Minute)
	if strings.Contains(s.String(), "hidden") || strings.Count(s.String(), "msg=seen") != 4 {
		t.Error(s.String())
	}
}

// TestSetOutput: each output gets the lines that are logged while it is in force, and is closed
// behind the last one of them.
func TestSetOutput(t *testing.T) {
	var first sink
	l := asynclog.New(&first)
	log := l.Logger()
	a, b := &closing{takes: -1}, &closing{takes: -1}
	log.Info("0")
	l.SetOutput(a)
	log.Info("a")
	l.Flush(time.Minute)
	l.SetOutput(b)
	log.Info("b")
	l.Flush(time.Minute)
	if !a.closed || b.closed {
		t.Errorf("closed: %v, %v", a.closed, b.closed)
	}
	l.SetOutput(nil)
	log.Info("1")
	l.Close(time.Minute)
	if !b.closed {
		t.Error("b is open")
	}
	log.Info("2")
	last := &closing{takes: -1}
	l.SetOutput(last)
	log.Info("last")
	l.SetOutput(nil)
	log.Info("3")
	for _, c := range []struct {
		s    *sink
		want string
	}{{&first, "0123"}, {&a.sink, "a"}, {&b.sink, "b"}, {&last.sink, "last"}} {
		var got strings.Builder
		for line := range strings.Lines(c.s.String()) {
			_, text, _ := strings.Cut(line, "msg=")
			got.WriteString(strings.TrimSuffix(text, "\n"))
		}
		if got.String() != c.want {
			t.Errorf("got %q, want %q", got.String(), c.want)
		}
	}
	if !last.closed {
		t.Error("the last one is open")
	}
}

// TestOutputHeldUp: an output that never came into force is closed.
func TestOutputHeldUp(t *testing.T) {
	var first sink
	l := asynclog.New(&first)
	first.shut.Lock()
	l.Logger().Info("0")
	a, b := &closing{takes: -1}, &closing{takes: -1}
	l.SetOutput(a)
	l.SetOutput(b)
	first.shut.Unlock()
	l.Close(time.Minute)
	if !a.closed {
		t.Error("a is open")
	}
}

// TestOutputFails: what an output does not take goes to the first one; nothing is lost.
func TestOutputFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first sink
		l := asynclog.New(&first)
		a := &closing{}
		l.SetOutput(a)
		synctest.Wait()
		first.shut.Lock() // so that both lines come in one piece
		log := l.Logger()
		log.Info("one")
		log.Info("two")
		first.shut.Unlock()
		l.Flush(time.Minute)
		if got := first.String(); strings.Count(got, "\n") != 2 || l.Lost() != 0 {
			t.Errorf("lost %d, got %s", l.Lost(), got)
		}
		first.fail(errors.New("full"))
		log.Info("three")
		l.Flush(time.Minute)
		if l.Lost() != 1 {
			t.Errorf("lost %d", l.Lost())
		}
		l.Close(time.Minute)
	})
}

// TestBytesOfADay: lines of many messages together take no more than a bound.
func TestBytesOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s counting
		l := asynclog.New(&s)
		log := l.Logger()
		long := strings.Repeat("x", 256)
		attrs := []any{"a", long, "b", long, "c", long, "d", long}
		flood := func(d time.Duration) {
			for range int(d / (100 * time.Millisecond)) {
				for kind := range 500 {
					log.Warn(strings.Repeat("k", kind/26+1)+string(rune('a'+kind%26)), attrs...)
					if kind%100 == 0 {
						synctest.Wait() // the queue is empty
					}
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		flood(20 * time.Second)
		began := s.n
		if began < 60<<20 || began > 70<<20 {
			t.Errorf("%d bytes at first", began)
		}
		flood(20 * time.Second)
		// Beside the lines themselves, one about each kind every five seconds.
		if more := s.n - began; more > 20*4<<10+4*500*256 || more < 20*2<<10 {
			t.Errorf("%d bytes then", more)
		}
		before := s.n
		asynclog.Priority(log).Info("own")
		synctest.Wait()
		if s.n == before {
			t.Error("no line of the program itself")
		}
		l.Close(time.Minute)
	})
}

// counting counts bytes.
type counting struct{ n int }

func (c *counting) Write(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}

// slow is an output whose Close takes until release is closed.
type slow struct {
	closing
	begun, release chan struct{}
}

func (s *slow) Close() error {
	close(s.begun)
	<-s.release
	return s.closing.Close()
}

// TestSlowClose: nobody who logs waits while an output is closed.
func TestSlowClose(t *testing.T) {
	var first sink
	l := asynclog.New(&first)
	s := &slow{closing{takes: -1}, make(chan struct{}), make(chan struct{})}
	l.SetOutput(s)
	l.Flush(time.Minute) // it is in force
	l.SetOutput(nil)
	<-s.begun
	logged := make(chan struct{})
	go func() {
		l.Logger().Info("meanwhile")
		close(logged)
	}()
	select {
	case <-logged:
	case <-time.After(10 * time.Second):
		t.Error("a line waits for the end of Close")
	}
	close(s.release)
	<-logged
	l.Close(time.Minute)
	if !strings.Contains(first.String(), "meanwhile") {
		t.Error("the line is lost")
	}
}
