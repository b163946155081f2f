package server_test

import (
	"bytes"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
)

// liveLog passes a log on, line by line.
type liveLog chan string

func (l liveLog) Write(p []byte) (int, error) {
	l <- string(bytes.TrimSpace(p))
	return len(p), nil
}

// The setting works from the start and after a reload, off and on.
func TestWatchdogSetting(t *testing.T) {
	leak.Goroutines(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	startPoller(t)

	text := func(watchdog string) string { return "threads = 2\nwatchdog = " + watchdog + "\n" }
	log := make(liveLog, 1000)
	var place atomic.Int32
	begun, free := make(chan struct{}, 1), make(chan struct{})
	blocking := func(*conn.Request, *conn.Response) int {
		begun <- struct{}{}
		switch place.Load() { // not the same line each time
		case 0:
			<-free
		case 1:
			<-free
		case 2:
			<-free
		}
		return 0
	}
	s := source()
	s.Logger = logtext.Logger(t, log)
	s.Routes = []handlers.Route{{Prefix: "/", Handler: blocking}}
	srv := serve(t, s, text("'20ms'"))

	for i, setting := range []string{"", "-1", "'10ms'"} {
		place.Store(int32(i))
		if setting != "" {
			srv.reload(text(setting))
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			fetch(t, srv.at)
		}()
		<-begun
		if setting == "-1" {
			if line := log.heldUp(100 * time.Millisecond); line != "" {
				t.Errorf("place %d: %s", i, line)
			}
		} else if log.heldUp(20*time.Second) == "" {
			t.Errorf("place %d is not reported", i)
		}
		free <- struct{}{}
		<-answered
	}

	srv.end()
	for close(log); len(log) > 0; {
		if line := <-log; reportsHandler(line) {
			t.Errorf("one more: %s", line)
		}
	}
}

// reportsHandler leaves out reports of loops that come late because the machine is busy.
func reportsHandler(line string) bool {
	return strings.Contains(line, `msg="loop: held up"`) &&
		strings.Contains(line, "TestWatchdogSetting.func")
}

// heldUp waits for a report of the handler and returns its line, or nothing.
func (l liveLog) heldUp(patience time.Duration) string {
	timeout := time.After(patience)
	for {
		select {
		case line := <-l:
			if reportsHandler(line) {
				return line
			}
		case <-timeout:
			return ""
		}
	}
}
