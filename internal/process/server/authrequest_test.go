package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	testserver "github.com/lwango/lwango/internal/test/server"
)

// gatekeeper is an application that says who may pass, by a cookie.
type gatekeeper struct{ free chan struct{} } // closed: no request hangs any more

func (g gatekeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var user string
	if c, err := r.Cookie("user"); err == nil {
		user = c.Value
	}
	original := r.Header["X-Original-Uri"]
	if r.Method != "GET" || r.URL.Path != "/check/in.php" || r.URL.RawQuery != "" || len(body) > 0 ||
		len(original) != 1 || r.Header.Get("X-Original-Method") == "" ||
		r.Header.Get("X-Original-Host") != "test.example" || r.Header.Get("Remote-User") != "" ||
		r.Header.Get("Content-Type") != "" || r.Header.Get("Range") != "" {
		http.Error(w, fmt.Sprint(r.Method, r.URL, len(body), r.Header), http.StatusTeapot)
		return
	}
	w.Header().Set("Remote-User", user)
	w.Header().Set("Remote-Groups", r.Header.Get("X-Original-Method")+" "+original[0])
	w.Header().Set("Set-Cookie", "seen="+user)
	switch user {
	case "":
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, strings.Repeat("log in ", 20_000), http.StatusUnauthorized)
	case "eve":
		w.WriteHeader(http.StatusForbidden)
	case "new":
		http.Redirect(w, r, "/login", http.StatusFound)
	case "broken":
		w.WriteHeader(http.StatusInternalServerError)
	case "hang":
		<-g.free
	case "quiet":
		w.Header().Del("Remote-User")
		w.WriteHeader(http.StatusNoContent)
	default:
		fmt.Fprint(w, "welcome ", user)
	}
}

// serveFCGI serves an application by FastCGI until the test ends, and returns its address.
func serveFCGI(t *testing.T, app http.Handler) (address string) {
	t.Helper()
	listener := must.Listen(t)
	served := make(chan struct{})
	go func() { _ = fcgi.Serve(listener, app); close(served) }()
	t.Cleanup(func() { listener.Close(); <-served })
	return listener.Addr().String()
}

// TestAuthByRequest: a route of each kind says who may pass. The client gets nothing of its answer
// but what it needs to log in, and the module gets the request as it was, with the fields that the
// route has set, and none of that name that the client has sent.
func TestAuthByRequest(t *testing.T) {
	t.Parallel()
	app := gatekeeper{make(chan struct{})}
	web := httptest.NewServer(app)
	t.Cleanup(web.Close)
	at := serveFCGI(t, app)
	t.Cleanup(func() { close(app.free) })
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "in.php"), "")
	for kind, route := range map[string]string{
		"handler": "",
		"proxy": "[[site.route]]\nprefix = '/check'\nmodule = 'proxy'\naddress = '" +
			web.Listener.Addr().String() + "'\n",
		"fastcgi": fmt.Sprintf(
			"[[site.route]]\nprefix = '/check'\nmodule = 'fastcgi'\naddress = '%s'\nscript_path = '%s'\n",
			at, dir),
	} {
		for place, before := range map[string]string{
			"site":  "[[site]]\nAUTH\n[[site.route]]\nprefix = '/'\nhandler = 'echo'\n",
			"route": "[[site]]\n[[site.route]]\nprefix = '/'\nhandler = 'echo'\nAUTH\n",
			"rule": "[[site]]\n[[site.rule]]\nmethod = ['GET', 'POST']\nAUTH\n[[site.route]]\nprefix = " +
				"'/'\nhandler = 'echo'\n",
		} {
			t.Run(kind+"/"+place, func(t *testing.T) {
				s := source()
				log := new(logtext.Buffer)
				s.Logger = logtext.Logger(t, log)
				if kind == "handler" {
					s.Routes = []handlers.Route{{Prefix: "/check", Handler: conn.HTTP(app)}}
				}
				ask := func(more, line string, fields ...string) testserver.Answer {
					t.Helper()
					srv := sites(t, s, dir, strings.Replace(before, "AUTH",
						"auth = { request = '/check/in.php', copy_headers = ['Remote-User', 'remote-groups'] }",
						1)+route+more)
					body := ""
					if strings.HasPrefix(line, "POST") {
						body, fields = "hello", append(fields, "Content-Length: 5", "Content-Type: a/b")
					}
					return srv.Request(line, append(fields, "Remote-User: forged", "Remote_User: forged",
						"X-Original-URI: /forged", "Range: bytes=0-1"), body)
				}
				a := ask("", "POST /x?y", "Cookie: user=ann")
				if a.StatusCode != 200 || a.Text != "hello" || a.Header.Get("Content-Type") != "a/b" ||
					a.Header.Get("Set-Cookie") != "" {
					t.Errorf("ann: %s, %q, %v", a.Status, a.Text, a.Header)
				}
				a = ask("", "GET /x?y", "Cookie: user=ann")
				if a.StatusCode != 200 || !strings.HasPrefix(a.Text, "GET /x?y HTTP/1.1\n") ||
					!strings.Contains(a.Text, "\nRemote-User: ann\nremote-groups: GET /x?y\n") ||
					strings.Contains(a.Text, "forged\n") &&
						!strings.Contains(a.Text, "\nX-Original-URI: /forged\n") ||
					strings.Count(a.Text, "forged") != 1 {
					t.Errorf("ann: %s, %s", a.Status, a.Text)
				}
				a = ask("", "GET /x", "Cookie: user=quiet")
				if a.StatusCode != 200 || strings.Contains(a.Text, "emote-User:") ||
					strings.Contains(a.Text, "emote_User:") {
					t.Errorf("quiet: %s, %s", a.Status, a.Text)
				}
				for user, want := range map[string]string{
					"": "401 Bearer seen=", "eve": "403  seen=eve", "new": "500  ", "broken": "500  ",
				} {
					log.Reset()
					fields := []string{"Cookie: user=" + user}
					if user == "" {
						fields = nil
					}
					a := ask("", "POST /x", fields...)
					got := fmt.Sprint(a.StatusCode, " ", a.Header.Get("WWW-Authenticate"), " ",
						a.Header.Get("Set-Cookie"))
					logged := strings.Contains(log.String(), "auth: the answer of the route that is asked")
					if got != want || strings.Contains(a.Text, "log in") || a.Header.Get("Remote-User") != "" ||
						a.Header.Get("Location") != "" || logged != (a.StatusCode == 500) {
						t.Errorf("%q: got %q, want %q: %v, %q\n%s", user, got, want, a.Header, a.Text, log)
					}
				}
				for _, option := range []string{"remote-user", "Remote_User", "x, remote_groups"} {
					a = ask("", "GET /x", "Cookie: user=ann", "Connection: keep-alive, "+option)
					if a.StatusCode != 400 {
						t.Errorf("a field taken back by %s: %s", option, a.Status)
					}
				}
				if kind == "handler" {
					return
				}
				limit := map[string]string{"proxy": "first_byte_timeout", "fastcgi": "read_timeout"}[kind]
				a = ask(limit+" = '50ms'\n", "GET /x", "Cookie: user=hang")
				if a.StatusCode != 500 || !strings.Contains(log.String(), "status=504") {
					t.Errorf("an application that hangs: %s\n%s", a.Status, log)
				}
			})
		}
	}
}

