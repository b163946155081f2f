package redirect_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/redirect"
	"github.com/lwango/lwango/internal/http1"
)

// Whatever the template and the path, no path names the server. The template is fuzzed too: what
// parse lets through must hold it.
func FuzzTemplate(f *testing.F) {
	for _, to := range []string{"/{path}", "{path}", "{uri}", "https://new.example{path}", "https://{host}/{uri}", "/x/{query}{path}", "//a{path}", "{path}{path}"} {
		f.Add(to, "//evil.example/x", "q=1")
		f.Add(to, "/%5Cevil.example", "")
		f.Add(to, "/@evil.example:1", "/")
	}
	f.Fuzz(func(t *testing.T, to, raw, query string) {
		clean, err := http1.CleanPath(nil, []byte(raw))
		if err != nil || !strings.HasPrefix(raw, "/") || strings.ContainsAny(query, "#\\") {
			return
		}
		for i := range len(query) {
			if query[i] <= ' ' || query[i] >= 0x7f {
				return // not let through by the parser
			}
		}
		const host = "asked.example"
		location, err := redirect.Expand(to, host, string(clean), string(clean), query)
		if err != nil {
			return
		}
		plain, err := redirect.Expand(to, host, "/", "/", "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := url.Parse(location)
		want, errPlain := url.Parse(plain)
		if err != nil || errPlain != nil {
			return // odd templates of odd ports and the like; their own business
		}
		if got.Scheme != want.Scheme || got.Host != want.Host || strings.HasPrefix(location, "//") && !strings.HasPrefix(plain, "//") {
			t.Errorf("to %q, path %q, query %q: Location %q, with an empty path %q", to, clean, query, location, plain)
		}
	})
}
