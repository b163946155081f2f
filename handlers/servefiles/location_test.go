package servefiles_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Whatever a client puts into a path, the Location of a folder leads to that path with a slash, on
// the same server.
func FuzzFolderLocation(f *testing.F) {
	f.Add("//evil.example", "")
	f.Add("/a", "x=\xff\u00e4\"<>")
	f.Add("/\\evil.example", "x=1")
	f.Add("/%5Cevil.example/..//a%20b", "?")
	f.Add("/https:%2F%2Fevil.example", "")
	f.Fuzz(func(t *testing.T, raw, query string) {
		clean, err := http1.CleanPath(nil, []byte(raw))
		if !strings.HasPrefix(raw, "/") || err != nil {
			return
		}
		path := strings.TrimSuffix(string(clean), "/")
		sent := http1.Sent([]byte(raw))
		if path == "" || strings.HasSuffix(string(clean), "/") ||
			strings.ContainsFunc(query, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '#' }) {
			return // conn does not let such a query through
		}
		location := servefiles.FolderLocation(sent, query)
		u, err := url.Parse(location)
		if err != nil {
			t.Fatal(err)
		}
		again, err := http1.CleanPath(nil, []byte(u.EscapedPath()))
		if err != nil || u.Scheme != "" || u.Host != "" || string(again) != path+"/" ||
			u.RawQuery != http1.EscapeQuery(query) {
			t.Errorf("path %q, query %q: Location %q", path, query, location)
		}
		if before, _, _ := strings.Cut(location, "?"); strings.HasPrefix(location, "//") ||
			strings.ContainsAny(before, "\\\t") {
			t.Errorf("path %q: Location %q leads away in browsers", path, location)
		}
		if strings.ContainsFunc(location, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
			t.Errorf("path %q, query %q: raw bytes in Location %q", path, query, location)
		}
	})
}
