package cache_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

// TestStoreNotOpen: a store that a program has forgotten to open says so once. One that was closed,
// as in a process that another one replaces, does not.
func TestStoreNotOpen(t *testing.T) {
	for _, row := range []struct {
		opened bool
		want   int
	}{{false, 1}, {true, 0}} {
		log := new(logtext.Buffer)
		store := cache.NewStore()
		if row.opened {
			must.Do(t, store.Configure(cache.Options{Memory: 1 << 20}))
			store.Close()
		}
		layer := must.Get(cache.New(store, cache.Settings{},
			handlers.Env{Logger: logtext.Logger(t, log)}))(t)
		s := server.Start(t, modes.Direct,
			conn.Config{Handler: layer(func(_ *conn.Request, w *conn.Response) int {
				return w.Text(200, "x")
			})})
		for range 2 {
			if a := s.Request("GET /", nil, ""); a.Text != "x" {
				t.Error(a.Status, a.Text)
			}
		}
		if got := strings.Count(log.String(),
			"cache: the store is not open, so that nothing is kept"); got != row.want {
			t.Errorf("opened %v: %d lines, want %d, in %s", row.opened, got, row.want, log)
		}
	}
}
