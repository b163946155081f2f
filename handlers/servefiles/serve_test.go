package servefiles_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/files"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

func TestPaths(t *testing.T) {
	root := tree(t)
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		files.Paths(t, start(t, m, root, "/", nil), nil)
		files.Paths(t, start(t, m, root, "/static", nil), []files.Path{
			{"GET /static/a.txt", 200, "0123456789", "below a prefix"},
			{"GET /static/", 200, "<h1>root</h1>", ""},
			{"GET /static", 301, "/static/", "the prefix is a folder too"},
			{"GET /static?x", 301, "/static/?x", ""},
			{"GET /static/sub", 301, "/static/sub/",
				"the whole path, not what is below the prefix"},
			{"GET /static/.git/config", 404, "", ""},
			{"GET /static/../a.txt", 404, "", "another route's path"},
			{"GET /staticx", 404, "", ""},
		})
	}, modes.Plain, modes.Direct)
}

// TestRefusedSymlinkIsLogged: the client is told nothing of a link that is refused, and the
// operator what to do.
func TestRefusedSymlinkIsLogged(t *testing.T) {
	root := tree(t)
	for name, want := range map[string]string{
		"link-out":          "follow_symlinks",
		"link-out-folder/x": "follow_symlinks",
		"link-absolute":     "follow_symlinks",
		"link-loop":         "too many levels of symbolic links",
		"none":              "",
		"link-broken":       "",
	} {
		var log logtext.Buffer
		h, err := build(t, handlers.Env{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			func(s *servefiles.Settings) { s.Path = root })
		must.Do(t, err)
		s := module.Start(t, modes.Plain, "/", h)
		for range 3 { // and more than once a second it is not said
			if got := s.Request("GET /"+name, nil, ""); got.StatusCode != 404 {
				t.Errorf("%s: %d", name, got.StatusCode)
			}
		}
		text := log.String()
		if want == "" && text != "" ||
			want != "" && (!strings.Contains(text, want) ||
				!strings.Contains(text, "name="+name+" ")) {
			t.Errorf("%s: logged %q, want %q", name, text, want)
		}
		if n := strings.Count(text, "\n"); n > 2 { // the clock may have gone on to the next second
			t.Errorf("%s: %d lines", name, n)
		}
	}
}

// TestFollowSymlinks: links lead anywhere that has files, and nothing else changes.
func TestFollowSymlinks(t *testing.T) {
	s := start(t, modes.Direct, tree(t), "/", func(s *servefiles.Settings) {
		s.FollowSymlinks = true
	})
	for line, want := range map[string]string{
		"GET /link-out": "secret", "GET /link-out-folder/x.txt": "secret",
		"GET /link-absolute": "0123456789",
		"GET /link-file":     "0123456789", "GET /link-folder/page.html": "<h1>page</h1>",
		"GET /link-loop": "404", "GET /link-broken": "404", "GET /link-device": "404",
		"GET /.hidden":          "404",
		"GET /link-magic":       "404", // it leads through a link of /proc
		"GET /..%2foutside.txt": "400", "GET /sub/..%2f..%2foutside.txt": "400",
	} {
		if got := s.Request(line, nil, ""); got.Text != want && fmt.Sprint(got.StatusCode) != want {
			t.Errorf("%s: %d %q, want %s", line, got.StatusCode, got.Text, want)
		}
	}
}

func TestMethods(t *testing.T) { files.Methods(t, start(t, modes.Plain, tree(t), "/", nil)) }

func TestFields(t *testing.T) {
	root := tree(t)
	s := start(t, modes.Plain, root, "/", func(s *servefiles.Settings) {
		s.Types = map[string]string{"GPX": "application/gpx+xml", ".html": "text/html"}
		s.CacheControl = "max-age=60"
	})
	plain := start(t, modes.Plain, root, "/", nil)
	for _, c := range []struct {
		server *server.Server
		path   string
		fields map[string]string
	}{
		{s, "/a.txt", map[string]string{
			"Content-Type": "text/plain; charset=utf-8", "ETag": etag,
			"Last-Modified": lastModified, "Accept-Ranges": "bytes", "Cache-Control": "max-age=60",
		}},
		{s, "/track.gpx", map[string]string{"Content-Type": "application/gpx+xml"}},
		{s, "/", map[string]string{"Content-Type": "text/html"}},
		{s, "/nothing", map[string]string{"Cache-Control": "", "Accept-Ranges": ""}},
		{s, "/sub", map[string]string{"Cache-Control": ""}},
		{plain, "/", map[string]string{"Content-Type": "text/html; charset=utf-8",
			"Cache-Control": ""}},
		{plain, "/A.HTML", map[string]string{"Content-Type": "text/html; charset=utf-8"}},
		{plain, "/track.gpx", map[string]string{"Content-Type": "application/octet-stream"}},
		{plain, "/noextension", map[string]string{"Content-Type": "application/octet-stream"}},
		{plain, "/link-file", map[string]string{"Content-Type": "application/octet-stream",
			"ETag": etag}},
	} {
		for range 2 { // the second answer takes its values from the cache
			got := c.server.Request("GET "+c.path, nil, "")
			for name, want := range c.fields {
				if v := got.Header.Get(name); v != want {
					t.Errorf("%s: %s: got %q, want %q", c.path, name, v, want)
				}
			}
		}
	}
}

// TestSources: what holds the source of a script is not sent on a site that runs scripts, unless
// that is asked for.
func TestSources(t *testing.T) {
	root := t.TempDir()
	const secret = "<?php /* secret */"
	sources := []string{"a.php", "A.PHP", "config.php.save.1", "a.php.txt", "#config.php#",
		"config.php~", "lib.inc", "a.py"}
	for _, name := range append(sources, "a.pyc", "a.phpinfo") {
		must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(secret), 0o644))
	}
	for _, c := range []struct {
		scripts []string
		sent    bool // script_sources
		status  int
	}{{nil, false, 200}, {[]string{".php", ".py"}, false, 404},
		{[]string{".php", ".py"}, true, 200}} {
		h, err := build(t, handlers.Env{Process: around.In(around.Context{Scripts: c.scripts})},
			func(s *servefiles.Settings) {
				s.Path, s.ScriptSources, s.Fallback = root, c.sent, "a.phpinfo"
			})
		must.Do(t, err)
		s := module.Start(t, modes.Direct, "/", h)
		for _, name := range sources {
			if got := s.Request("GET /"+url.PathEscape(name), nil, ""); got.StatusCode != c.status {
				t.Errorf("scripts %q, script_sources %v, %s: %d", c.scripts, c.sent, name,
					got.StatusCode)
			}
		}
		if got := s.Request("GET /a.pyc", nil, ""); got.Text != secret {
			t.Errorf("scripts %q: another file: %d", c.scripts, got.StatusCode)
		}
	}
}

