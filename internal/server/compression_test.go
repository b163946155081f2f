package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	testserver "github.com/lwango/lwango/internal/test/server"
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
		c, err := source().Parse("t.conf", text)
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		s := testserver.Start(t, modes.Direct, conn.Config{Handler: c.Router.Serve})
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
