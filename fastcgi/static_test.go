package fastcgi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/must"
)

// names answers with the script's name and its path info.
func names(c *fcgitest.Conn) {
	r := c.Read()
	c.Reply(okHead + r.Get("SCRIPT_NAME") + " " + r.Get("PATH_INFO") + " " +
		strings.TrimPrefix(r.Get("SCRIPT_FILENAME"), r.Get("DOCUMENT_ROOT")))
}

var site = map[string]string{
	"index.php": "", "a.php": "", "a.txt": "text", "b.PHP": "", "c.php.": "", "dir/index.php": "",
	"both/index.html": "html",
	"empty/x":         "", ".env": "secret", "deep/a.php/x.txt": "", ".git/hook.php": "",
	".secret.php": "",
}

// TestPaths: which paths run a script, which send a file, and which do neither.
func TestPaths(t *testing.T) {
	up := fcgitest.Start(t, "unix", names)
	type row struct{ path, want string }
	for try, rows := range map[string][]row{
		"off": {{"/a.php", "/a.php  /a.php"}, {"/a.txt", "404"}, {"/", "/index.php  /index.php"},
			{"/no", "404"}},
		"404": {
			{"/a.php", "/a.php  /a.php"}, {"/a.php/x/y", "/a.php /x/y /a.php"}, {"/a.txt", "text"},
			{"/no.php", "404"},
			{"/no", "404"}, {"/b.PHP", "404"}, {"/c.php.", "404"},
			{"/dir/", "/dir/index.php  /dir/index.php"}, {"/dir", "301 /dir/"},
			{"/both/", "html"}, {"/empty/", "404"}, {"/empty", "404"}, {"/.env", "404"},
			{"/a.txt/x.php", "404"},
			{"/a.php%00", "400"}, {"/a.php%0a", "400"}, {"/link.php", "404"}, {"/link.txt", "404"},
			{"/..%2f..%2fetc/passwd", "400"},
			{"/deep/a.php/x.txt", "404"}, {"/.git/hook.php", "404"}, {"/.secret.php", "404"},
			{"/.git/hook.php/x", "404"},
		},
		"front": {
			{"/a.php", "/a.php  /a.php"}, {"/a.txt", "text"}, {"/no", "/index.php  /index.php"},
			{"/no.php", "404"},
			{"/no/such/thing", "/index.php  /index.php"},
			{"/dir/", "/dir/index.php  /dir/index.php"}, {"/.env", "404"},
			{"/b.PHP", "404"},
		},
	} {
		for _, prefix := range []string{"", "/app"} {
			route := prefix
			if route == "" {
				route = "/"
			}
			p := serveFiles(t, route, []string{up.Address}, site, func(s *fastcgi.Settings) {
				s.TryFiles, s.Index = try, []string{"index.php", "index.html"}
			})
			outside := filepath.Join(t.TempDir(), "out.php")
			write(t, filepath.Dir(outside), map[string]string{"out.php": ""})
			for _, name := range []string{"link.php", "link.txt"} {
				must.Do(t, os.Symlink(outside, filepath.Join(p.dir, name)))
			}
			for _, tt := range rows {
				g := p.get(prefix + tt.path)
				have := g.body
				if g.status != 200 {
					have = g.header.Get("Location")
					if have != "" {
						have = " " + strings.TrimPrefix(have, prefix)
					}
					have = []string{301: "301", 400: "400", 404: "404", 599: ""}[g.status] + have
				}
				want := tt.want
				if strings.HasPrefix(want, "/") {
					want = prefix + want
				}
				if have != want {
					t.Errorf("%s, %s%s: %d %q, want %q", try, prefix, tt.path, g.status, have, want)
				}
			}
		}
	}
	p := serveFiles(t, "/app", []string{up.Address}, site, nil)
	if g := p.get("/app?x"); g.status != 301 || g.header.Get("Location") != "/app/?x" {
		t.Error("prefix: ", g)
	}
	if g := p.request("POST /app/dir", nil, "x"); g.status != 308 {
		t.Error("POST to a folder: ", g)
	}
	if g := p.request("POST /app/a.txt", nil, "x"); g.status != 405 {
		t.Error("POST to a file: ", g)
	}
}

