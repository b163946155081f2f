package fastcgi_test

import (
	"testing"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/module"
)

func TestBadSettings(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		change func(*fastcgi.Settings)
		want   string
	}{
		{func(s *fastcgi.Settings) { s.Address = nil },
			`address: missing: where PHP-FPM listens, such as "unix:/run/php/php-fpm.sock"`},
		{func(s *fastcgi.Settings) { s.Address = []string{"localhost"} },
			`address: expected unix:/path or host:port, not "localhost"`},
		{func(s *fastcgi.Settings) { s.Address = []string{"a:1", "a:1 backup"} },
			`address: a:1: named twice`},
		{func(s *fastcgi.Settings) { s.Address = []string{"a:1 backup"} },
			`address: every address is a backup`},
		{func(s *fastcgi.Settings) { s.ScriptPath = "" },
			`script_path: missing: the folder with the scripts`},
		{func(s *fastcgi.Settings) { s.ScriptPath = "no" },
			`script_path: cannot open the folder: lstat ` + dir + `/no: no such file or directory`},
		{func(s *fastcgi.Settings) { s.Index = []string{"a/b"} },
			`index: expected the name of a file, not "a/b"`},
		{func(s *fastcgi.Settings) { s.Index = nil },
			`index: expected the name of a file, such as "index.php"`},
		{func(s *fastcgi.Settings) { s.SplitPath = nil },
			`split_path: expected the end of a script's name, such as ".php"`},
		{func(s *fastcgi.Settings) { s.SplitPath = []string{""} },
			`split_path: expected the end of a script's name, such as ".php", not ""`},
		{func(s *fastcgi.Settings) { s.Front = "../x.php" },
			`front: expected a script below script_path, such as "/index.php", ` +
				`"/index.php{path}" or "/index.php?q={path}", not "../x.php"`},
		{func(s *fastcgi.Settings) { s.Front = "" },
			`front: expected a script below script_path, such as "/index.php", ` +
				`"/index.php{path}" or "/index.php?q={path}", not ""`},
		{func(s *fastcgi.Settings) { s.Front = "/index.php?q=$path" },
			`front: "/index.php?q=$path": unknown placeholder $path (known: {path}, {rest})`},
		{func(s *fastcgi.Settings) { s.Front = "/index.php?q={query}" },
			`front: "q={query}": unknown placeholder {query} (known: {path}, {rest})`},
		{func(s *fastcgi.Settings) { s.Params = map[string]string{"A": "{remote}"} },
			`params: A: "{remote}": unknown placeholder {remote} (known: {uri}, {query}, {path}, ` +
				`{rest}, {prefix}, {host}, {port}, {scheme}, {method}, {address}, {id}, {user}, ` +
				`{cert_verify}, {cert_subject}, {cert_issuer}, {cert_serial}, {cert_fingerprint}, ` +
				`{field.*}, {cookie.*}, {query.*})`},
		{func(s *fastcgi.Settings) { s.TrustedFields = []string{"X-Real-IP", "a b"} },
			`trusted_fields: expected the name of a header field, not "a b"`},
		{func(s *fastcgi.Settings) { s.Scripts, s.TryFiles = nil, "front" },
			`try_files: expected "404" with scripts = [], which leaves files alone`},
		{func(s *fastcgi.Settings) { s.Scripts, s.TryFiles = nil, "off" },
			`try_files: expected "404" with scripts = [], which leaves files alone`},
		{func(s *fastcgi.Settings) { s.Scripts, s.Address = nil, nil }, ``},
		{func(s *fastcgi.Settings) { s.Scripts = []string{"/a.php", "wp/*.php"} },
			`scripts: "wp/*.php": a pattern with a slash in it begins with one (/wp/*.php), ` +
				`or with "/**/" for any folder`},
		{func(s *fastcgi.Settings) { s.Scripts = []string{"!"} },
			`scripts: "!": an empty pattern matches no path`},
		{func(s *fastcgi.Settings) { s.Scripts = []string{"/a**"} },
			`scripts: "/a**": ** stands between slashes, as in "/data/**"`},
		{func(s *fastcgi.Settings) { s.Scripts = []string{"/{a,b}.php"} },
			`scripts: "/{a,b}.php": a pattern knows *, ** and ?; write several patterns for more`},
		{func(s *fastcgi.Settings) { s.Root = "var/www" },
			`root: expected an absolute path without dots, such as "/var/www/html", not "var/www"`},
		{func(s *fastcgi.Settings) { s.Root = "/var/../www/" }, `root: expected an absolute path ` +
			`without dots, such as "/var/www/html", not "/var/../www/"`},
		{func(s *fastcgi.Settings) { s.Root, s.ResolveRoot = "/var/www", true }, `root: the ` +
			`application is told this path, and not the one that resolve_root finds out`},
		{func(s *fastcgi.Settings) { s.Root = "/" }, ``},
		{func(s *fastcgi.Settings) { s.CacheControl = "a\nb" },
			`cache_control: a header value has no control characters`},
		{func(s *fastcgi.Settings) { s.CacheControl, s.TryFiles = "no-cache", "off" },
			`cache_control: try_files = "off" sends no files`},
		{func(s *fastcgi.Settings) { s.AccelRoot = "no" },
			`accel_root: cannot open the folder "` + dir + `/no": no such file or directory`},
		{func(s *fastcgi.Settings) { s.Params = map[string]string{"": "x"} },
			`params: "": expected a name without =, and a name and value without NUL`},
		{func(s *fastcgi.Settings) { s.Params = map[string]string{"CONTENT_LENGTH": "1"} },
			`params: CONTENT_LENGTH is always the request's own`},
		{func(s *fastcgi.Settings) { s.Params = map[string]string{"REQUEST_METHOD": "GET"} },
			`params: REQUEST_METHOD is always the request's own`},
		{func(s *fastcgi.Settings) { s.HideHeader = []string{"a b"} },
			`hide_header: expected the name of a header field, not "a b"`},
		{func(s *fastcgi.Settings) { s.CheckFile, s.ResolveRoot, s.ScriptPath = false, true, "no" },
			`script_path: cannot open the folder: lstat ` + dir + `/no: no such file or directory`},
		{func(s *fastcgi.Settings) { s.CheckFile, s.ScriptPath = false, "/in/another/container" },
			``},
		{func(s *fastcgi.Settings) {
			s.Address = []string{"unix:run/php.sock", "[::1]:9000 weight=3 backup", "php:9000"}
		}, ``},
	} {
		_, err := module.Build(t, fastcgi.Register, "fastcgi", handlers.Env{Dir: dir, Prefix: "/"},
			func(s *fastcgi.Settings) {
				s.Address, s.ScriptPath = []string{"unix:/run/php.sock"}, dir
				tt.change(s)
			})
		have := ""
		if err != nil {
			have = err.Error()
		}
		if have != tt.want {
			t.Errorf("have %s\nwant %s", have, tt.want)
		}
	}
}
