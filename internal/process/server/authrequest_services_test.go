package server_test

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	testserver "github.com/lwango/lwango/internal/test/server"
)

// vouch answers as Vouch Proxy does: at /validate for the server, by a cookie and for the host that
// it is asked for; at /login and /auth, which is where an identity provider sends the browser back,
// for browsers. The program itself cannot be had from the module proxy.
func vouch(domain string) http.Handler {
	mux := http.NewServeMux()
	refuse := func(w http.ResponseWriter, why string) {
		w.Header().Add("Set-Cookie", "VouchCookie=delete; Path=/; Max-Age=0")
		w.Header().Set("X-Vouch-Error", why)
		http.Error(w, why, http.StatusUnauthorized)
	}
	mux.HandleFunc("/validate", func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie("VouchCookie")
		switch {
		case err != nil:
			refuse(w, "no jwt found in request")
		case c.Value != "jwt-of-bob":
			refuse(w, "token is malformed")
		case r.Host != domain:
			refuse(w, "http header 'Host: "+r.Host+"' not authorized for configured `vouch.domains`")
		default:
			w.Header().Add("X-Vouch-User", "bob@example.org")
			w.Header().Add("X-Vouch-Success", "true")
			fmt.Fprint(w, "200 OK\n")
		}
	})
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		u, err := url.Parse(r.URL.Query().Get("url"))
		if err != nil || u.Host != domain || !strings.HasPrefix(u.Scheme, "http") {
			http.Error(w, "400 Bad Request", http.StatusBadRequest)
			return
		}
		http.SetCookie(w,
			&http.Cookie{Name: "VouchSession", Value: url.QueryEscape(u.String()), Path: "/"})
		http.Redirect(w, r, "/auth?state=x&code=y", http.StatusFound)
	})
	mux.HandleFunc("/auth", func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie("VouchSession")
		if err != nil {
			http.Error(w, "400 Bad Request", http.StatusBadRequest)
			return
		}
		back, _ := url.QueryUnescape(c.Value)
		http.SetCookie(w, &http.Cookie{Name: "VouchCookie", Value: "jwt-of-bob", Path: "/"})
		http.Redirect(w, r, back, http.StatusFound)
	})
	return mux
}

// authelia answers as Authelia does, at its endpoints for servers that send what Traefik and what
// nginx sends. Both want to know of an address with https. The program itself cannot be had from
// the module proxy.
func authelia(portal string) http.Handler {
	answer := func(w http.ResponseWriter, r *http.Request, method string, u *url.URL, redirects bool) {
		c, err := r.Cookie("authelia_session")
		to := portal + "/?" + url.Values{"rd": {u.String()}, "rm": {method}}.Encode()
		page := strings.Contains(r.Header.Get("Accept"), "text/html") &&
			r.Header.Get("X-Requested-With") == ""
		switch {
		case u.Scheme != "https" && u.Scheme != "wss" || method == "":
			http.Error(w, "401 Unauthorized", http.StatusUnauthorized)
		case err == nil && c.Value == "john":
			w.Header().Set("Remote-User", "john")
			w.Header().Set("Remote-Groups", "admins,dev")
			w.Header().Set("Remote-Name", "John Doe")
			w.Header().Set("Remote-Email", "john@example.org")
			if strings.HasPrefix(u.Path, "/secret") {
				w.Header().Del("Remote-User")
				http.Error(w, "403 Forbidden", http.StatusForbidden)
			}
		case redirects && page:
			status := http.StatusFound
			if method != "GET" && method != "HEAD" {
				status = http.StatusSeeOther
			}
			w.Header().Set("Set-Cookie", "authelia_session=new; Path=/")
			http.Redirect(w, r, to, status)
		default:
			w.Header().Set("Location", to)
			http.Error(w, "401 Unauthorized", http.StatusUnauthorized)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/authz/forward-auth", func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		u, _ := url.Parse(h.Get("X-Forwarded-Proto") + "://" + h.Get("X-Forwarded-Host") +
			h.Get("X-Forwarded-Uri"))
		answer(w, r, h.Get("X-Forwarded-Method"), u, true)
	})
	mux.HandleFunc("/api/authz/auth-request", func(w http.ResponseWriter, r *http.Request) {
		u, _ := url.Parse(r.Header.Get("X-Original-Url"))
		answer(w, r, r.Header.Get("X-Original-Method"), u, false)
	})
	return mux
}

