package cache_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

func TestMain(m *testing.M) { leak.Main(m) }

// open makes a store in memory whose clocks stand still.
func open(t testing.TB) *cache.Store {
	t.Helper()
	store := must.Get(cache.Open(cache.Options{Memory: 16 << 20}))(t)
	t.Cleanup(store.Close)
	store.Stand()
	return store
}

// cached is a server behind a cache.
type cached struct {
	*server.Server
	store *cache.Store
}

// Skip puts the clock of the cache forward.
func (c *cached) Skip(d time.Duration) { c.store.Skip(d) }

// start serves h behind a cache.
func start(t testing.TB, m modes.Mode, s cache.Settings, h conn.Handler) *cached {
	t.Helper()
	return startAs(t, m, s, h, false)
}

// patiently lets a request wait for the answer to another one however long a busy machine takes,
// unless the case is that limit.
func patiently(s cache.Settings) cache.Settings {
	if s.Lock == nil {
		s.Lock = new(2 * wait.Patience)
	}
	return s
}

// startAs is start for the handler of a module with handlers.Buffering, or without.
func startAs(t testing.TB, m modes.Mode, s cache.Settings, h conn.Handler, buffering bool) *cached {
	t.Helper()
	c := &cached{store: open(t)}
	env := handlers.Env{Process: around.In(around.Context{Buffering: buffering})}
	c.Server = module.Start(t, m, "/", must.Get(cache.New(c.store, patiently(s), env))(t)(h))
	return c
}

// stats are the store's.
func (c *cached) stats() cache.Stats {
	n, _ := c.store.Stats()
	return n
}

// client reads answers that may be cut.
type client struct{ *server.Client }

// read returns the body of an answer, and the error of one that is cut, or was before it had begun.
func (c *client) read() (string, error) {
	resp, err := http.ReadResponse(c.R, nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusBadGateway {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

// serveAll serves h for all paths.
func serveAll(t testing.TB, h conn.Handler) *server.Server {
	t.Helper()
	return serveAllIn(t, modes.Direct, h)
}

func serveAllIn(t testing.TB, m modes.Mode, h conn.Handler) *server.Server {
	t.Helper()
	return module.Start(t, m, "/", h)
}
