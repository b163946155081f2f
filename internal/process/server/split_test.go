package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// TestSplitIsLogged: the log names the entry of split whose upstream has answered.
func TestSplitIsLogged(t *testing.T) {
	up := func() string {
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	dir, main, beta := t.TempDir(), up(), up()
	src := source()
	src.File = filepath.Join(dir, "lwango.conf")
	config := fmt.Sprintf(`threads = 1
[[listener]]
address = "127.0.0.1:0"
[access_log]
path = "log"
format = "{target} {upstream} {upstream_split}"
[[site.route]]
prefix = "/all"
module = "proxy"
address = %q
[[site.route.split]]
name = "beta"
share = 100
address = %q
[[site.route]]
prefix = "/few"
module = "proxy"
address = "http://%s"
split = [{ name = "gamma", share = 0.5, cookie = { v = "gamma" }, address = "http://%s" }]
split_by = "{cookie.id}"
`, main, beta, main, beta)
	s := serve(t, src, config)
	ask(t, s.at, "x", "/all")
	ask(t, s.at, "x", "/few")
	want := "/all " + beta + " beta\n/few http://" + main + " -\n"
	s.reload(config) // what was logged is in the file then
	if text := must.Get(os.ReadFile(filepath.Join(dir, "log")))(t); string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
}
