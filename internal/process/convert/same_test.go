package convert_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/process/convert"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/nginx"
)

func TestMain(m *testing.M) { leak.Main(m) }

// same are configurations with requests for which nginx, and lwango with what is made of the
// configuration, give the same answer. LISTEN stands for the socket; DIR/app.sock speaks HTTP and
// DIR/php.sock FastCGI. A request is a target, perhaps with a method in front and fields behind it.
var same = []struct {
	name, config string
	requests     []string
}{
	{"files", `
server {
	listen LISTEN;
	server_name example.org;
	root DIR/www;
	index index.html;
	error_page 404 /404.html;
	add_header X-Frame-Options DENY always;
	rewrite ^/old/(.*)$ /new/$1 permanent;
	rewrite ^/feed$ /feed.xml last;
	if ($arg_no) { return 403; }
	if ($request_method = DELETE) { return 405; }
	location = /ok { return 200 "fine"; }
	location ~ ^/u/(\w+)$ { return 302 /users/$1; }
	location /docs/ { try_files $uri $uri.html $uri/ =404; }
	location ~* \.css$ { expires 1h; }
	location ^~ /raw/ { }
	location ~ /\.(?!well-known) { deny all; }
	location /gone { return 410; }
	location /secret/ { deny all; }
	location /list/ { alias DIR/other/; }
}`, []string{"/", "/index.html", "/none", "/old/a%20b?x=1", "/feed", "/?no=1", "DELETE /", "/ok",
		"/u/ann", "/docs/page", "/docs/page.html", "/docs/none", "/a.css", "/A.CSS", "/raw/a.css",
		"/.git/x", "/.well-known/x", "/gone", "/secret/x", "/list/o.txt", "/docs", "/docs/../a.css",
		"HEAD /a.css"}},
	{"application", `
map $http_x_kind $kind { default plain; ~^(?<k>[a-z]+)-x$ "$k"; b bee; }
server {
	listen LISTEN default_server;
	server_name _;
	root DIR/www;
	location / { try_files $uri @app; }
	location @app { proxy_pass http://unix:DIR/app.sock; proxy_set_header Host $host; }
	location /api/ { proxy_pass http://unix:DIR/app.sock:/v1/; proxy_set_header Host $host;
		proxy_set_header X-Kind $kind; proxy_set_header X-Gone ""; }
	location /plain { proxy_pass http://unix:DIR/app.sock; proxy_set_header Host up.example; }
	location /strip/ { rewrite ^/strip/(.*) /$1 break; proxy_pass http://unix:DIR/app.sock;
		proxy_set_header Host $host; }
	location /pages { proxy_pass http://unix:DIR/app.sock; proxy_set_header Host $host;
		proxy_intercept_errors on; error_page 418 /pages/418.html; }
	location /big { client_max_body_size 1k; proxy_pass http://unix:DIR/app.sock;
		proxy_set_header Host $host; }
	location = /exact { proxy_pass http://unix:DIR/app.sock:/other; proxy_set_header Host $host; }
}`, []string{"/a.css", "/dynamic?x=1", "/", "/docs/", "POST /dynamic", "/api/x?y=1",
		"/api/x X-Kind:q-x", "/api/x X-Kind:b", "/api/x X-Gone:1", "/plain/x", "/strip/a/b?c",
		"/pages/status/404", "/exact?q=1"}},
	{"scripts behind a front controller",
		strings.Replace(plainScripts, "FALLBACK", "/index.php?$args", 1), []string{"/index.php",
			"/page", "/uploads/x.php", "/uploads/x.php/y", "/uploads/x.PHP/y", "/secret.php",
			"/secret.php/", "/secret.php/y", "/secret.php%2Fy", "/files/o.txt", "/accel/o.txt"}},
	{"scripts alone", strings.Replace(plainScripts, "FALLBACK", "=404", 1), []string{"/index.php", "/",
		"/page", "/uploads/x.php/y", "/secret.php/y", "/accel/o.txt"}},
	{"scripts", `
server {
	listen LISTEN;
	server_name example.org;
	root DIR/www;
	index index.php index.html;
	location / { try_files $uri $uri/ /index.php?$args; }
	location /blog/ { try_files $uri $uri/ /blog/index.php?q=$uri&$args; }
	location ~* \.(css|js)$ { expires 1d; try_files $uri =404; }
	location ~* /uploads/.*\.php$ { return 403; }
	location ~ \.php(?:$|/) {
		fastcgi_split_path_info ^(.+?\.php)(/.*)$;
		try_files $fastcgi_script_name =404;
		fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
		fastcgi_param QUERY_STRING $query_string;
		fastcgi_param REQUEST_METHOD $request_method;
		fastcgi_param REQUEST_URI $request_uri;
		fastcgi_param SERVER_PROTOCOL $server_protocol;
		fastcgi_param HTTP_HOST $host;
		fastcgi_param APP_ENV test;
		fastcgi_pass unix:DIR/php.sock;
	}
	location ~ /\.ht { deny all; }
}`, []string{"/", "/index.php", "/index.php?a=b", "/some/page?x=1", "/a.css", "/none.css",
		"/none.php", "/blog/post/1?x=2", "/uploads/x.php", "/.htaccess", "/index.php/path/info",
		"POST /some/page"}},
}