// A file that changes has new values with the next request, and one from the future is not dated
// later than the answer.
func TestChange(t *testing.T) {
	root := tree(t)
	s := start(t, modes.Plain, root, "/", nil)
	file := filepath.Join(root, "a.txt")
	if got := s.Request("GET /a.txt", nil, ""); got.Header.Get("ETag") != etag {
		t.Fatalf("ETag %q", got.Header.Get("ETag"))
	}
	must.Do(t, os.Chtimes(file, modified, modified.Add(time.Nanosecond)))
	if got := s.Request("GET /a.txt", nil, ""); got.Header.Get("ETag") == etag ||
		got.Header.Get("Last-Modified") != lastModified {
		t.Errorf("touched: %v", got.Header)
	}
	must.Do(t, os.WriteFile(file, []byte("new"), 0o644))
	must.Do(t, os.Chtimes(file, modified, modified))
	if got := s.Request("GET /a.txt", nil, ""); got.Header.Get("ETag") == etag ||
		got.Text != "new" {
		t.Errorf("rewritten: %v %q", got.Header, got.Text)
	}
	must.Do(t, os.Chtimes(file, modified, time.Now().Add(time.Hour)))
	got := s.Request("GET /a.txt", nil, "")
	date, err := http.ParseTime(got.Header.Get("Date"))
	must.Do(t, err)
	last, err := http.ParseTime(got.Header.Get("Last-Modified"))
	must.Do(t, err)
	if last.After(date) {
		t.Errorf("Last-Modified %v is later than Date %v", last, date)
	}
	must.Do(t, os.Remove(file))
	if got := s.Request("GET /a.txt", nil, ""); got.StatusCode != 404 {
		t.Errorf("removed: %d", got.StatusCode)
	}
}

// A file that becomes shorter while it is sent ends the connection: the length was promised.
func TestTruncatedWhileSent(t *testing.T) {
	root := tree(t)
	file := filepath.Join(root, "long.bin")
	must.Do(t, os.WriteFile(file, nil, 0o644))
	must.Do(t, os.Truncate(file, 256<<20))
	s := start(t, modes.Plain, root, "/", nil)
	c := s.Dial()
	fmt.Fprint(c, "GET /long.bin HTTP/1.1\r\nHost: a\r\n\r\n")
	r := bufio.NewReader(c)
	answer, err := http.ReadResponse(r, nil)
	must.Do(t, err)
	defer answer.Body.Close()
	if answer.ContentLength != 256<<20 {
		t.Fatalf("Content-Length %d", answer.ContentLength)
	}
	_, err = io.CopyN(io.Discard, answer.Body, 1<<20)
	must.Do(t, err)
	must.Do(t, os.Truncate(file, 0))
	if n, err := io.Copy(io.Discard, answer.Body); !errors.Is(err, io.ErrUnexpectedEOF) &&
		!errors.Is(err, unix.ECONNRESET) {
		t.Errorf("after %d more bytes: %v", n, err)
	}
	if got := s.Request("GET /a.txt", nil, ""); got.StatusCode != 200 {
		t.Errorf("afterwards: %d", got.StatusCode)
	}
}