// TestNoScripts: a route that runs no scripts serves only files, and no source.
func TestNoScripts(t *testing.T) {
	up := fcgitest.Start(t, "unix", names)
	for _, addresses := range [][]string{nil, {up.Address}} {
		p := serveFiles(t, "/uploads", addresses, map[string]string{
			"a.php": "<?php", "a.PHP": "<?php", "a.php.save.1": "<?php", "index.php": "<?php",
			"sub/index.php":  "<?php",
			"sub/index.html": "html", "a.txt": "text",
		}, func(s *fastcgi.Settings) {
			s.Scripts, s.Index = nil, []string{"index.php", "index.html"}
		})
		for path, want := range map[string]string{
			"/a.php": "404", "/a.php/x": "404", "/a.PHP": "404", "/a.php.save.1": "404", "/": "404",
			"/index.php": "404",
			"/no.php":    "404", "/a.txt": "text", "/sub/": "html", "/a.txt/x.php": "404",
		} {
			g := p.get("/uploads" + path)
			if have := fmt.Sprint(g.status); g.body != want && have != want {
				t.Errorf("%s: %s %q, want %s", path, have, g.body, want)
			}
		}
	}
	if n := up.Accepted(); n > 0 {
		t.Error(n, " scripts are run")
	}
}

// TestFilesInstead: X-Accel-Redirect and X-Sendfile, within their folder.
func TestFilesInstead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a b.txt": "the file", "sub/x.bin": "bytes"})
	must.Do(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	for head, want := range map[string]string{
		"X-Accel-Redirect: /a%20b.txt\r\nX-Own: y": "the file",
		"X-Accel-Redirect: /sub/x.bin?x":           "bytes",
		"X-Accel-Redirect: /../a%20b.txt":          "the file",
		"X-Accel-Redirect: /sub":                   "404",
		"X-Accel-Redirect: /no":                    "404",
		"X-Accel-Redirect: /link":                  "404",
		"X-Accel-Redirect: /%zz":                   "404",
		"X-Sendfile: " + dir + "/a b.txt":          "the file",
		"X-Sendfile: /etc/passwd":                  "404",
		"X-Sendfile: " + dir + "/../x":             "404",
		"X-Sendfile: a b.txt":                      "404",
	} {
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
			c.Read()
			c.Reply(head +
				"\r\nContent-Length: 3\r\n\r\nbody")
		})
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.AccelRoot = dir })
		g := p.get("/x.php")
		have := g.body
		if g.status == 404 {
			have = "404"
		}
		if have != want || g.err != nil || g.header.Get("X-Sendfile") != "" ||
			strings.Contains(head, "X-Own") &&
				g.header.Get("X-Own") != "y" {
			t.Errorf("%s: %d %q %v", head, g.status, g.body, g.header)
		}
		p = serve(t, []string{up.Address}, nil)
		if g := p.get("/x.php"); g.status != 200 || g.body != "bod" ||
			g.header.Get("X-Accel-Redirect") != "" {
			t.Errorf("not allowed: %s: %d %q", head, g.status, g.body)
		}
	}
}

// TestRangesOfFilesInstead: ranges and conditional requests work for a file that is sent instead,
// too. The type is the script's, if it has set one.
func TestRangesOfFilesInstead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.txt": "0123456789"})
	for _, status := range []string{"200 Fine", "404 Gone"} {
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
			c.Read()
			c.Reply("Status: " + status +
				"\r\nX-Accel-Redirect: /a.txt\r\nContent-Type: text/own\r\nX-Own: y\r\n" +
				"Content-Disposition: attachment\r\n\r\nbody")
		})
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.AccelRoot = dir })
		whole := p.get("/x.php")
		if fmt.Sprint(whole.status) != status[:3] || whole.body != "0123456789" ||
			whole.reason != status ||
			whole.header.Get("ETag") == "" || whole.header.Get("Content-Type") != "text/own" {
			t.Error(whole)
		}
		for _, tt := range []struct {
			line, field, body string
			status            int
		}{
			{"GET", "Range: bytes=2-4", "234", 206},
			{"GET", "Range: bytes=-1", "9", 206},
			{"GET", "Range: bytes=20-", "", 416},
			{"GET", "If-None-Match: " + whole.header.Get("ETag"), "", 304},
			{"GET", "If-Match: \"other\"", "", 412},
			{"HEAD", "X: y", "", 200},
			{"POST", "Range: bytes=2-4", "0123456789", 200},
			{"POST", "If-None-Match: *", "0123456789", 200},
		} {
			g := p.request(tt.line+" /x.php", []string{tt.field}, "")
			if status[:3] != "200" {
				tt.status, tt.body = whole.status, whole.body
				if tt.line == "HEAD" {
					tt.body = ""
				}
			}
			if g.status != tt.status || g.body != tt.body || g.header.Get("X-Own") != "y" ||
				g.err != nil {
				t.Errorf("%s, %s, %s: %d %q %v %v", status, tt.line, tt.field, g.status, g.body,
					g.header, g.err)
			}
		}
	}
}