// plainScripts is a configuration without paths behind the names of scripts.
const plainScripts = `
server {
	listen LISTEN;
	server_name example.org;
	root DIR/www;
	index index.php;
	location / { try_files $uri $uri/ FALLBACK; }
	location ~* /uploads/.*\.php$ { deny all; }
	location = /secret.php { return 403; }
	location /files/ { internal; alias DIR/other/; }
	location ~ \.php$ {
		fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
		fastcgi_param QUERY_STRING $query_string;
		fastcgi_param REQUEST_METHOD $request_method;
		fastcgi_param REQUEST_URI $request_uri;
		fastcgi_param SERVER_PROTOCOL $server_protocol;
		fastcgi_param HTTP_HOST $host;
		fastcgi_pass unix:DIR/php.sock;
	}
}`

// TestSameAnswers asks nginx and lwango the same.
func TestSameAnswers(t *testing.T) {
	for _, c := range same {
		t.Run(c.name, func(t *testing.T) {
			dir := nginx.Start(t, strings.ReplaceAll(c.config, "LISTEN", "unix:DIR/nginx.sock"),
				"nginx.sock")
			for name, text := range map[string]string{"www/index.html": "home", "www/a.css": "a{}",
				"www/404.html": "lost", "www/feed.xml": "<feed/>", "www/docs/page.html": "page",
				"www/.git/x": "x", "www/.well-known/x": "known", "www/raw/a.css": "raw", "other/o.txt": "other",
				"www/secret/x": "secret", "www/index.php": "<?php", "www/blog/index.php": "<?php",
				"www/uploads/x.php": "<?php", "www/.htaccess": "x",
				"www/secret.php": "<?php"} {
				if !strings.HasPrefix(c.name, "scripts") && strings.HasSuffix(name, ".php") {
					continue
				}
				name = filepath.Join(dir, name)
				must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
				must.Write(t, name, text)
			}
			applications(t, dir)
			file := filepath.Join(dir, "site")
			must.Write(t, file, strings.NewReplacer("LISTEN", "unix:"+dir+"/lwango.sock", "DIR", dir).
				Replace(c.config))
			text, report, err := convert.File(file)
			must.Do(t, err)
			if strings.Contains(report.String(), ": left: ") {
				t.Error(report)
			}
			ctx, cancel := context.WithCancel(t.Context())
			run := must.Get(lwango.Server{Config: text, Logger: logtext.Quiet}.Start(ctx))(t)
			defer func() {
				cancel()
				_ = run.Wait()
			}()
			for _, r := range c.requests {
				want, got := answer(t, dir+"/nginx.sock", r), answer(t, dir+"/lwango.sock", r)
				if want != got {
					t.Errorf("%s: found\n%s\nnginx has\n%s", r, got, want)
				}
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

// applications starts what answers at DIR/app.sock and DIR/php.sock with what it is asked.
func applications(t *testing.T, dir string) {
	t.Helper()
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if file, ok := strings.CutPrefix(r.URL.Path, "/accel/"); ok {
			w.Header().Set("X-Accel-Redirect", "/files/"+file)
			return
		}
		if r.URL.Path == "/pages/418.html" {
			fmt.Fprint(w, "teapot")
			return
		}
		if strings.HasPrefix(r.URL.Path, "/pages/status/") {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprintln(w, r.Method, r.Host, r.RequestURI, r.Header.Get("X-Kind"), r.Header.Get("X-Gone"))
		for _, name := range []string{"SCRIPT_FILENAME", "APP_ENV"} {
			fmt.Fprintln(w, fcgi.ProcessEnv(r)[name])
		}
	})
	ln := must.Get(net.Listen("unix", dir+"/app.sock"))(t)
	server := &http.Server{Handler: app}
	done := make(chan struct{}, 2)
	go func() { _ = server.Serve(ln); done <- struct{}{} }()
	php := must.Get(net.Listen("unix", dir+"/php.sock"))(t)
	go func() { _ = fcgi.Serve(php, app); done <- struct{}{} }()
	t.Cleanup(func() {
		server.Close()
		php.Close()
		<-done
		<-done
	})
}

// answer sends a request and returns what has to be the same of its answer.
func answer(t *testing.T, socket, request string) string {
	t.Helper()
	words := strings.Fields(request)
	method := "GET"
	if !strings.HasPrefix(words[0], "/") {
		method, words = words[0], words[1:]
	}
	target := "http://example.org" + words[0]
	r := must.Get(http.NewRequestWithContext(t.Context(), method, target, nil))(t)
	for _, f := range words[1:] {
		name, value, _ := strings.Cut(f, ":")
		r.Header.Set(name, value)
	}
	tr := &http.Transport{DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}
	resp := must.Get(tr.RoundTrip(r))(t)
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(resp.Body))(t)
	var b strings.Builder
	fmt.Fprintln(&b, resp.StatusCode)
	fmt.Fprintln(&b, strings.TrimPrefix(resp.Header.Get("Location"), "http://example.org"))
	for _, name := range []string{"Cache-Control", "X-Frame-Options"} {
		fmt.Fprintln(&b, resp.Header.Get(name))
	}
	if resp.StatusCode < 300 || !strings.Contains(string(body), "<h") { // pages of their own differ
		fmt.Fprintf(&b, "%s", body)
	}
	return b.String()
}
