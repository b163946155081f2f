package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// ask gets a path of a host, and returns the header of the answer.
func ask(t *testing.T, address, host, path string) http.Header {
	t.Helper()
	req := must.Get(http.NewRequest("GET", "http://"+address+path, nil))(t)
	req.Host, req.Close = host, true
	resp := must.Get((&http.Transport{}).RoundTrip(req))(t)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Header
}

// TestAccessLogsOfSites: a site has a log of its own, or a format of its own in the server's file,
// and a reload can change which. Nothing is left behind.
func TestAccessLogsOfSites(t *testing.T) {
	leak.Goroutines(t)
	dir := t.TempDir()
	site := func(host, log string) string {
		return fmt.Sprintf(
			"[[site]]\nhost = %q\n%s\n[[site.route]]\nprefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n",
			host, log)
	}
	text := func(server string, sites ...string) string {
		return "threads = 1\n[[listener]]\naddress = \"127.0.0.1:0\"\n" + server + strings.Join(sites, "")
	}
	const form = `format = "{host} {target}"` + "\n"
	all := "[access_log]\npath = \"all\"\n" + form
	src := source()
	src.File = filepath.Join(dir, "lwango.conf")
	s := serve(t, src, text(all, site("plain", ""),
		site("own", "[site.access_log]\npath = \"own\""),
		site("shared", "[site.access_log]\npath = \"./own\"\nformat = \"own {target}\""),
		site("other",
			"[site.access_log]\nformat = \"other {target}\"\n[[site.rule]]\npath = \"/denied\"\ndeny = "+
				"403")))
	hosts := []string{"plain", "own", "shared", "other", "unknown"}
	for _, host := range hosts {
		ask(t, s.at, host, "/1")
	}
	ask(t, s.at, "other", "/denied")

	// All that was logged is in the files of before.
	s.reload(text(all, site("plain", "[site.access_log]\npath = \"plain\""), site("own", ""),
		site("shared", ""), site("other", "")))
	for name, want := range map[string]string{
		"all": "plain /1\nother /1\nunknown /1\nother /denied\n", // the first site answers for unknown
		"own": "own /1\nown /1\n"} {
		if got := must.Read(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		}
	}
	for _, host := range hosts {
		ask(t, s.at, host, "/2")
	}

	// A reload that fails changes nothing.
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "unread"), 0o600))
	s.write(text(all, site("plain", "[site.access_log]\npath = \"new\""),
		site("own", "[site.access_log]\npath = \"unread\"")))
	if err := s.Reload(); err == nil ||
		!strings.Contains(err.Error(),
			".conf:18: site.access_log.path: open "+dir+"/unread: no such device or address") {
		t.Fatal(err)
	}
	ask(t, s.at, "plain", "/3")

	// Without the server's log, only sites with one of their own are logged.
	s.reload(text("", site("plain", ""),
		site("own", "[site.access_log]\npath = \"own\"\nformat = \"{target}\"")))
	for _, host := range hosts {
		ask(t, s.at, host, "/4")
	}
	s.end()
	for name, want := range map[string]string{
		"all": "plain /1\nother /1\nunknown /1\nother /denied\nown /2\nshared /2\nother /2\n",
		"own": "own /1\nown /1\n/4\n", "plain": "plain /2\nunknown /2\nplain /3\n"} {
		if got := must.Read(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		}
	}
}

// TestAccessLogUnwritable: what the server's user may not write is said before a start or a reload.
func TestAccessLogUnwritable(t *testing.T) {
	dir := t.TempDir()
	for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		must.Do(t, os.Chmod(path, 0o755))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "log"), nil, 0o444))
	must.Do(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // and ends with the goroutine
		if os.Geteuid() == 0 {
			const nobody, same = 65534, ^uintptr(0)
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, nobody, same); errno != 0 {
				t.Errorf("setresuid: %v", errno)
			}
		}
		_, err := source().Parse(filepath.Join(dir, "t.conf"),
			"[access_log]\npath = \"log\"\n[[site]]\nhost = \"a\"\n[site.access_log]\npath = \"new\"")
		errs <- err
	}()
	want := fmt.Sprintf("%[1]s/t.conf:2: access_log.path: open %[1]s/log: permission denied\n"+
		"%[1]s/t.conf:6: site.access_log.path: open %[1]s/new: permission denied", dir)
	if err := <-errs; err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestAccessLogFullServes: requests are answered as ever where no line can be written, and the end