// TestAuthByRequestErrors: what cannot work is refused, and what asks itself ends.
func TestAuthByRequestErrors(t *testing.T) {
	const routes = "[[site.route]]\nprefix = '/'\nhandler = 'echo'\n"
	for auth, want := range map[string]string{
		"request = '/none'": "t.conf:2: site.auth.request: the site has " +
			"no route for /none",
		"request = 'x'": "t.conf:2: site.auth.request: expected the " +
			"path of a route, such as \"/auth-check\", not \"x\"",
		"request = '/a/../b'": "t.conf:2: site.auth.request: expected the " +
			"path of a route, such as \"/auth-check\", not \"/a/../b\"",
		"request = '/a#b'": "t.conf:2: site.auth.request: expected the " +
			"path of a route, such as \"/auth-check\", not \"/a#b\"",
		"request = '/a', htpasswd = 'users'": "t.conf:2: site.auth.request: is in place " +
			"of htpasswd; expected one of them",
		"request = '/a', realm = 'x'": "t.conf:2: site.auth.realm: is for " +
			"htpasswd; with request, the route names it",
		"request = '/a', copy_headers = 'a b'": "t.conf:2: site.auth.copy_headers: a b: " +
			"not a valid name of a header field",
		"request = '/a', copy_headers = 'connection'": "t.conf:2: site.auth.copy_headers: " +
			"connection: is set by the server itself",
		"request = '/a', copy_headers = 'host'": "t.conf:2: site.auth.copy_headers: host is " +
			"about the message itself",
		"request = '/a', copy_headers = 'X_User'": "t.conf:2: site.auth.copy_headers: X_User " +
			"is not passed on, as other fields with an underscore; expected a hyphen",
		"request = '/a', copy_headers = 'proxy-user'": "t.conf:2: site.auth.copy_headers: " +
			"proxy-user is not passed on, as all fields whose names begin with Proxy",
		"request = '/a', copy_headers = 'te'": "t.conf:2: site.auth.copy_headers: te is " +
			"about the message itself",
		"request = '/a', copy_headers = 'x-forwarded-for'": "t.conf:2: site.auth.copy_headers: " +
			"x-forwarded-for tells an application of the client's connection, not of the user",
		"copy_headers = 'x'": "t.conf:2: site.auth.copy_headers: is for the answer to request, which " +
			"is missing",
	} {
		text := "[[site]]\nauth = { " + auth + " }\n[[site.route]]\nprefix = '/a'\nhandler = 'echo'\n"
		if _, err := source().Parse("t.conf", text); fmt.Sprint(err) != want {
			t.Errorf("%s\ngot  %v\nwant %s", auth, err, want)
		}
	}
	_, err := source().Parse("t.conf", "[[site]]\n"+routes+"auth = { request = '/check' }\n")
	if want := "t.conf:5: site.route.auth.request: /check is a path of this route, which would ask " +
		"itself; " +
		"expected that of another route"; fmt.Sprint(err) != want {
		t.Errorf("got %v", err)
	}
	s := source()
	log := new(logtext.Buffer)
	s.Logger = logtext.Logger(t, log)
	srv := sites(t, s, "", "[[site]]\n"+routes+"[[site.route.rule]]\nauth = { request = '/check' }\n"+
		"[[site.route]]\nprefix = '/alone'\nhandler = 'echo'\n[[site.route.rule]]\npath = "+
		"'/alone/x'\nauth = { request = '/alone' }\n")
	for path, want := range map[string]int{"/x": 500, "/check": 500, "/alone": 200, "/alone/x": 200} {
		if a := srv.Request("GET "+path, nil, ""); a.StatusCode != want {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
	if !strings.Contains(log.String(), conn.ErrNestedSubrequest.Error()) {
		t.Errorf("log: %s", log)
	}
}

// TestAuthRequestBehindMiddleware: the route that says who may pass is believed if its handler is
// behind middleware of net/http.
func TestAuthRequestBehindMiddleware(t *testing.T) {
	type wrapper struct{ http.ResponseWriter }
	direct := func(next http.Handler) http.Handler { return next }
	wrapped := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(wrapper{w}, r)
		})
	}
	refuse := func(*conn.Request, *conn.Response) int { return http.StatusUnauthorized }
	s := source()
	text := "[[site]]\n"
	for prefix, h := range map[string]conn.Handler{
		"/a": conn.HTTPMiddleware(direct)(refuse), "/b": conn.HTTPMiddleware(wrapped)(refuse),
		"/c": conn.HTTPMiddlewareOnLoop(direct)(refuse), "/d": conn.HTTPMiddlewareOnLoop(wrapped)(refuse),
	} {
		s.Routes = append(s.Routes, handlers.Route{Prefix: prefix, Handler: h})
		text += fmt.Sprintf("[[site.route]]\nprefix = '/in%s'\nhandler = 'echo'\n"+
			"auth = { request = '%s' }\n", prefix, prefix)
	}
	srv := sites(t, s, "", text)
	for _, prefix := range []string{"/a", "/b", "/c", "/d"} {
		if a := srv.Request("GET /in"+prefix, nil, ""); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", prefix, a.Status)
		}
	}
}

