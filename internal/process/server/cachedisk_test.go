package server_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// cachedApp is an application with long answers for a cache, and counts requests for them.
func cachedApp(t *testing.T) (conf string, asked *atomic.Int32) {
	asked = new(atomic.Int32)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Cache-Control", "max-age=1000")
		fmt.Fprint(w, r.URL.Path, strings.Repeat("0123456789", 20_000))
	}))
	t.Cleanup(app.Close)
	return fmt.Sprintf(`
[cache]
disk = "kept"
[[site]]
cache = true
[[site.route]]
prefix = "/app"
module = "proxy"
address = %q
`, app.Listener.Addr()), asked
}

// askCached returns Cache-Status of an answer, which has to be whole.
func askCached(t *testing.T, address, path string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp := must.Get(client.Get("http://" + address + path))(t)
	body := must.Body(t, resp)
	if body != path+strings.Repeat("0123456789", 20_000) {
		t.Errorf("%s: %d bytes", path, len(body))
	}
	return resp.Header.Get("Cache-Status")
}

// TestCacheOverUpgrade: what is on disk is found by the process that takes the place of another
// one, as soon as it has the folder, and after a reload, and after a restart.
func TestCacheOverUpgrade(t *testing.T) {
	t.Parallel()
	conf, asked := cachedApp(t)
	u := startUpgraded(t, conf)
	address := u.addresses["tcp"]
	next := 0
	fill := func() {
		t.Helper()
		next = 0
		for i := range 20 {
			askCached(t, address, fmt.Sprint("/app/", i))
		}
		wait.Until(t, "all files are written", func() bool {
			return len(must.Get(filepath.Glob(filepath.Join(u.dir, "kept", "??", "*")))(t)) == 20
		})
	}
	hit := func(what string) { // each time another one, as a miss puts it into memory
		t.Helper()
		pause := 10 * time.Millisecond
		wait.Until(t, "a hit "+what, func() bool {
			if next++; next == 20 {
				t.Fatalf("no hit %s", what)
			}
			time.Sleep(pause) // until the folder is this process's
			pause += pause / 2
			before := asked.Load()
			s := askCached(t, address, fmt.Sprint("/app/", next))
			return strings.Contains(s, "hit") && asked.Load() == before
		})
	}
	fill()
	if out, code := u.command(); code != 0 {
		t.Fatal(out)
	}
	u.servedOnlyBy(u.mustPID())
	hit("after the upgrade")
	u.write("lwango.conf",
		strings.Replace(u.config, `disk = "kept"`, "disk = \"kept\"\nmemory = \"1MiB\"", 1))
	must.Do(t, syscall.Kill(u.mustPID(), syscall.SIGHUP))
	u.logged("reloaded")
	hit("after a reload")
}

// TestCacheComesBack: while no route has a cache, requests may change what its folder has. A reload
// that brings the cache back has it begin empty.
func TestCacheComesBack(t *testing.T) {
	t.Parallel()
	conf, asked := cachedApp(t)
	u := startUpgraded(t, conf)
	address := u.addresses["tcp"]
	kept := func() int {
		return len(must.Get(filepath.Glob(filepath.Join(u.dir, "kept", "??", "*")))(t))
	}
	reload := func(conf string) {
		t.Helper()
		u.write("lwango.conf", conf)
		must.Do(t, syscall.Kill(u.mustPID(), syscall.SIGHUP))
	}
	askCached(t, address, "/app/1")
	wait.Until(t, "a file", func() bool { return kept() == 1 })
	reload(strings.Replace(u.config, "cache = true", "cache = false", 1))
	wait.Until(t, "there is no cache", func() bool { return askCached(t, address, "/app/1") == "" })
	if kept() != 1 {
		t.Error("the folder was cleared")
	}
	before := asked.Load()
	reload(u.config)
	wait.Until(t, "the folder is empty", func() bool { return kept() == 0 })
	wait.Until(t, "there is a cache", func() bool { return askCached(t, address, "/app/1") != "" })
	if asked.Load() == before {
		t.Error("the answer from before is sent")
	}
}

// TestCacheFolder: a folder that cannot be the cache's stops the start.
func TestCacheFolder(t *testing.T) {
	t.Parallel()
	conf, _ := cachedApp(t)
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "kept", "index.html"), "theirs")
	file := filepath.Join(dir, "lwango.conf")
	must.Write(t, file, conf)
	o, _ := server.Parse([]string{"-c", file, "-l", "127.0.0.1:0"},
		flag.NewFlagSet("", flag.ContinueOnError), io.Discard, io.Discard)
	var log strings.Builder
	code := server.NewProgram(config.Builtin()).Main(t.Context(), o, "", io.Discard, &log)
	if !strings.Contains(log.String(), "lwango.conf:3: cache.disk: ") ||
		!strings.Contains(log.String(), "has other files, such as ") || code == 0 {
		t.Errorf("exit code %d, %s", code, log.String())
	}
}