// Without a descriptor to open the file with, a client is asked to come again, and is served when
// it does.
func TestNoDescriptors(t *testing.T) {
	var log logtext.Buffer
	root := tree(t)
	h, err := build(t, handlers.Env{Dir: root, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		func(s *servefiles.Settings) { s.Path = "." })
	must.Do(t, err)
	s := module.Start(t, modes.Plain, "/", h)
	c := s.Dial()
	ask := func() server.Answer { return c.Do("GET", "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n") }
	if got := ask(); got.StatusCode != 200 {
		t.Fatalf("before: %d", got.StatusCode)
	}
	var limit unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	restore := func() { must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }
	defer restore()
	// To use up what is free would not do: the server may close the first answer's file after that.
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: limit.Max}))
	if got := ask(); got.StatusCode != 503 || got.Header.Get("Retry-After") != "1" {
		t.Errorf("without descriptors: %d %v", got.StatusCode, got.Header)
	}
	ask()
	restore()
	if got := ask(); got.StatusCode != 200 {
		t.Errorf("afterwards: %d", got.StatusCode)
	}
	if text := log.String(); !strings.Contains(text, "name=a.txt") ||
		!strings.Contains(text, "too many open files") {
		t.Errorf("the log says %q", text)
	}
}

func TestErrors(t *testing.T) {
	root := tree(t)
	for _, c := range []struct {
		change    func(*servefiles.Settings)
		key, want string
	}{
		{func(s *servefiles.Settings) { s.Path = "" }, "path",
			"path: missing: the folder whose files are served"},
		{func(s *servefiles.Settings) { s.Path = root + "/nothing" }, "path",
			fmt.Sprintf("path: cannot open the folder %q: no such file or directory",
				root+"/nothing")},
		{func(s *servefiles.Settings) { s.Path = "a.txt" }, "path",
			fmt.Sprintf("path: cannot open the folder %q: not a directory", root+"/a.txt")},
		{func(s *servefiles.Settings) { s.Index = []string{"sub/index.html"} }, "index",
			`index: expected the name of a file, not "sub/index.html"`},
		{func(s *servefiles.Settings) { s.Index = []string{""} }, "index",
			`index: expected the name of a file, not ""`},
		{func(s *servefiles.Settings) { s.Fallback = "../outside.txt" }, "fallback",
			`fallback: expected a file below path, not "../outside.txt"`},
		{func(s *servefiles.Settings) { s.Index = []string{"index.html", "index.php"} }, "index",
			`index: "index.php" is a script, and its source would be sent (script_sources = true allows that)`},
		{func(s *servefiles.Settings) { s.Fallback = "/app.php" }, "fallback",
			`fallback: "/app.php" is a script, and its source would be sent (script_sources = true allows that)`},
		{func(s *servefiles.Settings) { s.CacheControl = "a\nb" }, "cache_control",
			"cache_control: a header value has no control characters"},
		{func(s *servefiles.Settings) { s.Types = map[string]string{".x": "text"} }, "types",
			`types: .x: expected a media type, such as text/plain, not "text"`},
		{func(s *servefiles.Settings) { s.Types = map[string]string{".tar.gz": "a/b"} }, "types",
			`types: ".tar.gz" is not an extension, such as .txt`},
		{func(s *servefiles.Settings) { s.Types = map[string]string{"": "a/b"} }, "types",
			`types: "" is not an extension, such as .txt`},
		{func(s *servefiles.Settings) { s.Types = map[string]string{".x": "a/b", "X": "a/c"} },
			"types", "types: .x: named twice"},
	} {
		_, err := build(t,
			handlers.Env{Dir: root, Process: around.In(around.Context{Scripts: []string{".php"}})},
			func(s *servefiles.Settings) {
				s.Path = "sub"
				c.change(s)
			})
		var bad *handlers.KeyError
		if !errors.As(err, &bad) || bad.Key != c.key || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

func TestAllocations(t *testing.T) {
	root := tree(t)
	must.Do(t, os.WriteFile(filepath.Join(root, "4k.html"), []byte(big[:4096]), 0o644))
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := start(t, m, root, "/", nil)
		for _, c := range []struct {
			path string
			most float64
		}{
			{"/4k.html", 0},
			{"/big.bin", 0},
		} {
			if n := s.Allocs("GET " + c.path +
				" HTTP/1.1\r\nHost: test.example\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n"); n > c.most {
				t.Errorf("%s: %v allocations", c.path, n)
			}
		}
	}, modes.Plain, modes.Direct)
}
