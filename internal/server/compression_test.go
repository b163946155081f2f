package server_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestCompressionScopes: it is on by itself, and what a site or a route says comes before what is
// said further out.
func TestCompressionScopes(t *testing.T) {
	body := strings.Repeat("What a site says comes before what is said further out. ", 30)
	for _, tt := range []struct{ top, site, route, want string }{
		{"", "", "", "zstd"},
		{"compression = true", "", "", "zstd"},
		{"compression = false", "", "", ""},
		{"compression = false", "compression = true", "", "zstd"},
		{"compression = false", "", "compression = true", "zstd"},
		{"compression = false", "", "compression = { level = 9 }", "zstd"},
		{"", "compression = false", "", ""},
		{"", "compression = false", "compression = true", "zstd"},
		{"", "", "compression = false", ""},
		{"", "compression = true", "compression = false", ""},
		{"compression = { encodings = 'br' }", "", "", "br"},
		{"compression = { encodings = 'br' }", "compression = { encodings = 'gzip' }", "", "gzip"},
		{"compression = { encodings = 'br' }", "compression = { encodings = 'gzip' }",
			"compression = { encodings = 'zstd' }", "zstd"},
		{"compression = { encodings = 'br' }", "", "compression = { level = 1 }", "br"},
		{"compression = { min_size = '2KiB' }", "", "", ""},
		{"compression = { min_size = '2KiB' }", "", "compression = { min_size = '1KiB' }", "zstd"},
		{"compression = { types = ['image/*'] }", "", "", ""},
		{"", "", "compression = { types = [] }", ""},
	} {
		text := fmt.Sprintf("%s\n[[site]]\n%s\n[[site.route]]\nprefix = '/'\nmodule = 'response'\nbody = '%s'\n%s\n",
			tt.top, tt.site, body, tt.route)
		s := sites(t, source(), "", text)
		a := s.Request("GET /", []string{"Accept-Encoding: zstd, br, gzip"}, "")
		if got := a.Header.Get("Content-Encoding"); a.StatusCode != 200 || got != tt.want {
			t.Errorf("%q, %q, %q: %s, got %q, want %q", tt.top, tt.site, tt.route, a.Status, got, tt.want)
		}
	}
}

// TestCompressionErrors: a bad value is reported where it stands, once.
func TestCompressionErrors(t *testing.T) {
	_, err := source().Parse("t.conf", `[compression]
level = 10
[[site]]
compression = { level = 3 }
[[site.route]]
prefix = "/"
module = "response"
compression = { types = "html", min_sice = 3 }
[[site.route]]
prefix = "/a"
module = "response"
compression = "off"
[[site.route]]
prefix = "/b"
module = "response"
[site.route.compression]
encodings = ["deflate"]
`)
	want := `t.conf:2: compression.level: must be between 1 and 9, found 10
t.conf:8: site.route.compression.min_sice: unknown key (did you mean min_size?)
t.conf:8: site.route.compression.types: expected a media type such as "text/css", "text/*" or "*+json", not "html"
t.conf:12: site.route.compression: expected a table, true or false, found the string "off"
t.conf:17: site.route.compression.encodings: expected zstd, br or gzip, not "deflate"`
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestCompressionCache: what files are compressed to is kept, unless the cache is turned off, for
// the whole file or further in.
func TestCompressionCache(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.css", "b.css"} {
		must.Write(t, filepath.Join(dir, name), strings.Repeat("It is kept. ", 200))
	}
	route := func(prefix, compression string) string {
		return fmt.Sprintf("[[site.route]]\nprefix = '%s'\nmodule = 'serve_files'\npath = '%s'\n%s\n",
			prefix, dir, compression)
	}
	for _, tt := range []struct{ top, a, b string }{
		{"", "kept", "kept"},
		{"compression = { cache = '0B' }", "", ""},
		{"compression = { cache = '100KiB' }", "kept", "kept"},
		{"compression = { cache = '8KiB' }", "", ""}, // the files are larger than an eighth
	} {
		for _, own := range []string{"", "compression = { level = 2 }", "compression = { cache = '0B' }",
			"compression = { cache = '1MiB' }"} {
			text := tt.top + "\n[[site]]\n" + route("/a", "") + route("/b", own)
			s := sites(t, source(), dir, text)
			wantB := tt.b
			switch own {
			case "compression = { cache = '0B' }":
				wantB = ""
			case "compression = { cache = '1MiB' }":
				wantB = "kept"
			}
			for path, want := range map[string]string{"/a/a.css": tt.a, "/b/b.css": wantB} {
				get := func() bool {
					a := s.Request("GET "+path, []string{"Accept-Encoding: gzip"}, "")
					if a.Header.Get("Content-Encoding") != "gzip" {
						t.Errorf("%s: %v", path, a.Header)
					}
					return a.ContentLength >= 0
				}
				if want == "" && get() {
					t.Errorf("%q, %q: %s is kept", tt.top, own, path)
				} else if want != "" { // once it has not changed for two seconds
					wait.Until(t, "it is kept", get)
				}
			}
		}
	}
}
