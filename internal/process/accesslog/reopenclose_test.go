package accesslog_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
)

// TestReopenBesideClose: SIGUSR1 may come while a stop closes the logs. The race detector judges.
func TestReopenBesideClose(t *testing.T) {
	for range 20 {
		logs := accesslog.New(logtext.Quiet, logtext.Quiet, nil)
		var tables []*accesslog.Config
		for _, name := range []string{"a", "b", "c"} {
			tables = append(tables, &accesslog.Config{Path: filepath.Join(t.TempDir(), name)})
		}
		sinks := must.Get(logs.Open(tables))(t)
		logs.Use(tables, sinks)
		var all sync.WaitGroup
		all.Go(logs.Reopen)
		all.Go(logs.Close)
		all.Go(func() { logs.CloseWithin(0) })
		all.Wait()
		logs.Close()
	}
}
