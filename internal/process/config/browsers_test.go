package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// TestExplainBrowsers: -u names the keys about browsers, and csrf = false is as if it were not
// there.
func TestExplainBrowsers(t *testing.T) {
	c := must.Get(source().Parse(filepath.Join(t.TempDir(), "t.conf"), `
[[site]]
security_headers = "usual"
csrf = false
[[site.route]]
prefix = "/"
handler = "echo"
cors = { origins = "https://a.test", credentials = true }
csrf = { trusted = "https://a.test", bypass = "/hooks/**" }
`))(t)
	var b strings.Builder
	must.Do(t, c.Explain(&b, "http://x/"))
	for _, want := range []string{
		"security_headers (line 3): usual\n",
		"cors (line 8): pages of https://a.test, with credentials\n",
		"csrf (line 9): refuses with 403 what pages of other origins cause, but GET, HEAD and " +
			"OPTIONS; not of https://a.test; not for /hooks/**\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("missing %q in\n%s", want, &b)
		}
	}
}