// services starts a site that asks a service, whose address is in the place of SERVICE.
func services(t *testing.T, m modes.Mode, service func(at string) http.Handler,
	text string) *testserver.Server {
	t.Helper()
	var h http.Handler
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	s := source()
	c := must.Get(s.Parse(t.TempDir()+"/t.conf",
		strings.ReplaceAll(text, "SERVICE", web.Listener.Addr().String())))(t)
	srv := testserver.Start(t, m, conn.Config{Handler: c.Router.Serve, Logger: s.Logger})
	h = service(srv.Addr)
	return srv
}

// TestVouch: a stranger is led to log in, comes back to what it has asked for, and the application
// learns the name from the service alone, as in the manual.
func TestVouch(t *testing.T) {
	t.Parallel()
	srv := services(t, modes.Direct, vouch, `[[site]]
[[site.route]]
prefix = "/validate"
module = "proxy"
address = "SERVICE"
internal = true
[[site.route]]
prefix = "/login"
module = "proxy"
address = "SERVICE"
[[site.route]]
prefix = "/auth"
module = "proxy"
address = "SERVICE"
[[site.route]]
prefix = "/"
handler = "echo"
auth = { request = "/validate", copy_headers = ["X-Vouch-User"], user_header = "X-Vouch-User", login = "/login?url={url}&vouch-failcount={answer.X-Vouch-Failcount}&X-Vouch-Token={answer.X-Vouch-JWT}&error={answer.X-Vouch-Error}" }
`)
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar}
	defer client.CloseIdleConnections()
	req := must.Get(http.NewRequest("GET", "http://"+srv.Addr+"/app/a%20b?x=1&y=%26", nil))(t)
	req.Header.Set("X-Vouch-User", "forged")
	resp := must.Get(client.Do(req))(t)
	body := must.Body(t, resp)
	if resp.StatusCode != 200 || !strings.HasPrefix(body, "GET /app/a%20b?x=1&y=%26 HTTP/1.1\n") ||
		!strings.Contains(body, "\nX-Vouch-User: bob@example.org\n") || strings.Contains(body, "forged") {
		t.Errorf("%s\n%s", resp.Status, body)
	}

	for _, tt := range []struct {
		line, cookie, to string
		status           int
	}{
		{"GET /x?a=b&c", "",
			"/login?url=http://test.example/x%3Fa%3Db%26c&vouch-failcount=&X-Vouch-Token=&error=no%20jwt%20found%20in%20request", 302},
		{"HEAD /", "",
			"/login?url=http://test.example/&vouch-failcount=&X-Vouch-Token=&error=no%20jwt%20found%20in%20request", 302},
		{"DELETE /", "VouchCookie=x",
			"/login?url=http://test.example/&vouch-failcount=&X-Vouch-Token=&error=token%20is%20malformed",
			303},
	} {
		fields := []string{"X-A: b"}
		if tt.cookie != "" {
			fields = append(fields, "Cookie: "+tt.cookie)
		}
		a := srv.Request(tt.line, fields, "")
		if a.StatusCode != tt.status || a.Header.Get("Location") != tt.to ||
			len(a.Header.Values("Set-Cookie")) != 1 || strings.Contains(a.Text, "jwt") {
			t.Errorf("%s: %s, to %s, %v, %q", tt.line, a.Status, a.Header.Get("Location"), a.Header, a.Text)
		}
	}
}

