package server_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestModuleReachesLoops: a module asks each loop of the server what it has counted, also after a
// reload.
func TestModuleReachesLoops(t *testing.T) {
	s := source()
	s.Modules = new(handlers.Registry)
	build := func(_ struct{}, env handlers.Env) (conn.Handler, error) {
		if env.Loops() != nil {
			t.Error("there are loops before the configuration is in force")
		}
		return func(req *conn.Request, resp *conn.Response) int {
			for _, l := range env.Loops() {
				var counts loop.Promise[loop.Stats]
				if err := l.Post(func() { counts.Resolve(l.Stats()) }); err != nil {
					return 500
				}
				stats, err := counts.Await(req.Thread, wait.Patience)
				if err != nil {
					return 500
				}
				fmt.Fprint(resp, "loop ", stats.Ctls > 0, "\n")
			}
			return 200
		}, nil
	}
	handlers.RegisterModule(s.Modules, "counts", struct{}{}, build)
	srv := serve(t, s, "threads = 3\n"+route("prefix = \"/\"\nmodule = \"counts\""))
	for _, when := range []string{"after the start", "after a reload"} {
		if got, want := fetch(t, srv.at), "loop true\nloop true\nloop true\n"; got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
		must.Do(t, srv.Reload())
	}
}
