package system_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
)

// TestSocketsStay: WebSockets and event streams outlive reloads, in which no message is lost and
// none comes twice, and an upgrade, after which they have the old process until drain is over.
func TestSocketsStay(t *testing.T) {
	reloads, each, drain := 20, 10, time.Second
	if ci.Enabled() {
		reloads, each, drain = 100, 50, 3*time.Second
	}
	h := openHall(t, fmt.Sprintf("drain = %q\ngrace = \"30s\"", drain))
	for _, way := range ways {
		for range each {
			h.enter(way, false)
			h.enter(way, true)
		}
	}
	var said []string
	say := func(g *guest) { // what is said next, once this one has heard it
		text := strconv.Itoa(len(said))
		must.Do(t, g.say(text))
		said = append(said, text)
		h.hear([]*guest{g}, said)
	}
	sockets := slices.Collect(func(yield func(*guest) bool) {
		for i := 0; i < len(h.all) && yield(h.all[i]); i += 2 {
		}
	})
	for i := range reloads {
		must.Write(t, h.file, fmt.Sprintf("keep_alive_timeout = \"%dm\"\n%s", 1+i%2, h.config))
		must.Do(t, h.Signal(syscall.SIGHUP))
		for done := false; !done; {
			done = strings.Count(h.Log(), "msg=reloaded") > i
			say(sockets[len(said)*7%len(sockets)])
		}
	}
	h.hear(h.all, said)
	t.Logf("%d messages to %d sockets and streams", len(said), len(h.all))

	// The new process has a room of its own.
	old := h.all
	began := time.Now()
	must.Do(t, h.Signal(syscall.SIGUSR2))
	next := h.Logged(t, `upgrade begins.* pid=(\d+)`)[1]
	pid := must.Get(strconv.Atoi(next))(t)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGTERM) })
	say(sockets[0])
	h.Logged(t, "replaced by a new process")
	h.all = nil
	h.connect()
	for _, way := range ways {
		for _, stream := range []bool{false, true} {
			if g := h.enter(way, stream); g.pid != next {
				t.Errorf("%s: a new client has come to process %s, want %s", way, g.pid, next)
			}
		}
	}
	fresh := h.all
	h.all = append(h.all, old...)
	if time.Since(began) < drain/2 { // else it may be over before all is said
		for _, g := range sockets[:len(sockets):len(sockets)] {
			if time.Since(began) < drain/2 {
				say(g)
			}
		}
	}
	for _, g := range old {
		if g.has() < 0 && time.Since(began) < drain {
			t.Fatalf("%s, stream %v: ended with %v", g.way, g.stream, g.err)
		}
	}
	first, last := h.end(old)
	if d := first.Sub(began); d < drain {
		t.Errorf("the first of the old process's ends after %v, want %v of drain", d, drain)
	}
	if d := last.Sub(first); d > 2*time.Second && ci.Enabled() && !race.Enabled {
		t.Errorf("their end takes %v", d)
	}
	for _, g := range old {
		if !slices.Equal(g.heard, said) {
			t.Errorf("%s, stream %v: %d of %d messages", g.way, g.stream, len(g.heard), len(said))
		}
	}
	h.Logged(t, `(?s)drain is over.*msg=stopped`)
	must.Do(t, fresh[0].say("still here"))
	h.hear(fresh, []string{"still here"})
}
