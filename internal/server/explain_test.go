package server_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lwango/lwango/internal/test/must"
)

// TestExplainAccess: lwango -t -u tells of https, limit and auth, in the order in which they come,
// and of a port that no listener has.
func TestExplainAccess(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "lwango.conf")
	must.Write(t, filepath.Join(dir, "users"), users)
	must.Write(t, file, `[[listener]]
address = "127.0.0.1:80"
[[listener]]
name = "proxied"
address = "127.0.0.1:81"
trusted_proxies = "127.0.0.1"
[[site]]
host = "a.test"
https = "redirect"
[[site]]
host = "b.test"
limit = { requests = "10/s", burst = 20, deny = "10.0.0.0/8" }
[[site.rule]]
path = "/admin/**"
auth = { htpasswd = "users" }
[[site.rule]]
path = "/admin/old"
limit = { connections = 8, by = "header:X-Key" }
rewrite = "/admin/new"
[[site.route]]
prefix = "/"
handler = "echo"
limit = { methods = "GET", max_body_size = "2MiB", bandwidth = "1MiB" }
auth = { htpasswd = "users" }
[[site]]
host = "c.test"
listener = "proxied"
[[site.route]]
prefix = "/"
handler = "echo"
`)
	for request, want := range map[string]string{
		"http://a.test/x": `site 1 (line 7): a.test
  https (line 9): redirects to the same address of https
`,
		"http://a.test/.well-known/acme-challenge/x": `site 1 (line 7): a.test
no route for /.well-known/acme-challenge/x: 404
`,
		"HEAD http://b.test/admin/old": `site 2 (line 10): b.test
  rule 1 (line 13): auth: a user of users (path wants "/admin/**", it is "/admin/old")
  rule 2 (line 16): limit: 8 at a time, by header:X-Key (path wants "/admin/old", it is "/admin/old")
  rule 2 (line 16): rewrites to /admin/new
  limit (line 12): no clients of 10.0.0.0/8, 10/s requests, 20 at once
route / (line 20): echo, for /admin/new
  limit (line 23): methods GET, bodies up to 2MiB, 1MiB a second
  auth (line 24): a user of users
`,
		"POST http://b.test/x": `site 2 (line 10): b.test
  rule 1 (line 13): not for this request: path wants "/admin/**", it is "/x"
  rule 2 (line 16): not for this request: path wants "/admin/old", it is "/x"
  limit (line 12): no clients of 10.0.0.0/8, 10/s requests, 20 at once
route / (line 20): echo, for /x
  limit (line 23): answers 405, because it takes methods GET, bodies up to 2MiB, 1MiB a second
`,
		"https://c.test/": `no listener has https at port 443; as by a proxy in front of 127.0.0.1:81
site 3 (line 25): c.test
route / (line 28): echo, for /
`,
	} {
		code, got := explained(t, file, request)
		if diff := cmp.Diff(want, got); diff != "" || code != 0 {
			t.Errorf("%s: code %d (-want +got):\n%s", request, code, diff)
		}
	}
}

// TestExplainInternal: a route that clients do not reach, but rules.
func TestExplainInternal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lwango.conf")
	must.Write(t, file, `[[listener]]
address = "127.0.0.1:80"
[[site]]
[[site.rule]]
path = "/open"
rewrite = "/in/x"
[[site.route]]
prefix = "/in"
handler = "echo"
internal = true
`)
	for request, want := range map[string]string{
		"http://a.test/in/x": `site 1 (line 3): every other host
  rule 1 (line 4): not for this request: path wants "/open", it is "/in/x"
route /in (line 7): internal, clients do not reach it: 404
`,
		"http://a.test/open": `site 1 (line 3): every other host
  rule 1 (line 4): rewrites to /in/x (path wants "/open", it is "/open")
route /in (line 7): echo, for /in/x
`,
	} {
		code, got := explained(t, file, request)
		if diff := cmp.Diff(want, got); diff != "" || code != 0 {
			t.Errorf("%s: code %d (-want +got):\n%s", request, code, diff)
		}
	}
}
