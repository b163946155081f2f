package convert_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/process/convert"
	"github.com/lwango/lwango/internal/test/must"
)

// FuzzConvert: whatever is converted, there is a result in TOML, or an error that names the file. A
// second time, it is the same one.
func FuzzConvert(f *testing.F) {
	archives, err := filepath.Glob("testdata/*.txtar")
	must.Do(f, err)
	for _, name := range archives {
		a, err := txtar.ParseFile(name)
		must.Do(f, err)
		for _, file := range a.Files {
			if file.Name == "nginx.conf" {
				f.Add(string(file.Data))
			}
		}
	}
	for _, text := range odd {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "include") {
			return // it would read files of this machine
		}
		file := filepath.Join(t.TempDir(), "nginx.conf")
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		made, report, err := convert.File(file)
		if err != nil {
			if !strings.Contains(err.Error(), "nginx.conf") {
				t.Errorf("%v", err)
			}
			return
		}
		if err := settings.Parse("lwango.conf", "/", made).Err(); err != nil {
			t.Errorf("%v\n%s", err, made)
		}
		again, second, _ := convert.File(file)
		if made != again || report.String() != second.String() {
			t.Errorf("found\n%s\n%s\nand the second time\n%s\n%s", made, report, again, second)
		}
	})
}

// odd are texts that are none, or that lack what their directives need.
var odd = []string{
	"", ";", "}", "{", "a", "a {", "a {}", "'", `"a`, `a"b"c;`, "a 'b'c;", "# only a comment",
	"a \\", "a ${b;", "a $;", "a \"\\", strings.Repeat("a {", 100),
	"server { expires; error_page; proxy_cache_valid; access_log; return; rewrite; if; }",
	"server { location { } location / { try_files; alias; proxy_pass; } location = { } }",
	"server { location @ { } }",
	"server { listen; server_name; ssl on; location ~ { } location ~ ( { fastcgi_pass a; } }",
	"map; map a; map a b; map $a $b { c; ~( d; } geo { } split_clients a b { *; % c; }",
	"upstream; upstream a; upstream a { server; hash; sticky cookie; }" +
		"server { location / { proxy_pass http://a; } }",
	"limit_req_zone; server { limit_req; limit_req zone=; limit_conn; " +
		"location / { proxy_pass http://a; } }",
	"server { set $a $a; set $b $c; set $c $b; return 301 $a$b; }",
	"server { set $a ${a}x; location / { proxy_pass http://$a; } }",
	"stream { server { } server { listen; proxy_pass; } server { listen 1; proxy_pass $a; } map; }",
	"server { location / { root /; try_files '' ''; } location @ { rewrite; } " +
		"location ~ \\.php$ { fastcgi_pass a; try_files; } }",
	"a_by_lua_block { x } b { }", "log_format; access_log a b; log_format b;",
	"server { if ($a { } if () { } if (-f) { } if ($host ~ \"(\") { return 1; } }",
	"server { if ($a = b) { return; } }",
	"http { user; pid; } user; pid; http; events;",
}
