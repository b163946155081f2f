package system_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestSocketsStop: with thousands of idle sockets a reload leaves all alone, and a stop tells each within
// two seconds.
func TestSocketsStop(t *testing.T) {
	many := 300
	if ci.Enabled() && !race.Enabled && !invariants.Enabled {
		many = 5000
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Cur < uint64(2*many)+2000 {
		t.Skipf("descriptors: %d, %v", files.Cur, err)
	}
	h := openHall(t, fmt.Sprintf("max_connections = %d\ngrace = \"1m\"", 2*many))
	for i := range many {
		way := "tcp"
		switch {
		case i%5 == 1:
			way = "tls"
		case i%5 == 2:
			way = "HTTP/2"
		}
		h.enter(way, false)
		if i%10 < 3 {
			h.enter(way, true)
		}
	}
	must.Write(t, h.file, "keep_alive_timeout = \"1m\"\n"+h.config)
	must.Do(t, h.Signal(syscall.SIGHUP))
	wait.Until(t, "the reload", func() bool { return strings.Contains(h.Log(), "msg=reloaded") })
	must.Do(t, h.all[0].say("after the reload"))
	h.hear(h.all, []string{"after the reload"})

	began := time.Now()
	must.Do(t, h.Signal(syscall.SIGTERM))
	_, last := h.end(h.all)
	took := last.Sub(began)
	if code := h.End(t, 0); code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Logf("%d sockets and streams: told within %v", len(h.all), took)
	if took > 2*time.Second && ci.Enabled() && !race.Enabled {
		t.Errorf("the last is told after %v", took)
	}
}
