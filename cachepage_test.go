package lwango_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/embedded"
	"github.com/lwango/lwango/internal/test/must"
)

// TestCachePage runs the configurations of docs/use/cache.md in front of applications.
func TestCachePage(t *testing.T) {
	page := must.Get(os.ReadFile("docs/use/cache.md"))(t)
	recipes := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(recipes) != 4 {
		t.Fatalf("%d recipes", len(recipes))
	}
	var n atomic.Int32
	var control string // Cache-Control of the last answer
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/forbids":
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Set-Cookie", "session=1")
		case strings.HasPrefix(r.URL.Path, "/api"):
			w.Header().Set("Cache-Control", "s-maxage=60")
			w.Header().Set("Cache-Tag", "product-7")
		}
		fmt.Fprint(w, n.Add(1))
	})
	begin := func(recipe int,
		from, to string) (ask func(method, path string, fields ...string) string) {
		file := filepath.Join(t.TempDir(), "lwango.conf")
		text := strings.ReplaceAll(string(recipes[recipe][1]), from, to)
		root := t.TempDir()
		text = strings.ReplaceAll(text, "/srv/app", root)
		must.Do(t, os.Mkdir(filepath.Join(root, "assets"), 0o700))
		for _, name := range []string{"index.html", "assets/app-5d41402a.js"} {
			must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(name), 0o600))
		}
		must.Do(t, os.WriteFile(filepath.Join(root, "index.php"), nil, 0o600))
		text = strings.ReplaceAll(text, "/srv/wordpress", root)
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		s, _ := embedded.Start(t, lwango.Server{Addr: "127.0.0.1:0", File: file})
		return func(method, path string, fields ...string) string {
			req := must.Get(http.NewRequest(method, "http://"+s.Addrs()[0]+path, nil))(t)
			for _, f := range fields {
				name, value, _ := strings.Cut(f, ": ")
				req.Header.Set(name, value)
			}
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			a := must.Get(client.Do(req))(t)
			_, _ = io.Copy(io.Discard, a.Body) // of an answer that nobody takes, nothing is kept
			a.Body.Close()
			said := a.Header.Get("Cache-Status")
			control = a.Header.Get("Cache-Control")
			return fmt.Sprint(a.StatusCode, strings.Contains(said, "; hit"),
				strings.Contains(said, "stored"))
		}
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}

	ln := must.Listen(t)
	go func() { _ = fcgi.Serve(ln, app) }()
	ask := begin(0, "127.0.0.1:9000", ln.Addr().String())
	check("a page", ask("GET", "/"), "200 false true")
	check("again", ask("GET", "/"), "200 true false")
	for _, cookie := range []string{"wordpress_logged_in_1=x", "comment_author_1=x",
		"wp-postpass_1=x"} {
		check(cookie, ask("GET", "/", "Cookie: a=b; "+cookie), "200 false false")
	}
	check("another cookie", ask("GET", "/", "Cookie: a=b"), "200 true false")
	for _, path := range []string{"/wp-admin/", "/wp-login.php", "/xmlrpc.php"} {
		for range 2 {
			if got := ask("GET", path); strings.Contains(got, "true") {
				t.Errorf("%s: %s", path, got)
			}
		}
	}

	up := httptest.NewServer(app)
	defer up.Close()
	ask = begin(1, "127.0.0.1:3000", up.Listener.Addr().String())
	check("an answer", ask("GET", "/api/7"), "200 false true")
	check("again", ask("GET", "/api/7"), "200 true false")
	check("a purge", ask("PURGE", "/api/", "Cache-Tag: product-7"), "200 false false")
	check("afterwards", ask("GET", "/api/7"), "200 false true")

	ask = begin(2, "127.0.0.1:3000", up.Listener.Addr().String())
	for path, want := range map[string]string{"/": "no-cache", "/products/7": "no-cache",
		"/assets/app-5d41402a.js": "public, max-age=31536000, immutable"} {
		for range 2 {
			check(path, ask("GET", path, "Accept: text/html"), "200 false false")
			check("Cache-Control of "+path, control, want)
		}
	}
	check("no such file", ask("GET", "/assets/none.js"), "404 false false")
	check("the API", ask("GET", "/api/7"), "200 false true")
	check("the API again", ask("GET", "/api/7"), "200 true false")

	ask = begin(3, "127.0.0.1:3000", up.Listener.Addr().String())
	check("no-store", ask("GET", "/forbids"), "200 false true")
	check("again", ask("GET", "/forbids", "Cookie: session=1"), "200 true false")
	check("a user", ask("GET", "/forbids", "Cookie: user=ann"), "200 false false")
	check("anew", ask("GET", "/forbids", "X-Renew: a secret"), "200 false true")
}
