package servefiles_test

import (
	"testing"

	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/test/modes"
)

func TestIndexAndFallback(t *testing.T) {
	root := tree(t)
	for _, c := range []struct {
		index    []string
		fallback string
		path     string
		status   int
		want     string
	}{
		{[]string{"default.htm", "index.html"}, "", "/sub/", 200, "<h1>default</h1>"},
		{[]string{"default.htm", "index.html"}, "", "/", 200, "<h1>root</h1>"},
		{[]string{"default.htm"}, "", "/", 404, ""},
		{nil, "", "/", 404, ""},
		{nil, "", "/sub", 301, ""},
		{nil, "sub/page.html", "/", 200, "<h1>page</h1>"},
		{[]string{"index.html"}, "index.html", "/no/such/view", 200, "<h1>root</h1>"},
		{[]string{"index.html"}, "/index.html", "/noindex/", 200, "<h1>root</h1>"},
		{[]string{"index.html"}, "index.html", "/a.txt", 200, "0123456789"},
		{[]string{"index.html"}, "index.html", "/.git/config", 404, ""},
		{[]string{"index.html"}, "index.html", "/fifo", 200, "<h1>root</h1>"},
		{[]string{"index.html"}, "sub", "/nothing", 404, ""},
		{[]string{"index.html"}, "missing.html", "/nothing", 404, ""},
	} {
		s := start(t, modes.Plain, root, "/", func(s *servefiles.Settings) {
			s.Index, s.Fallback = c.index, c.fallback
		})
		got := s.Request("GET "+c.path, []string{"Accept: text/html,application/xhtml+xml,*/*;q=0.8"}, "")
		if got.StatusCode != c.status || c.want != "" && got.Text != c.want {
			t.Errorf("index %q, fallback %q, %s: got %d %q", c.index, c.fallback, c.path,
				got.StatusCode, got.Text)
		}
	}
}

// TestFallbackIsForPages: what asks for a script, an image or an API does not get the page, and the
// page is not kept as long as the files.
func TestFallbackIsForPages(t *testing.T) {
	s := start(t, modes.Direct, tree(t), "/", func(s *servefiles.Settings) {
		s.Fallback, s.CacheControl = "index.html", "max-age=31536000, immutable"
	})
	for accept, status := range map[string]int{
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8": 200, // of a page
		"application/json, TEXT/HTML;q=0.1":                                          200,
		// curl without -H
		"": 404,
		// of a script, a fetch, a font
		"*/*": 404,
		"image/avif,image/webp,image/*,*/*;q=0.8": 404,
		"text/css,*/*;q=0.1":                      404,
		"application/json, text/plain, */*":       404,
		"text/*":                                  404,
		"text/html;q=0, */*":                      404,
	} {
		var fields []string
		if accept != "" {
			fields = []string{"Accept: " + accept}
		}
		a := s.Request("GET /assets/app.4f2.js", fields, "")
		cached := map[int]string{200: "no-cache"}[status]
		if a.StatusCode != status || a.Header.Get("Cache-Control") != cached ||
			a.Header.Get("Vary") != "Accept" {
			t.Errorf("%q: %d, %v", accept, a.StatusCode, a.Header)
		}
	}
	if a := s.Request("GET /index.html", nil,
		""); a.Header.Get("Cache-Control") != "max-age=31536000, immutable" {
		t.Errorf("by its own name: %v", a.Header)
	}
}
