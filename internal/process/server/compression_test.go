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
		text := fmt.Sprintf(
			"%s\n[[site]]\n%s\n[[site.route]]\nprefix = '/'\nmodule = 'response'\nbody = '%s'\n%s\n",
			tt.top, tt.site, body, tt.route)
		s := sites(t, source(), "", text)
		a := s.Request("GET /", []string{"Accept-Encoding: zstd, br, gzip"}, "")
		if got := a.Header.Get("Content-Encoding"); a.StatusCode != 200 || got != tt.want {
			t.Errorf("%q, %q, %q: %s, got %q, want %q", tt.top, tt.site, tt.route, a.Status, got, tt.want)
		}
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
