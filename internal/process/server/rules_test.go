package server_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/template"
)

// TestRuleErrors: file, line, key, and the number of the rule.
func TestRuleErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"[[site]]\n[[site.rule]]\npath = '/a'\ndeny = 404\n[[site.rule]]\nregexp = '('\ndeny = 404",
			"t.conf:6: site.rule.regexp: rule 2: missing closing ): `(`"},
		{"[[site]]\n[[site.rule]]\nrewrite = '/{name}'",
			"t.conf:3: site.rule.rewrite: rule 1: \"/{name}\": unknown placeholder {name} (known: " +
				template.List(placeholder.Names) + ")"},
		{"[[site]]\n[[site.rule]]\npath = '/a'",
			"t.conf:2: site.rule: rule 1: does nothing: expected deny, rewrite, redirect, auth, limit, " +
				"set_headers, add_headers, remove_headers or cache_control"},
		{"[[site]]\n[[site.rule]]\ndeny = 404\nnot = { path = 'a/b' }\n[site.rule.header]\nx-a = ['~(']",
			"t.conf:4: site.rule.not.path: rule 1: \"a/b\": a pattern with a slash in it begins with one " +
				"(/a/b), or with \"/**/\" for any folder\n" +
				"t.conf:6: site.rule.header.x-a: rule 1: missing closing ): `(`"},
		{"[[site]]\n[[site.rule]]\ndeny = 200",
			"t.conf:3: site.rule.deny: must be between 400 and 599, found 200"},
		{"[[site]]\n[[site.rule]]\npath = '/a'\n[[site.rule]]\ndney = 404\n[[site.rule]]\nset_headers " +
			"= 1\n" +
			"[[site.rule]]\nredirect = ''",
			"t.conf:2: site.rule: rule 1: does nothing: expected deny, rewrite, redirect, auth, limit, " +
				"set_headers, add_headers, remove_headers or cache_control\n" +
				"t.conf:5: site.rule.dney: unknown key (did you mean deny?)\n" +
				"t.conf:7: site.rule.set_headers: expected a table, found the integer 1\n" +
				"t.conf:8: site.rule: rule 4: does nothing: expected deny, rewrite, redirect, auth, limit, " +
				"set_headers, add_headers, remove_headers or cache_control"},
		{"[[site]]\n[[site.rule]]\ndeny = 404\nexists = 'yes'\nroot = '.'",
			"t.conf:4: site.rule.exists: expected \"file\" or \"folder\" or \"no\", found \"yes\""},
		{"[[site]]\n[[site.rule]]\ndeny = 404\nset_headers = { date = 'x' }\nexists = 'no'",
			"t.conf:2: site.rule.root: rule 1: missing: the folder in which `exists` looks\n" +
				"t.conf:4: site.rule.set_headers.date: rule 1: is set by the server itself"},
		{route(
			"prefix = '/'\nhandler = 'echo'\n[[site.route.rule]]\ndeny = 404\n[[site.route.rule]]\nhost = " +
				"'a:1'\ndeny = 404"),
			"t.conf:8: site.route.rule.host: rule 2: \"a:1\": a host is named without its port"},
		{"[[site]]\n[[site.rule]]\ndeny = 404\npaht = '/a'",
			"t.conf:4: site.rule.paht: unknown key (did you mean path?)"},
	} {
		_, err := source().Parse("t.conf", test.text)
		if diff := cmp.Diff(test.want, fmt.Sprint(err)); diff != "" {
			t.Errorf("text:\n%s\n(-want +got):\n%s", test.text, diff)
		}
	}
}

// recipes are the examples of the manual, made a configuration with the module's routes.
func recipes(t *testing.T, blog string) string {
	_, text, _ := strings.Cut(must.Read(t, "../../../handlers/rules/README.md"), "\n## Examples\n")
	text, _, _ = strings.Cut(text, "\n## ")
	text = strings.NewReplacer("/srv/blog", blog, "/srv/www", blog, ":3000", ":1").Replace(text)
	hosts := []string{"wiki.test", "blog.test", "files.test", "example.org\", \"www.example.org",
		"login.test"}
	var b strings.Builder
	for i, part := range regexp.MustCompile(`(?m)^\S.*(?:\n\S.*)*\n`).Split(text, -1)[1:] {
		fmt.Fprintf(&b, "[[site]]\nhost = [\"%s\"]\n%s\n", hosts[i], part)
		switch i {
		case 1:
			fmt.Fprintf(&b, "[[site.route]]\nprefix = \"/\"\nmodule = \"serve_files\"\npath = %q\n", blog)
			fmt.Fprint(&b,
				"[[site.route.rule]]\nexists = \"folder\"\nset_headers = { x-folder = \"yes\" }\n")
		case 2: // it has routes of its own
		default:
			b.WriteString("[[site.route]]\nprefix = \"/\"\nhandler = \"echo\"\n")
		}
	}
	return b.String()
}

