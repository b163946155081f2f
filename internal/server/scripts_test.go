package server_test

import (
	"reflect"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
)

// ends is a module's settings that name the endings of scripts.
type ends struct {
	Ends []string `toml:"ends"`
}

func (e ends) ScriptEndings() []string { return e.Ends }

// TestEnvOfScripts: a module is told what the routes of its site run, wherever they stand, and
// nothing of other sites.
func TestEnvOfScripts(t *testing.T) {
	got := make(map[string][]string)
	s := source()
	s.Modules = new(handlers.Registry)
	handlers.RegisterModule(s.Modules, "spy", struct{}{}, func(_ struct{}, env handlers.Env) (conn.Handler, error) {
		got[env.Prefix] = env.Scripts
		return func(*conn.Request, *conn.Response) int { return 0 }, nil
	})
	handlers.RegisterModule(s.Modules, "run", ends{}, func(ends, handlers.Env) (conn.Handler, error) {
		return func(*conn.Request, *conn.Response) int { return 0 }, nil
	})
	text := route("prefix = \"/first\"\nmodule = \"spy\"") +
		"\n[[site.route]]\nprefix = \"/a\"\nmodule = \"run\"\nends = [\".php\"]\n" +
		"[[site.route]]\nprefix = \"/b\"\nmodule = \"run\"\nends = [\".py\"]\n" +
		"[[site.route]]\nprefix = \"/last\"\nmodule = \"spy\"\n" +
		"[[site]]\nhost = \"static.example\"\n[[site.route]]\nprefix = \"/other\"\nmodule = \"spy\"\n"
	if _, err := s.Parse("/etc/t.conf", text); err != nil {
		t.Fatal(err)
	}
	php := []string{".php", ".py"}
	if want := map[string][]string{"/first": php, "/last": php, "/other": nil}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