// of the server tells how many lines were lost.
func TestAccessLogFullServes(t *testing.T) {
	s, text := source(), new(logtext.Buffer)
	s.Logger = logtext.Logger(t, text)
	srv := serve(t, s, "threads = 1\n[access_log]\npath = \"/dev/full\"\n"+
		route("prefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n"))
	const n = 50
	for range n {
		if got := fetch(t, srv.at); got != "x" {
			t.Errorf("got %q", got)
		}
	}
	srv.end()
	if strings.Count(text.String(), "cannot be written") != 1 ||
		!strings.Contains(text.String(), fmt.Sprintf("path=/dev/full lost=%d\n", n)) {
		t.Error(text.String())
	}
}

// TestAccessLogUnderWay: the line of a request during which a reload has given the log another path
// is in the new file.
func TestAccessLogUnderWay(t *testing.T) {
	dir := t.TempDir()
	logs := func(name string) string {
		return "threads = 1\n[access_log]\npath = \"" + name + "\"\nformat = \"" + name + " {target}\"\n"
	}
	began, over := make(chan struct{}), make(chan struct{})
	src := source()
	src.File = filepath.Join(dir, "lwango.conf")
	src.Routes = []handlers.Route{{Prefix: "/",
		Handler: func(req *conn.Request, _ *conn.Response) int {
			close(began)
			_ = req.Await(wait.Patience, func(context.Context) error { <-over; return nil })
			return 204
		}}}
	s := serve(t, src, logs("old"))
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		ask(t, s.at, "a", "/x")
	}()
	<-began
	s.reload(logs("new"))
	close(over)
	<-answered
	s.end()
	if old, now := must.Read(t, filepath.Join(dir, "old")), must.Read(t,
		filepath.Join(dir, "new")); old != "" || now != "new /x\n" {
		t.Errorf("old: %q, new: %q", old, now)
	}
}

// TestAccessLogOfRoutes: a route has a log of its own, or none, or lines by condition, and takes
// what it does not say from its site, and that from the server. A request that a rule leads to
// another route is logged there.
func TestAccessLogOfRoutes(t *testing.T) {
	dir := t.TempDir()
	src := source()
	src.File = filepath.Join(dir, "lwango.conf")
	src.Modules.HandleFunc("answers", func(req *conn.Request, resp *conn.Response) int {
		resp.Header().Set("X-Own", "a \"b\"")
		if req.Path() == "/some/fails" {
			return 500
		}
		return 204
	})
	s := serve(t, src, `threads = 1
[[listener]]
address = "127.0.0.1:0"
[access_log]
path = "all"
format = "{target} {answer.x-own}"
[[map]]
name = "wanted"
from = "{query.log}"
values = { no = "0", "" = "" }
default = "1"
[[site]]
[[site.route]]
prefix = "/"
handler = "answers"
[[site.route]]
prefix = "/off"
handler = "answers"
access_log = false
[[site.route]]
prefix = "/own"
handler = "answers"
access_log = { path = "own", json = { t = "{target}", s = "{status}", f = "{answer.X-Own}", c = "{cookie.id}" } }
[[site.route]]
prefix = "/some"
handler = "answers"
access_log = { statuses = ["5xx"] }
[[site.route]]
prefix = "/if"
handler = "answers"
access_log = { if = "{wanted}" }
[[site.route]]
prefix = "/moved"
handler = "answers"
access_log = false
[[site.route.rule]]
rewrite = "/x"
[[site]]
host = "quiet.test"
access_log = false
[[site.route]]
prefix = "/"
handler = "answers"
[[site.route]]
prefix = "/loud"
handler = "answers"
access_log = { path = "own", format = "{target}" }
`)
	for _, path := range []string{"/1", "/off", "/own?q=1", "/some/works", "/some/fails", "/if?log=yes",
		"/if?log=no", "/if", "/moved"} {
		ask(t, s.at, "a", path)
	}
	ask(t, s.at, "quiet.test", "/2")
	ask(t, s.at, "quiet.test", "/loud")
	s.end()
	const own = ` a\x20\x22b\x22` + "\n"
	for name, want := range map[string]string{
		"all": "/1" + own + "/some/fails" + own + "/if?log=yes" + own + "/moved" + own,
		"own": `{"f":"a \"b\"","s":204,"t":"/own?q=1"}` + "\n/loud\n",
	} {
		if got := must.Read(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		}
	}
}
