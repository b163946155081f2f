package config_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/must"
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
	handlers.RegisterModule(s.Modules, "spy", struct{}{},
		func(_ struct{}, env handlers.Env) (conn.Handler, error) {
			got[env.Prefix] = around.Of(env).Scripts
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
	must.Get(s.Parse("/etc/t.conf", text))(t)
	php := []string{".php", ".py"}
	if want := map[string][]string{"/first": php, "/last": php, "/other": nil}; !reflect.DeepEqual(got,
		want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestIndexOfAnotherRoute: what is a script for one route may be an index of another one, which
// then does not send it.
func TestIndexOfAnotherRoute(t *testing.T) {
	dir := t.TempDir()
	text := fmt.Sprintf("[[site]]\n"+
		"[[site.route]]\nprefix = \"/\"\nmodule = \"fastcgi\"\naddress = "+
		"\"127.0.0.1:9000\"\nscript_path = %q\n"+
		"index = [\"index.php\", \"index.html\"]\n"+
		"[[site.route]]\nprefix = \"/old\"\nmodule = \"fastcgi\"\naddress = "+
		"\"127.0.0.1:9000\"\nscript_path = %q\n"+
		"split_path = [\".html\"]\nindex = \"index.html\"\n", dir, dir)
	if _, err := source().Parse("/etc/t.conf", text); err != nil {
		t.Error(err)
	}
}
