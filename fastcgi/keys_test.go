package fastcgi_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/ci"
)

// TestScriptsOfAList: only these run, and no source is sent.
func TestScriptsOfAList(t *testing.T) {
	up := fcgitest.Start(t, "unix", names)
	files := map[string]string{"index.php": "<?php", "a.php": "<?php", "dir/index.php": "<?php",
		"up/evil.php": "<?php", "up/index.php": "<?php", "up/a.txt": "text"}
	for _, tt := range []struct {
		list, front string
		want        map[string]string
	}{
		{"/a.php", "404", map[string]string{"/a.php": "/a.php  /a.php", "/": "404",
			"/index.php": "404", "/dir/": "404", "/dir": "404", "/up/evil.php": "404",
			"/a.php/x": "/a.php /x /a.php", "/up/a.txt": "text", "/up/a.txt/x.php": "404"}},
		{"!/up/**", "front", map[string]string{"/a.php": "/a.php  /a.php",
			"/": "/index.php  /index.php", "/dir/": "/dir/index.php  /dir/index.php",
			"/up/evil.php": "404", "/up/evil.php/x": "404", "/up/index.php": "404",
			"/up/": "/index.php  /index.php", "/up/a.txt": "text"}},
		{"/none.php", "front", map[string]string{"/index.php": "404", "/": "/index.php  /index.php",
			"/x": "/index.php  /index.php", "/a.php": "404"}},
	} {
		p := serveFiles(t, "/", []string{up.Address}, files, func(s *fastcgi.Settings) {
			s.Scripts, s.TryFiles = []string{tt.list}, tt.front
		})
		for path, want := range tt.want {
			g := p.get(path)
			have := g.body
			if g.status == 404 {
				have = "404"
			}
			if have != want || strings.Contains(g.body, "<?php") {
				t.Errorf("%s, %s: %d %q, want %s", tt.list, path, g.status, g.body, want)
			}
		}
	}
}

// TestRootOfTheApplication: scripts are looked for here, and have other names there.
func TestRootOfTheApplication(t *testing.T) {
	up := fcgitest.Start(t, "unix",
		tells("SCRIPT_FILENAME", "DOCUMENT_ROOT", "PATH_TRANSLATED", "SCRIPT_NAME"))
	for root, want := range map[string]string{
		"/var/www/html": "/var/www/html/a.php|/var/www/html|/var/www/html/x|/a.php",
		"/":             "/a.php|/|/x|/a.php",
	} {
		files := map[string]string{"a.php": "", "a.txt": "text"}
		p := serveFiles(t, "/", []string{up.Address}, files,
			func(s *fastcgi.Settings) { s.Root = root })
		if g := p.get("/a.php/x"); g.body != want {
			t.Errorf("%s: %s", root, g.body)
		}
		if g := p.get("/a.txt"); g.body != "text" {
			t.Errorf("%s: %+v", root, g)
		}
		if g := p.get("/no.php"); g.status != 404 {
			t.Errorf("%s: %+v", root, g)
		}
	}
}

// TestChroot: PHP-FPM below a chroot runs the scripts.
func TestChroot(t *testing.T) {
	ci.Root(t) // who may chroot
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"www/a.php": `<?php echo __FILE__, " ", file_exists("/etc") ? 1 : 0;`,
	})
	f := startFPM(t, "unix", "chroot = "+dir)
	p := serveFiles(t, "/", []string{f.Address}, nil, func(s *fastcgi.Settings) {
		s.ScriptPath, s.Root = dir+"/www", "/www"
	})
	if g := p.get("/a.php"); g.body != "/www/a.php 0" {
		t.Errorf("%+v", g)
	}
}

// TestCacheControl: it is for files alone.
func TestCacheControl(t *testing.T) {
	up := fcgitest.Start(t, "unix", answers("hello"))
	files := map[string]string{"a.php": "", "a.txt": "text"}
	p := serveFiles(t, "/", []string{up.Address}, files,
		func(s *fastcgi.Settings) { s.CacheControl = "max-age=60" })
	for path, want := range map[string]string{"/a.txt": "max-age=60", "/a.php": "", "/b.txt": ""} {
		if g := p.get(path); g.header.Get("Cache-Control") != want {
			t.Errorf("%s: %+v", path, g)
		}
	}
	etag := p.get("/a.txt").header.Get("ETag")
	g := p.request("GET /a.txt", []string{"If-None-Match: " + etag}, "")
	if g.status != 304 || g.header.Get("Cache-Control") != "max-age=60" {
		t.Errorf("%+v", g)
	}
}

// TestInterceptErrors: the application's page does not reach the client, and what the client needs
// to understand the status does.
func TestInterceptErrors(t *testing.T) {
	status := ""
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		c.Reply("Status: " + status + "\r\nContent-Type: text/theirs\r\nContent-Length: 6\r\n" +
			"WWW-Authenticate: Basic\r\nWWW-Authenticate: Own\r\nAllow: GET\r\nRetry-After: 7\r\n" +
			"Set-Cookie: a=b\r\nContent-Range: bytes */9\r\nETag: \"x\"\r\n\r\ntheirs")
	})
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.InterceptErrors = true })
	for _, status = range []string{"399 Odd", "200 OK", "400 Bad", "401 Who", "404 Gone", "416 Range",
		"503 Busy", "599 Odd"} {
		for _, method := range []string{"GET", "HEAD"} {
			g := p.request(method+" /x.php", nil, "")
			own := status >= "400"
			h := g.header
			if g.err != nil || strings.Contains(g.body, "theirs") == own && method == "GET" ||
				(h.Get("Content-Type") == "text/theirs") == own ||
				h.Get("Set-Cookie") != "a=b" ||
				(h.Get("Content-Range") == "") != (own && status[:3] != "416") ||
				(h.Get("ETag") == "") != own || len(h.Values("WWW-Authenticate")) != 2 ||
				h.Get("Allow") != "GET" || h.Get("Retry-After") != "7" ||
				!strings.HasPrefix(status, g.reason[:3]) {
				t.Errorf("%s %s: %+v", method, status, g)
			}
		}
	}
}

// TestStatusPage: the manual's route to PHP-FPM's own pages, and nothing else.
func TestStatusPage(t *testing.T) {
	f := startFPM(t, "unix", "pm.status_path = /fpm/status", "ping.path = /fpm/ping")
	url := serveConfig(t, strings.ReplaceAll(section(t, "README.md", "## PHP-FPM's own pages"),
		"unix:/run/php/php-fpm.sock", f.Address))
	for path, want := range map[string]string{
		"/fpm/ping":             "pong",
		"/fpm/status":           "pool:                 www\n",
		"/fpm/status?json&full": `{"pool":"www",`,
	} {
		g := fetch(t, "GET", url+path, nil, "")
		if g.status != 200 || !strings.HasPrefix(g.body, want) {
			t.Errorf("%s: %+v", path, g)
		}
	}
	for _, path := range []string{"/", "/fpm/", "/fpm/status2", "/fpm/xstatus", "/fpm/a/status",
		"/fpm/etc/passwd", "/fpm/usr/share/php/x.php"} {
		if g := fetch(t, "GET", url+path, nil, ""); g.status != 404 {
			t.Errorf("%s: %+v", path, g)
		}
	}
}