// TestAuthelia: both endpoints of Authelia, as in the manual.
func TestAuthelia(t *testing.T) {
	t.Parallel()
	const portal = "https://auth.example.org"
	for endpoint, auth := range map[string]string{
		"forward-auth": "whole_answer = true, answer_headers = ['Set-Cookie']",
		"auth-request": "login = '" + portal + "/?rd={url}&rm={answer.X-Method}'",
	} {
		t.Run(endpoint, func(t *testing.T) {
			srv := services(t, modes.OverTLS, func(string) http.Handler { return authelia(portal) },
				`[[site]]
[[site.route]]
prefix = "/api/authz"
module = "proxy"
address = "SERVICE"
internal = true
[[site.route]]
prefix = "/"
handler = "echo"
auth = { request = "/api/authz/`+endpoint+`", copy_headers = ["Remote-User", "Remote-Groups", "Remote-Name", "Remote-Email"], user_header = "Remote-User", `+auth+` }
`)
			page := "Accept: text/html,*/*;q=0.8"
			forward := endpoint == "forward-auth"
			for _, tt := range []struct {
				line   string
				fields []string
				status int
				to     string
			}{
				{"GET /a?x=1", []string{page}, 302, "/?rd=https%3A%2F%2Ftest.example%2Fa%3Fx%3D1&rm=GET"},
				{"DELETE /a", []string{page}, 303, "/?rd=https%3A%2F%2Ftest.example%2Fa&rm=DELETE"},
				{"GET /a", []string{page, "X-Requested-With: XMLHttpRequest"}, 401,
					"/?rd=https%3A%2F%2Ftest.example%2Fa&rm=GET"},
				{"GET /secret/x", []string{page, "Cookie: authelia_session=john"}, 403, ""},
			} {
				a := srv.Request(tt.line, append(tt.fields, "Remote-User: forged"), "")
				to := a.Header.Get("Location")
				want, status := tt.to, tt.status
				if want != "" {
					want = portal + want
				}
				if !forward && want != "" { // the server makes the redirect
					want = strings.NewReplacer("%3A", ":", "%2F",
						"/").Replace(want[:strings.Index(want, "&rm=")]) + "&rm="
					if status == 401 {
						status = 302
					}
				}
				if a.StatusCode != status || to != want {
					t.Errorf("%s %q: %s, to %q, want %q", tt.line, tt.fields, a.Status, to, want)
				}
			}
			a := srv.Request("GET /a",
				[]string{page, "Cookie: authelia_session=john", "Remote-User: forged", "Remote-Groups: forged"},
				"")
			for _, field := range []string{"Remote-User: john", "Remote-Groups: admins,dev",
				"Remote-Name: John Doe", "Remote-Email: john@example.org"} {
				if a.StatusCode != 200 || !strings.Contains(a.Text, "\n"+field+"\n") ||
					strings.Contains(a.Text, "forged") {
					t.Errorf("no %q in %s %s", field, a.Status, a.Text)
				}
			}
		})
	}
}

// TestLoginKey: what cannot be a place to log in is refused.
func TestLoginKey(t *testing.T) {
	for text, want := range map[string]string{
		"login = '/l', whole_answer = true": "login: is in place of whole_answer; expected one of them",
		"login = '{url}'":                   "login: ",
		"login = 'https://{answer.X}/'":     "login: ",
		"login = '/l?{answer.X Y}'":         "login: {answer.X Y}: ",
		"login = '/l?{other}'": "login: \"/l?{other}\": unknown placeholder {other} " +
			"(known: {url}, {uri}, {query}, ",
	} {
		_, err := source().Parse(t.TempDir()+"/t.conf",
			"[[site]]\n[[site.route]]\nprefix = '/c'\nhandler = 'echo'\n"+
				"[[site.route]]\nprefix = '/'\nhandler = 'echo'\nauth = { request = '/c', "+text+" }\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
