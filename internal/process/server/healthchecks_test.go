package server_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestHealthChecksEnd: the checks of upstreams begin with the server, go on over a reload, whether
// it succeeds or not, and end with the configuration that asks for them. A file that is only read
// asks nothing.
func TestHealthChecksEnd(t *testing.T) {
	leak.Goroutines(t)
	var checks atomic.Int32
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		checks.Add(1)
	}))
	t.Cleanup(o.Close)
	text := func(more string) string {
		return route("prefix = \"/\"\nmodule = \"proxy\"\naddress = \"" + o.URL + "\"\n" + more)
	}
	start := func(src config.Source, c *config.Config) (*server.Server, error) {
		time.Sleep(10 * time.Millisecond)
		if checks.Load() != 0 {
			t.Error("checked before the start")
		}
		return server.Start(src, c)
	}
	s := serveBy(t, start, source(), text("health = { path = \"/up\", interval = \"100ms\" }\n"))
	goOn := func() {
		t.Helper()
		before := checks.Load()
		wait.Until(t, "checks", func() bool { return checks.Load() > before+1 })
	}
	goOn()
	for range 3 {
		must.Do(t, s.Reload())
	}
	goOn()
	s.write(text("health = { path = \"up\" }\n"))
	if s.Reload() == nil {
		t.Error("a wrong path was accepted")
	}
	goOn()
	s.reload(text(""))
	before := checks.Load()
	time.Sleep(300 * time.Millisecond)
	if checks.Load() > before+1 { // one may have been on its way
		t.Error("checked without being asked to")
	}
	s.reload(text("health = { path = \"/up\", interval = \"1h\" }\n"))
}
