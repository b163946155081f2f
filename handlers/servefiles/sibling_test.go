package servefiles_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

func TestSiblings(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat("text ", 1000)
	old := time.Now().Add(-time.Hour)
	write := func(name, content string, at time.Time) {
		name = filepath.Join(dir, name)
		must.Write(t, name, content)
		must.Do(t, os.Chtimes(name, at, at))
	}
	for _, name := range []string{"a.css", "b.css", "small.css", "a.png", "a.php", "folder.css"} {
		write(name, text[:len(text)-len(name)], old)
	}
	write("small.css", "small", old)
	for _, name := range []string{"a.css.gz", "a.css.br", "small.css.gz", "a.png.gz", "a.php.gz"} {
		write(name, "sibling "+name, old)
	}
	write("b.css.gz", "older", old.Add(-time.Nanosecond))
	must.Do(t, os.Mkdir(filepath.Join(dir, "folder.css.gz"), 0o700))
	p := defaultPolicy(t)
	build := func(on bool) handlers.Env {
		its := around.Context{Scripts: []string{".php"}}
		if on {
			its.Compression = p
		}
		return handlers.Env{Process: around.In(its)}
	}
	for _, on := range []bool{true, false} {
		h := must.Get(module.Build(t, servefiles.Register, "serve_files", build(on),
			func(s *servefiles.Settings) { s.Path = dir }))(t)
		s := module.Start(t, modes.Direct, "/", h)
		for range 3 { // also from the cache
			for _, tt := range []struct{ path, accept, coding, body string }{
				{"/a.css", "gzip", "gzip", "sibling a.css.gz"},
				{"/a.css", "zstd, gzip, br", "br", "sibling a.css.br"},
				{"/a.css", "gzip, br;q=0.5", "gzip", "sibling a.css.gz"},
				{"/a.css", "zstd", "", ""},
				{"/a.css", "", "", ""},
				{"/b.css", "gzip", "", ""},
				{"/folder.css", "gzip", "", ""},
				{"/small.css", "gzip", "", "small"},
				{"/a.png", "gzip", "", ""},
				{"/a.css.gz", "gzip", "", "sibling a.css.gz"},
				{"/a.php", "gzip", "", "404"},
				{"/a.php.gz", "gzip", "", "404"},
			} {
				a := s.Request("GET "+tt.path, []string{"Accept-Encoding: " + tt.accept}, "")
				if tt.body == "404" {
					if a.StatusCode != 404 {
						t.Errorf("%s: %s", tt.path, a.Status)
					}
					continue
				}
				want, encoding := tt.body, tt.coding
				if want == "" || encoding != "" && !on {
					want, encoding = text[:len(text)-len(tt.path)+1], ""
				}
				if a.StatusCode != 200 || a.Text != want ||
					a.Header.Get("Content-Encoding") != encoding {
					t.Errorf("%s, %q: %s, %v, %.40q", tt.path, tt.accept, a.Status, a.Header, a.Text)
				}
				if encoding == "" {
					continue
				}
				tag := a.Header.Get("ETag")
				if !strings.HasSuffix(tag, "-"+encoding+`"`) || tag[0] != '"' ||
					a.Header.Get("Vary") != "Accept-Encoding" ||
					a.Header.Get("Content-Type") != "text/css; charset=utf-8" {
					t.Errorf("%s: %v", tt.path, a.Header)
				}
				fields := []string{"Accept-Encoding: " + tt.accept, "If-None-Match: " + tag}
				if a = s.Request("GET "+tt.path, fields, ""); a.StatusCode != 304 ||
					a.Header.Get("Content-Encoding") != "" || a.Header.Get("ETag") != tag {
					t.Errorf("%s: %s, %v", tt.path, a.Status, a.Header)
				}
				fields = []string{"Accept-Encoding: " + tt.accept, "If-Range: " + tag, "Range: bytes=3-5"}
				if a = s.Request("GET "+tt.path, fields, ""); a.StatusCode != 206 ||
					a.Text != want[3:6] || a.Header.Get("Content-Encoding") != encoding {
					t.Errorf("%s: %s, %v, %q", tt.path, a.Status, a.Header, a.Text)
				}
				fields = []string{"Accept-Encoding: " + tt.accept, "Range: bytes=5000-"}
				if a = s.Request("GET "+tt.path, fields, ""); a.StatusCode != 416 ||
					a.Header.Get("Content-Encoding") != "" {
					t.Errorf("%s: %s, %v", tt.path, a.Status, a.Header)
				}
			}
		}
	}
}