// TestRulesWithCurl: the manual's examples, asked by curl.
func TestRulesWithCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		ci.Lacks(t, "curl")
	}
	dir := t.TempDir()
	blog := filepath.Join(dir, "blog")
	for name, text := range map[string]string{"index.php": "front", "a.txt": "text",
		"dump.sql":          "secret",
		"wp-includes/x.css": "css", "wp-content/uploads/evil.php": "evil", "wp-content/y.php": "y"} {
		must.Write(t, filepath.Join(blog, name), text)
	}
	must.Write(t, filepath.Join(dir, "staff.htpasswd"), users)
	s := source()
	s.File = filepath.Join(dir, "lwango.conf")
	srv := serve(t, s, recipes(t, blog))
	for _, c := range []struct {
		host, path string
		want       []string
	}{
		{"wiki.test", "/page/a:b%20c?do=edit",
			[]string{"HTTP/1.1 200", "GET /page/a:b%20c?do=edit HTTP", "Path       /doku.php\n",
				"RawQuery   id=a:b%20c&do=edit\n"}},
		{"wiki.test", "/_media/x%26y.png",
			[]string{"Path       /lib/exe/fetch.php\n", "RawQuery   media=x%26y.png\n"}},
		{"wiki.test", "/data/x", []string{"HTTP/1.1 403"}},
		{"wiki.test", "/x/%2e%2e/d%61ta%2fx", []string{"HTTP/1.1 403"}},
		{"wiki.test", "/lib//../conf/", []string{"HTTP/1.1 403"}},
		{"blog.test", "/2026/hello?x=1", []string{"HTTP/1.1 200", "\r\n\r\nfront"}},
		{"blog.test", "/a.txt", []string{"HTTP/1.1 200", "\r\n\r\ntext"}},
		{"blog.test", "/dump.sql", []string{"HTTP/1.1 404"}},
		{"blog.test", "/dump%2Esql/", []string{"HTTP/1.1 404"}},
		{"blog.test", "/wp-content/uploads/evil.php", []string{"HTTP/1.1 404"}},
		{"blog.test", "/wp-content/uploads/evil.php/x", []string{"HTTP/1.1 404"}},
		{"blog.test", "/wp-includes/x.css",
			[]string{"Cache-Control: public, max-age=2592000\r\n", "\r\n\r\ncss"}},
		{"blog.test", "/wp-includes", []string{"HTTP/1.1 301", "x-folder: yes\r\n"}},
		{"blog.test", "/wp-config.php/x", []string{"HTTP/1.1 404"}},
		{"blog.test", "/xmlrpc.php", []string{"HTTP/1.1 404"}},
		{"files.test", "/a.txt", []string{"HTTP/1.1 200", "\r\n\r\ntext"}},
		{"files.test", "/users/1", []string{"HTTP/1.1 502"}}, // the application's, which does not run
		{"files.test", "/_app/users/1", []string{"HTTP/1.1 404"}},
		{"login.test", "/wp-admin", []string{"HTTP/1.1 401", "WWW-Authenticate: Basic realm=\"staff\""}},
		{"login.test", "/wp-admin/admin-ajax.php", []string{"HTTP/1.1 200"}},
		{"login.test", "/wp-login.php", []string{"HTTP/1.1 200"}},
		{"blog.test", "/.git/config", []string{"\r\n\r\nfront"}},
		{"www.example.org", "/a?b", []string{"HTTP/1.1 301", "Location: https://example.org/a?b\r\n"}},
		{"example.org", "/a?b", []string{"HTTP/1.1 308", "Location: https://example.org/a?b\r\n"}},
		{"example.org", "/.well-known/acme-challenge/x", []string{"HTTP/1.1 200"}},
	} {
		out, err := exec.Command(curl, "-si", "--path-as-is", "--max-time", "60", "-H", "Host: "+c.host,
			"http://"+srv.at+c.path).CombinedOutput()
		if err != nil {
			t.Errorf("curl: %v: %s", err, out)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s%s: %q is not in\n%s", c.host, c.path, want, out)
			}
		}
	}
}
