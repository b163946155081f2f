package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
)

// TestUserHeaderOfClient: a field of user_header that the client has sent reaches neither the route
// that is asked nor the application, also if it is not copied and the answer comes from the cache.
func TestUserHeaderOfClient(t *testing.T) {
	t.Parallel()
	s := source()
	s.Routes = []handlers.Route{{Prefix: "/check",
		Handler: func(req *conn.Request, w *conn.Response) int {
			if req.Header().Has("Remote-User") || req.Header().Has("Remote_User") {
				return 403
			}
			w.Header().Set("remote-user", "ann")
			return 204
		}}}
	srv := sites(t, s, "",
		"[[site]]\nauth = { request = '/check', user_header = 'Remote-User', cache = '30s' }\n"+
			"[[site.route]]\nprefix = '/'\nhandler = 'echo'\n")
	for range 2 {
		a := srv.Request("GET /",
			[]string{"Remote-User: admin", "Remote_User: root", "remote-user: eve", "X-Other: y"}, "")
		if a.StatusCode != 200 || !strings.Contains(a.Text, "\nX-Other: y\n") ||
			strings.Contains(strings.ReplaceAll(strings.ToLower(a.Text), "_", "-"), "remote-user") {
			t.Errorf("%s: %s", a.Status, a.Text)
		}
	}
	if a := srv.Request("GET /", []string{"Connection: Remote_User"}, ""); a.StatusCode != 400 {
		t.Errorf("a field taken back: %s", a.Status)
	}
}

// TestAskedTarget: the route that is asked judges the path that is served, and not what it may look
// like.
func TestAskedTarget(t *testing.T) {
	t.Parallel()
	s := source()
	s.Routes = []handlers.Route{{Prefix: "/check",
		Handler: func(req *conn.Request, w *conn.Response) int {
			h := req.Header()
			w.Header().Set("X-Seen",
				fmt.Sprint(h.Values("X-Original-URI"), h.Values("X-Forwarded-Uri"), h.Values("X-Original-URL"),
					h.Values("X-Original-Host")))
			return 204
		}}}
	srv := sites(t, s, "", "[[site]]\nauth = { request = '/check', copy_headers = 'X-Seen' }\n"+
		"[[site.rule]]\npath = '/old'\nrewrite = '/new?r'\n[[site.route]]\nprefix = '/'\nhandler = "+
		"'echo'\n")
	for target, want := range map[string]string{
		"/public/../admin?x=/../y":          "/admin?x=/../y",
		"/public/%2e%2E/admin":              "/admin",
		"/public%2F..%2Fadmin":              "/admin",
		"//public/.//x":                     "/public/x",
		"/a%20b%2Fc?x=1":                    "/a%20b%2Fc?x=1", // means what is served, as it is
		"/a|b%2F%3B":                        "/a%7Cb%2F%3B",
		"/a%2F%2Fb//c":                      "/a%2F%2Fb/c", // as an upstream gets it
		"/x?":                               "/x?",
		"/":                                 "/",
		"http://other.example/p/../admin?q": "/admin?q",
		"HTTP://other.example/x":            "/x",
		"http://other.example":              "/",
		"http://other.example?q=/../x":      "/?q=/../x",
		"/x/../old?q":                       "/old?q", // what the client has asked for, before rules
	} {
		host := "test.example"
		if target[0] != '/' {
			host = "other.example"
		}
		want = fmt.Sprintf("\nX-Seen: [%s] [%s] [http://%s%s] [%s]\n", want, want, host, want, host)
		a := srv.Request("GET "+target, []string{"X-Original-URI: /public/", "X_Forwarded_Uri: /public/"},
			"")
		if a.StatusCode != 200 || !strings.Contains(a.Text, want) {
			t.Errorf("%s: %s, %s\nwant %s", target, a.Status, a.Text, want)
		}
	}
}
