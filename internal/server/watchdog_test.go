package server_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/server"
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
	defer leak.Goroutines(t)()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	startPoller(t)

	file := filepath.Join(t.TempDir(), "lwango.conf")
	write := func(watchdog string) {
		text := "threads = 2\n" + watchdog + "\n[[listener]]\naddress = \"127.0.0.1:0\"\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
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
	s.File = file
	s.Logger = logtext.Logger(t, log)
	s.Routes = []handlers.Route{{Prefix: "/", Handler: blocking}}
	write(`watchdog = "20ms"`)
	config, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.Start(s, config)
	if err != nil {
		t.Fatal(err)
	}

	for i, setting := range []string{"", "0s", "10ms"} {
		place.Store(int32(i))
		if setting != "" {
			write(`watchdog = "` + setting + `"`)
			if err := srv.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			fetch(t, srv.Addresses()[0])
		}()
		<-begun
		if setting == "0s" {
			if line := log.heldUp(100 * time.Millisecond); line != "" {
				t.Errorf("place %d: %s", i, line)
			}
		} else if log.heldUp(20*time.Second) == "" {
			t.Errorf("place %d is not reported", i)
		}
		free <- struct{}{}
		<-answered
	}

	srv.Stop()
	if err := srv.Wait(); err != nil {
		t.Error(err)
	}
	for close(log); len(log) > 0; {
		if line := <-log; reportsHandler(line) {
			t.Errorf("one more: %s", line)
		}
	}
}

// reportsHandler leaves out reports of loops that come late because the machine is busy.
func reportsHandler(line string) bool {
	return strings.Contains(line, `msg="loop: held up"`) && strings.Contains(line, "TestWatchdogSetting.func")
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
