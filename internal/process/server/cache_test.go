package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
)

// TestCache: a site's cache is around the modules of its routes, but for those that serve files,
// and within what refuses requests.
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

// TestMissInAccessLog: the line of a request that has filled the cache names the upstream, though
// that has sent the rest of its answer long after the head.
func TestMissInAccessLog(t *testing.T) {
	headed := make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		w.Header().Set("Content-Length", "4")
		_, _ = io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		<-headed
		_, _ = io.WriteString(w, "bcd")
	}))
	defer app.Close()
	src := source()
	src.Cache = cache.NewStore()
	dir := t.TempDir()
	src.File = filepath.Join(dir, "lwango.conf")
	up := app.Listener.Addr().String()
	s := serve(t, src, `
[access_log]
path = "log"
format = "{cache} {upstream} {upstream_tries}"
[[listener]]
address = "127.0.0.1:0"
`+route("prefix = '/'\nmodule = 'proxy'\ncache = true\naddress = '"+up+"'"))
	resp := must.Get(http.Get("http://" + s.at + "/"))(t)
	close(headed)
	must.Get(io.ReadAll(resp.Body))(t)
	resp.Body.Close()
	s.end()
	if log := string(must.Get(os.ReadFile(filepath.Join(dir, "log")))(t)); log != "MISS "+up+" 1\n" {
		t.Errorf("log: %q", log)
	}
}
