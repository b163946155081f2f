package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/internal/config"
	"github.com/lwango/lwango/internal/server"
	"github.com/lwango/lwango/internal/test/must"
)

// TestCache: a site's cache is around the modules of its routes, but for those that serve files, and
// within what refuses requests.
func TestCache(t *testing.T) {
	var asked atomic.Int32
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100, public")
		fmt.Fprintf(w, "%s %d", r.URL, asked.Add(1))
	}))
	defer app.Close()
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "users"), users)
	address, _ := serveProgram(t, server.NewProgram(config.Builtin()), strings.NewReplacer(
		"APP", app.Listener.Addr().String(), "DIR", dir).Replace(`
[cache]
memory = "8MiB"
[[site]]
cache = { ttl = { 404 = "10s" }, bypass = [{ header = { Cookie = "*wordpress_logged_in_*" } }] }
[[site.route]]
prefix = "/"
module = "proxy"
address = "APP"
[[site.route]]
prefix = "/plain"
module = "proxy"
address = "APP"
cache = false
[[site.route]]
prefix = "/staff"
module = "proxy"
address = "APP"
auth = { realm = "staff", htpasswd = "DIR/users" }
[[site.route]]
prefix = "/files"
module = "serve_files"
path = "DIR"
`))
	for i, step := range []struct{ path, user, cookie, want string }{
		{"/a", "", "", "200 /a 1 lwango; fwd=uri-miss; stored"},
		{"/a", "", "", "200 /a 1 lwango; hit; ttl=100"},
		{"/a", "", "x=y; wordpress_logged_in_5=z", "200 /a 2 lwango; fwd=bypass"},
		{"/a", "", "x=y", "200 /a 1 lwango; hit; ttl=100"},
		{"/plain", "", "", "200 /plain 3 "},
		{"/staff", "ann", "", "200 /staff 4 lwango; fwd=uri-miss; stored"},
		{"/staff", "", "", "401"},
		{"/staff", "eve", "", "401"},
		{"/staff", "bob", "", "200 /staff 4 lwango; hit; ttl=100"},
		{"/files/users", "", "", "200 " + users + " "},
	} {
		req, _ := http.NewRequest("GET", "http://"+address+step.path, nil)
		if step.user != "" {
			req.SetBasicAuth(step.user, "secret")
		}
		if step.cookie != "" {
			req.Header.Set("Cookie", step.cookie)
		}
		resp := must.Get(http.DefaultClient.Do(req))(t)
		body := must.Body(t, resp)
		got := fmt.Sprint(resp.StatusCode, " ", body, " ", resp.Header.Get("Cache-Status"))
		if got != step.want && !(step.want == "401" && resp.StatusCode == 401) {
			t.Errorf("step %d, %s: %q, want %q", i, step.path, got, step.want)
		}
	}
}
