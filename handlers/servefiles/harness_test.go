package servefiles_test

import (
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/test/files"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

const (
	etag         = files.ETag
	lastModified = files.LastModified
)

var (
	modified = files.Modified
	big      = files.Big
	tree     = files.Tree
)

func build(t testing.TB, env handlers.Env, change func(*servefiles.Settings)) (conn.Handler,
	error) {
	t.Helper()
	return module.Build(t, servefiles.Register, "serve_files", env, change)
}

// start serves a folder at a prefix with settings that change may change.
func start(t testing.TB, m modes.Mode, root, prefix string,
	change func(*servefiles.Settings)) *server.Server {
	t.Helper()
	h, err := build(t, handlers.Env{}, func(s *servefiles.Settings) {
		s.Path = root
		if change != nil {
			change(s)
		}
	})
	must.Do(t, err)
	return module.Start(t, m, prefix, h)
}
