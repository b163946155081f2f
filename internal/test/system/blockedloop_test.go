package system_test

import (
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/program"
)

var held sync.Mutex

// holdLock stops its loop when it is asked for twice.
func holdLock(req *lwango.Request, _ *lwango.Response) int {
	held.Lock()
	defer held.Unlock()
	_ = req.Sleep(time.Hour)
	return 200
}

// spin computes for ever.
func spin() {
	for n := 1; n > 0; n ^= 2 {
	}
}

// TestStopOfAStuckLoop: a handler that blocks its loop for good, or computes for ever, does not
// keep Main from its end; the log says where it was.
func TestStopOfAStuckLoop(t *testing.T) {
	servers := map[string]*program.Server{}
	for _, path := range []string{"/lock", "/spin"} {
		s := startStrained(t, "threads = 1\ngrace = \"1ms\"\nwatchdog = \"20ms\"")
		for range 2 {
			go func() { _, _ = fetch(s, path) }()
		}
		servers[path] = s
	}
	for path, s := range servers {
		s.Logged(t, `msg="loop: held up" .*blockedloop_test.go:`)
		if err := s.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(path, err)
		}
	}
	for path, s := range servers {
		if code := s.End(t, 0); code != 1 {
			t.Errorf("%s: exit code %d", path, code)
		}
		if !regexp.MustCompile(`level=ERROR msg="loop: held up, it does not end" ` +
			`place=\S+/blockedloop_test.go:\d+ (instead=.* suspended=.*)?stack=`).MatchString(s.Log()) {
			t.Errorf("%s: the log has no place\n%s", path, s.Log())
		}
	}
}
