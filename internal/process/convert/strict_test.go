package convert_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/convert"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
)

// TestAsStrict: who may not come to nginx may not come to what is made of its configuration.
func TestAsStrict(t *testing.T) {
	for _, c := range []struct{ name, from, want string }{
		{"a prefix that ends within a name", `server { root /srv; location /.ht { deny all; } }`,
			"[[site.rule]]\n" + `regexp = '^/\.ht[^/]'` + "\ndeny = 403\n"},
		{"an answer for such a prefix", `server { root /srv; location /.git { return 404; } }`,
			`regexp = '^/\.git[^/]'` + "\ndeny = 404\n"},
		{"networks for such a prefix", `server { root /srv;
			location /a { allow 10.0.0.0/8; deny all; } location /ab { } location ~ \.x$ { }
			location = /ac { return 204; } }`,
			`regexp = "^/a[^/]"` + "\n" + `not = { regexp = '^/ac$|(?:\.x$)|^/ab' }` +
				"\nlimit = { allow = [\"10.0.0.0/8\"] }\n"},
		{"a password for such a prefix", `server { root /srv;
			location ^~ /a { auth_basic x; auth_basic_user_file users; } location ~ \.x$ { } }`,
			"regexp = \"^/a[^/]\"\nauth = { realm = \"x\", htpasswd = \"DIR/users\" }\n"},
		{"networks and a password for methods", `server { location / { limit_except GET {
			allow 10.0.0.0/8; deny all; auth_basic x; auth_basic_user_file users; }
			proxy_pass http://127.0.0.1:9; } }`,
			"not = { method = [\"GET\", \"HEAD\"] }\nlimit = { allow = [\"10.0.0.0/8\"] }\n" +
				"auth = { realm = \"x\", htpasswd = \"DIR/users\" }\n"},
		{"certificates at the default server of another address", `
			ssl_certificate cert.pem; ssl_certificate_key key.pem;
			server { listen 80; listen 443 ssl; server_name a.example; return 404; }
			server { listen 80 default_server; listen 443 ssl; server_name b.example;
				ssl_verify_client on; ssl_client_certificate cert.pem; return 204; }`,
			"client_ca = \"DIR/cert.pem\"\nclient_cert = \"require\"\n"},
		{"certificates at a server without a name", `
			ssl_certificate cert.pem; ssl_certificate_key key.pem;
			server { listen 443 ssl; server_name a.example; return 404; }
			server { listen 443 ssl; ssl_verify_client on; ssl_client_certificate cert.pem; return 204; }`,
			"client_ca = \"DIR/cert.pem\"\nclient_cert = \"require\"\n"},
		{"networks for scripts", `server { root /srv; index index.php;
			location ~ \.php$ { allow 10.0.0.0/8; deny all; fastcgi_pass 127.0.0.1:9; } }`,
			"script_path = \"/srv\"\nlimit = { allow = [\"10.0.0.0/8\"] }\n"},
		{"scripts that are internal", `server { root /srv; index index.php;
			location ~ \.php$ { internal; fastcgi_pass 127.0.0.1:9; } }`,
			"regexp = '\\.php$'\ninternal = true\nmodule = \"fastcgi\"\n"},
		{"a password for scripts, and another one for a folder", `server { root /srv; index index.php;
			location /a/ { auth_basic x; auth_basic_user_file users; }
			location ~ \.php$ { auth_basic y; auth_basic_user_file users; fastcgi_pass 127.0.0.1:9; } }`,
			"regexp = '\\.php$'\nmodule = \"fastcgi\"\naddress = \"127.0.0.1:9\"\n" +
				"script_path = \"/srv\"\ntry_files = \"off\"\n" +
				"auth = { realm = \"y\", htpasswd = \"DIR/users\" }\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			must.Do(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
			must.Do(t, os.Mkdir(filepath.Join(dir, "ab"), 0o755))
			cert, key := pair(t)
			for name, text := range map[string]string{"cert.pem": string(cert), "key.pem": string(key),
				"users":      "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n",
				"nginx.conf": "http { " + strings.ReplaceAll(c.from, "/srv", dir) + " }"} {
				must.Write(t, filepath.Join(dir, name), text)
			}
			var stdout, stderr bytes.Buffer
			convert.Main([]string{filepath.Join(dir, "nginx.conf")}, &stdout, &stderr)
			accepted(t, dir, unguarded.ReplaceAllString(stdout.String(), ""))
			want := strings.NewReplacer("/srv", dir, "DIR", dir).Replace(c.want)
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("expected\n%s\nfound\n%s\n%s", want, &stdout, &stderr)
			}
		})
	}
}

// unguarded is the key that keeps a result from being taken.
var unguarded = regexp.MustCompile(`(?m)^unguarded = \[\n(\t.*\n)+\]\n`)

// TestUnguarded: a result that lets requests pass which nginx refuses is not taken before somebody
// has seen to it.
func TestUnguarded(t *testing.T) {
	for _, c := range []struct {
		from    string
		refused bool
	}{
		{`server { location / { if ($unknown) { return 403; } return 204; } }`, true},
		{`server { location / { secure_link $arg_md5; return 204; } }`, true},
		{`server { location ~ (?<=a)b { deny all; } location / { return 204; } }`, true},
		{`server { location ~ (?<=a)b { return 200; } location / { return 204; } }`, false},
		{`server { location / { if ($unknown) { return 301 /x; } return 204; } }`, false},
	} {
		dir := t.TempDir()
		must.Write(t, filepath.Join(dir, "nginx.conf"), "http { "+c.from+" }")
		var stdout, stderr bytes.Buffer
		if code := convert.Main([]string{filepath.Join(dir, "nginx.conf")}, &stdout, &stderr); code != 1 {
			t.Errorf("%s: code %d\n%s", c.from, code, &stderr)
		}
		source := config.Source{Text: stdout.String(), Modules: config.Builtin(), Logger: logtext.Quiet}
		_, err := source.Load()
		if c.refused != (err != nil && strings.Contains(err.Error(), "unguarded")) {
			t.Errorf("%s: %v\n%s", c.from, err, &stdout)
		}
	}
}
