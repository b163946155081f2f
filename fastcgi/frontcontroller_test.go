package fastcgi_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi"
)

// TestFrontInPHP: what PHP makes of a front controller with path info and a query, and of
// parameters with placeholders.
func TestFrontInPHP(t *testing.T) {
	f := startFPM(t, "unix")
	script := map[string]string{"app.php": `<?php
foreach (["REQUEST_URI", "SCRIPT_NAME", "PATH_INFO", "PHP_SELF", "QUERY_STRING", "URL"] as $k)
echo $k, "=", $_SERVER[$k] ?? "-", "\n";
echo "SCRIPT=", basename($_SERVER["SCRIPT_FILENAME"]), "\n";
foreach ($_GET as $k => $v) echo "$k: $v\n";`, "style.css": "a style"}
	for _, prefix := range []string{"", "/blog"} {
		p := serveFiles(t, prefix+"/", []string{f.Address}, script, func(s *fastcgi.Settings) {
			s.TryFiles, s.Front = "front", "/app.php{path}?q={rest}&own=1"
			s.Params = map[string]string{"URL": "{scheme}://{host}{uri}"}
		})
		for target, want := range map[string]string{
			"/a%20b/c%26d?x=1&own=2": "REQUEST_URI=PRE/a%20b/c%26d?x=1&own=2\n" +
				"SCRIPT_NAME=PRE/app.php\nPATH_INFO=/a b/c&d\nPHP_SELF=PRE/app.php/a b/c&d\n" +
				"QUERY_STRING=q=a%20b/c%26d&own=1&x=1&own=2\n" +
				"URL=http://test.examplePRE/a%20b/c%26d?x=1&own=2\nSCRIPT=app.php\n" +
				"q: a b/c&d\nown: 2\nx: 1\n",
			"/app.php/info?y": "REQUEST_URI=PRE/app.php/info?y\nSCRIPT_NAME=PRE/app.php\n" +
				"PATH_INFO=/info\nPHP_SELF=PRE/app.php/info\nQUERY_STRING=y\n" +
				"URL=http://test.examplePRE/app.php/info?y\nSCRIPT=app.php\ny: \n",
			"/style.css": "a style",
		} {
			want = strings.ReplaceAll(want, "PRE", prefix)
			if g := p.get(prefix + target); g.status != 200 || g.body != want {
				t.Errorf("%s: %d\n%swant\n%s", prefix+target, g.status, g.body, want)
			}
		}
	}
}
