package template_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/template"
)

// Whatever the template and the path, no path and no capture names the server. The template is
// fuzzed too: what parse lets through must hold it.
func FuzzTemplate(f *testing.F) {
	for _, to := range []string{"/{path}", "{path}", "{uri}", "https://new.example{path}",
		"https://{host}/{uri}", "/x/{query}{path}", "//a{path}", "{path}{path}",
		"/{c}", "https://new.example/{c}", "https://{c}@new.example/", "/x?y={c}{query}"} {
		f.Add(to, "//evil.example/x", "q=1", "evil.example")
		f.Add(to, "/%5Cevil.example", "", "/evil.example")
		f.Add(to, "/@evil.example:1", "/", "@evil.example:1/?#")
	}
	f.Add("x:{c}", "/", "", "//evil.example/x")
	f.Add("{c}x:y", "/", "", "https://evil.example/")
	f.Add("http{c}:{path}", "/evil.example", "", "s")
	f.Add("{c}x://new.example/", "/", "", "a/")
	f.Fuzz(func(t *testing.T, to, raw, query, capture string) {
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
		location, err := template.Address(to, host, string(clean), string(clean), query, capture)
		if err != nil {
			return
		}
		plain := must.Get(template.Address(to, host, "/", "/", "", ""))(t)
		got, err := url.Parse(location)
		want, errPlain := url.Parse(plain)
		if err != nil || errPlain != nil {
			return // odd templates of odd ports and the like; their own business
		}
		if got.Scheme == want.Scheme && !slices.Contains([]string{"", "http", "https"}, got.Scheme) {
			return // such as mailto; there a capture may begin with slashes
		}
		if got.Scheme != want.Scheme || got.Host != want.Host ||
			strings.HasPrefix(location, "//") && !strings.HasPrefix(plain, "//") {
			t.Errorf("to %q, path %q, query %q, capture %q: Location %q, with an empty path %q", to, clean,
				query, capture, location, plain)
		}
	})
}