// TestCopiedFieldsReachApplication: each field that may be copied arrives, and of the same name
// nothing that the client has sent.
func TestCopiedFieldsReachApplication(t *testing.T) {
	names := []string{"X-Forwarded-User", "X-Forwarded-Email", "X-Real-IP", "X-Auth-Request-User",
		"Authorization"}
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range names {
			fmt.Fprintln(w, name, r.Header.Values(name))
		}
		fmt.Fprintln(w, r.Header["X_forwarded_user"], r.Header["X-Forwarded-Groups"])
	})
	web := httptest.NewServer(app)
	t.Cleanup(web.Close)
	at := serveFCGI(t, app)
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "in.php"), "")
	s := source()
	s.Routes = []handlers.Route{{Prefix: "/check",
		Handler: func(_ *conn.Request, w *conn.Response) int {
			for _, name := range names {
				w.Header().Set(name, "ann")
			}
			return 204
		}}}
	for module, more := range map[string]string{
		"proxy":   "address = '" + web.Listener.Addr().String() + "'",
		"fastcgi": "address = '" + at + "'\nscript_path = '" + dir + "'",
	} {
		text := fmt.Sprintf("[[site]]\nauth = { request = '/check', copy_headers = ['%s'] }\n"+
			"[[site.route]]\nprefix = '/'\nmodule = '%s'\n%s\n", strings.Join(names, "', '"), module, more)
		srv := sites(t, s, dir, text)
		fields := []string{"X_Forwarded_User: forged"}
		want := ""
		for _, name := range names {
			fields = append(fields, name+": forged")
			want += name + " [ann]\n"
		}
		if module == "proxy" {
			fields = append(fields, "X-Forwarded-Groups: forged") // which is not copied
		}
		if a := srv.Request("GET /in.php", fields, ""); a.Text != want+"[] []\n" {
			t.Errorf("%s: %s\n%swant\n%s", module, a.Status, a.Text, want)
		}
	}
}
