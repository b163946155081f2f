package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/asynclog"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestErrorLog: the server's own log goes where the configuration says, a reload changes that, and
// a reload that is refused does not. A file that was moved away is made anew.
func TestErrorLog(t *testing.T) {
	dir := t.TempDir()
	stderr := new(logtext.Buffer)
	logs := asynclog.New(stderr)
	t.Cleanup(func() { logs.Close(time.Minute) })
	src := source()
	src.Logger = logs.Logger()
	src.File = filepath.Join(dir, "lwango.conf")
	text := func(keys string) string {
		return "threads = 1\n[[listener]]\naddress = \"127.0.0.1:0\"\n" + keys
	}
	read := func(name string) string {
		logs.Flush(time.Minute)
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return string(b)
	}
	s := serve(t, src, text("[error_log]\npath = \"a.log\"\nformat = \"json\"\n"))
	if got := read("a.log"); !strings.Contains(got, `"msg":"listening"`) {
		t.Errorf("a.log: %s", got)
	}
	s.write(text("[error_log]\npath = \"b.log\"\n[access_log]\npath = \"none/x\"\n"))
	if s.Reload() == nil {
		t.Error("reloaded")
	}
	if _, err := os.Stat(filepath.Join(dir, "b.log")); err == nil {
		t.Error("a refused reload has made a file")
	}
	s.write(text("[error_log]\npath = \"b.log\"\n[[stream]]\naddress = \"127.0.0.1:0\"\n"))
	if s.Reload() == nil {
		t.Error("reloaded")
	}
	if _, err := os.Stat(filepath.Join(dir, "b.log")); err == nil {
		t.Error("a refused reload has made a file")
	}
	s.reload(text("[error_log]\npath = \"b.log\"\nlevel = \"error\"\n"))
	src.Logger.Warn("hidden")
	src.Logger.Error("seen")
	if got := read("b.log"); !strings.Contains(got, "level=ERROR msg=seen\n") ||
		strings.Contains(got, "hidden") {
		t.Errorf("b.log: %s", got)
	}
	must.Do(t, os.Rename(filepath.Join(dir, "b.log"), filepath.Join(dir, "b.log.1")))
	wait.Until(t, "the file is there", func() bool {
		src.Logger.Error("again")
		return strings.Contains(read("b.log"), "again")
	})
	s.reload(text("[error_log]\npath = \"/dev/full\"\n"))
	src.Logger.Error("where")
	s.reload(text(""))
	src.Logger.Error("back")
	logs.Flush(time.Minute)
	if got := stderr.String(); !strings.Contains(got, "msg=where") || !strings.Contains(got,
		"msg=back") || strings.Contains(got, "seen") || strings.Contains(got, "listening") {
		t.Errorf("stderr: %s", got)
	}
}

// TestErrorLogStartFails: why a start has failed stands on stderr.
func TestErrorLogStartFails(t *testing.T) {
	stderr := new(logtext.Buffer)
	logs := asynclog.New(stderr)
	src := source()
	src.Logger = logs.Logger()
	src.File = filepath.Join(t.TempDir(), "lwango.conf")
	taken := must.Listen(t)
	defer taken.Close()
	must.Write(t, src.File, "[error_log]\npath = \"a.log\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n"+
		"[debug]\naddress = \""+taken.Addr().String()+"\"\n")
	c := must.Get(src.Load())(t)
	_, err := server.Start(src, c)
	src.Logger.Error("cannot start", "error", err)
	logs.Close(time.Minute)
	if err == nil || !strings.Contains(stderr.String(), "cannot start") {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

// TestRequestLinesNameRoutes: what package conn logs of a request says of which site and which
// route it is.
func TestRequestLinesNameRoutes(t *testing.T) {
	var log logtext.Buffer
	src := source()
	src.Counters = new(config.Counters)
	src.Logger = logtext.Logger(t, &log)
	src.Modules.HandleFunc("broken", func(*conn.Request, *conn.Response) int { return 1000 })
	s := serve(t, src, "[[site]]\nhost = \"a.test\"\n[[site.route]]\nprefix = \"/p\"\n"+
		"handler = \"broken\"\n")
	ask(t, s.at, "a.test", "/p/x")
	s.end()
	if !strings.Contains(log.String(), "target=/p/x site=a.test route=/p\n") {
		t.Error(log.String())
	}
}
