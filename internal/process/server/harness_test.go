package server_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	testserver "github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/pubsub/redis"
)

func source() config.Source {
	return config.Source{Modules: config.Builtin(), Broker: redis.Broker, Logger: logtext.Quiet}
}

// route makes the smallest configuration around the lines of a route, which begin on line 3.
func route(lines string) string { return "[[site]]\n[[site.route]]\n" + lines }

// running is a server that serve has started.
type running struct {
	*server.Server
	t    *testing.T
	file string // its configuration
	at   string // the first of its addresses
	stop func() // begins its stop
	end  func() // stops it and waits for it; the end of the test does that if nothing else has
}

// serve starts a server with a configuration, which goes to src.File if that is set, else to a
// folder of its own. An empty text leaves src.File as it is. Where neither src nor the text has a
// listener, the server listens at a free port. It stops with the test, which fails if Wait returns
// an error.
func serve(t *testing.T, src config.Source, text string) *running {
	t.Helper()
	return serveBy(t, server.Start, src, text)
}

// serveBy is serve with another function that starts the server.
func serveBy(t *testing.T, start func(config.Source, *config.Config) (*server.Server, error),
	src config.Source, text string) *running {
	t.Helper()
	own := src.File == ""
	if own {
		src.File = filepath.Join(t.TempDir(), "lwango.conf")
	}
	s := &running{t: t, file: src.File}
	if own || text != "" {
		s.write(text)
		if len(src.Listen) == 0 && !strings.Contains(text, "[[listener]]") {
			src.Listen = []string{"127.0.0.1:0"}
		}
	}
	c, err := src.Load()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if s.Server, err = start(src, c); err != nil {
		t.Fatal(err)
	}
	s.at = s.Addresses()[0]
	s.stop = sync.OnceFunc(s.Stop)
	s.end = sync.OnceFunc(func() {
		s.stop()
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.end)
	return s
}

// write gives the server another configuration, for the next reload.
func (s *running) write(text string) {
	s.t.Helper()
	must.Write(s.t, s.file, text)
}

// reload gives the server another configuration, and lets it read that.
func (s *running) reload(text string) {
	s.t.Helper()
	s.write(text)
	must.Do(s.t, s.Reload())
}

// sites serves the sites of a configuration, which is in a folder, without the rest of a server.
func sites(t *testing.T, src config.Source, dir, text string) *testserver.Server {
	t.Helper()
	c, err := src.Parse(filepath.Join(dir, "t.conf"), text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return testserver.Start(t, modes.Direct, conn.Config{Handler: c.Router.Serve, Logger: src.Logger})
}
