package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// TestTryFilesThenApplication: files where there are some, and an application for all else, as
// rules/README.md has it. The prefix of the internal route is for the configuration alone: neither
// the application nor a client learns of it.
func TestTryFilesThenApplication(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Location", "/login?next="+r.URL.Path)
		h.Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusFound)
		fmt.Fprintf(w, "%s %s prefix=%q destination=%q", r.Method, r.RequestURI,
			r.Header["X-Forwarded-Prefix"], r.Header.Get("Destination"))
	}))
	defer app.Close()
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "a.txt"), "a file")
	address := strings.TrimPrefix(app.URL, "http://")
	s := sites(t, source(), dir, `
[[site]]
[[site.route]]
prefix = "/"
module = "serve_files"
path = "."

[[site.route.rule]]
exists = "no"
rewrite = "/_app{uri}"

[[site.route]]
prefix = "/_app"
module = "proxy"
address = "`+address+`"
strip_prefix = true
internal = true

[[site.route]]
prefix = "/public"
module = "proxy"
address = "`+address+`"
strip_prefix = true

[[site.route]]
prefix = "/old"
module = "response"
status = 404
[[site.route.rule]]
path = "/**"
rewrite = "/public{path}{query}"
`)
	for _, row := range []struct {
		line, location, link, body string
		fields                     []string
	}{
		{"GET /a.txt", "", "", "a file", nil},
		{"GET /x%2Fy?z=1", "/login?next=/x/y", "</style.css>; rel=preload",
			`GET /x%2Fy?z=1 prefix=[] destination=""`, nil},
		{"MOVE /x", "/login?next=/x", "</style.css>; rel=preload", `MOVE /x prefix=[] destination="/y"`,
			[]string{"Destination: /y"}},
		{"GET /_app/x", "", "", "", nil},
		// Clients know a prefix that is not internal, so it is right for them, whichever way they came.
		{"GET /public/x", "/public/login?next=/x", "</public/style.css>; rel=preload",
			`GET /x prefix=["/public"] destination=""`, nil},
		{"GET /old/x", "/public/login?next=/x", "</public/style.css>; rel=preload",
			`GET /x prefix=["/public"] destination=""`, nil},
	} {
		a := s.Request(row.line, row.fields, "")
		if row.body == "" {
			if a.StatusCode != 404 {
				t.Errorf("%s: %s, want 404", row.line, a.Status)
			}
			continue
		}
		if got := a.Header.Get("Location"); got != row.location || a.Text != row.body ||
			a.Header.Get("Link") != row.link {
			t.Errorf("%s: Location %q, Link %q, %q\nwant %q, %q, %q", row.line, got, a.Header.Get("Link"),
				a.Text, row.location, row.link, row.body)
		}
	}
}
