package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/internal/test/logtext"
	testserver "github.com/lwango/lwango/internal/test/server"
)

// portal is a service as Authelia, oauth2-proxy and Vouch are: it sends strangers to a page to log
// in, and says of others who they are.
type portal struct {
	asked atomic.Int32
	free  chan struct{} // closed: no request hangs any more
}

func (p *portal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked.Add(1)
	user := ""
	if c, err := r.Cookie("user"); err == nil {
		user = c.Value
	}
	for _, name := range []string{"Remote-User", "Remote-Groups", "X-Auth-Request-Email"} {
		if v := r.Header.Values(name); v != nil {
			user = "forged" // the client's must not come so far
		}
	}
	h := w.Header()
	switch {
	case user != "":
	case strings.HasPrefix(r.Header.Get("X-Forwarded-Uri"), "/public/"),
		r.Header.Get("X-Original-Method") == "OPTIONS":
		return // which are for all
	}
	switch user {
	case "":
		h.Add("Set-Cookie", "csrf=1")
		h.Add("Set-Cookie", "csrf2=2")
		http.Redirect(w, r, "https://login.test/?rd="+r.Header.Get("X-Original-URL"), http.StatusFound)
	case "api":
		h.Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
	case "eve":
		h.Set("Content-Type", "text/page")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "not for you")
	case "big":
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, strings.Repeat("x", 2<<20))
	case "cut":
		w.Header().Set("Content-Length", "9")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, "cut")
	case "garbage":
		c, _, _ := http.NewResponseController(w).Hijack()
		c.Write([]byte("\x00\x01\r\n\r\n"))
		c.Close()
	case "hang":
		<-p.free
	case "fresh":
		h.Set("Set-Cookie", "session=new")
		h.Set("Remote-User", "fresh")
	case "long":
		h.Set("Remote-Groups", strings.Repeat("g", 5<<10))
	default:
		h.Set("Remote-User", user)
		h.Set("Remote-Groups", "a,b")
		h.Set("X-Seen", fmt.Sprint(r.Method, " ", r.URL, " ", r.Header["X-Original-Url"],
			r.Header["X-Original-Method"], r.Header["X-Forwarded-Uri"], r.Header["X-Forwarded-Method"],
			r.Header["X-Forwarded-Host"], r.Header["X-Auth-Request-Redirect"], r.Header["X-Empty"]))
	}
}

func startPortal(t *testing.T) (p *portal, at string) {
	t.Helper()
	p = &portal{free: make(chan struct{})}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	t.Cleanup(func() { close(p.free) })
	return p, web.Listener.Addr().String()
}

// portalConf is a site behind a portal, whose answers must begin within the time given.
func portalConf(auth, at, within string) string {
	return "[[site]]\nerror_pages = { 504 = '/page' }\n[[site.route]]\nprefix = '/check'\nmodule = " +
		"'proxy'\naddress = '" + at +
		"'\nfirst_byte_timeout = '" + within +
		"'\n[[site.route]]\nprefix = '/page'\nmodule = 'response'\nbody = " +
		"'a page'\n" +
		"[[site.route]]\nprefix = '/'\nhandler = 'echo'\nauth = { request = '/check?groups=a', " +
		"copy_headers = ['Remote-User', 'Remote-Groups', 'X-Seen', 'X-Auth-Request-Email'], " + auth +
		" }\n"
}

// TestWholeAnswer: what the portal says to those who may not pass reaches them as it is. What it
// says of others reaches the application and, where the configuration says so, the client.
func TestWholeAnswer(t *testing.T) {
	t.Parallel()
	_, at := startPortal(t)
	s := source()
	log := new(logtext.Buffer)
	s.Logger = logtext.Logger(t, log)
	srv := sites(t, s, "",
		portalConf("whole_answer = true, answer_headers = ['Set-Cookie'], user_header = 'Remote-User', "+
			"request_headers = { X-Auth-Request-Redirect = '{scheme}://{host}{uri}', X-Empty = '{user}' }",
			at, "1m"))
	ask := func(line, user string) testserver.Answer {
		fields := []string{"Remote-User: forged", "Remote_Groups: forged", "X-Auth-Request-Email: forged",
			"X-Original-URL: http://forged/", "X-Forwarded-Uri: /forged", "X-Auth-Request-Redirect: /forged",
			"X-Empty: forged"}
		if user != "" {
			fields = append(fields, "Cookie: user="+user)
		}
		return srv.Request(line, fields, "")
	}
	for _, tt := range []struct {
		user   string
		status int
		fields string // of the answer: Location, Set-Cookie, WWW-Authenticate, Content-Type
		text   string
	}{
		{"", 302,
			"[https://login.test/?rd=http://test.example/a%20b?x=1] [csrf=1 csrf2=2] [] [text/html; " +
				"charset=utf-8]",
			"<a href=\"https://login.test/?rd=http://test.example/a%20b?x=1\">Found</a>.\n\n"},
		{"api", 401, "[] [] [Bearer] [text/html; charset=utf-8]", "*"}, // the server's own page
		{"eve", 403, "[] [] [] [text/page]", "not for you"},
		{"big", 500, "", "*"}, {"cut", 500, "", "*"}, {"garbage", 502, "", "*"},
		{"fresh", 200, "[] [session=new] [] [text/plain; charset=utf-8]", "*"},
	} {
		a := ask("GET /a%20b?x=1", tt.user)
		h := a.Header
		fields := fmt.Sprint(h["Location"], " ", h["Set-Cookie"], " ", h["Www-Authenticate"], " ",
			h["Content-Type"])
		if tt.user == "cut" && a.StatusCode == 502 { // found out before any of it was passed on
			continue
		}
		if a.StatusCode != tt.status || tt.fields != "" && fields != tt.fields ||
			tt.text != "*" && a.Text != tt.text || h.Get("X-Hop") != "" ||
			strings.Contains(a.Text, "forged") && tt.status != 200 {
			t.Errorf("%q: %s, %s, %.200q", tt.user, a.Status, fields, a.Text)
		}
	}
	a := ask("GET /a%20b?x=1", "ann")
	for _, want := range []string{"\nRemote-User: ann\n", "\nRemote-Groups: a,b\n",
		"\nX-Seen: GET /check?groups=a [http://test.example/a%20b?x=1] [GET] [/a%20b?x=1] [GET] " +
			"[test.example] " +
			"[http://test.example/a%20b?x=1] []\n"} {
		if a.StatusCode != 200 || !strings.Contains(a.Text, want) {
			t.Errorf("%s: no %q in %s", a.Status, want, a.Text)
		}
	}
	if strings.Contains(a.Text, "Email") || strings.Contains(a.Text, "emote-User: forged") ||
		strings.Contains(a.Text, "emote_Groups") {
		t.Errorf("%s", a.Text)
	}
	if a := ask("HEAD /", ""); a.StatusCode != 302 || a.Text != "" {
		t.Errorf("HEAD: %s %q", a.Status, a.Text)
	}

	// A portal that says nothing is a server that failed, for which the site has a page.
	slow := sites(t, s, "", portalConf("whole_answer = true", at, "50ms"))
	if a := slow.Request("GET /", []string{"Cookie: user=hang"}, ""); a.StatusCode != 504 ||
		a.Text != "a page" {
		t.Errorf("a portal that says nothing: %s %q", a.Status, a.Text)
	}
}

// TestAuthCache: an answer that lets a request pass holds for others like it, for a time, and for
// nobody else.
func TestAuthCache(t *testing.T) {
	t.Parallel()
	p, at := startPortal(t)
	for by, sameForAll := range map[string]bool{"": false,
		", cache_by = 'host', user_header = 'Remote-User'": true} {
		srv := sites(t, source(), "", portalConf("whole_answer = true, cache = '30s'"+by, at, "1m"))
		asks := func(line string, fields ...string) int32 {
			t.Helper()
			before := p.asked.Load()
			a := srv.Request(line, fields, "")
			if strings.HasPrefix(line, "GET") && strings.Contains(strings.Join(fields, " "), "user=ann") &&
				!strings.Contains(a.Text, "\nRemote-User: ann\n") {
				t.Errorf("%s %v: %s %s", line, fields, a.Status, a.Text)
			}
			return p.asked.Load() - before
		}
		const ann, bob = "Cookie: user=ann", "Cookie: user=bob"
		for _, tt := range []struct {
			line   string
			fields []string
			want   bool // the portal is asked
		}{
			{"GET /", []string{ann}, true}, {"GET /", []string{ann}, false},
			{"GET /", []string{ann, "Accept: x", "Referer: y", "If-None-Match: z", "Sec-Fetch-Mode: w",
				"Sec-CH-UA: v", "Sec-GPC: 1", "Sec-WebSocket-Key: u", "Sec-WebSocket-Version: 13"}, false},
			{"GET /", []string{bob}, true}, {"GET /", []string{bob}, false}, {"GET /", []string{ann}, false},
			// Whatever may have credentials makes another request of it.
			{"GET /", []string{ann, "Authorization: Bearer x"}, true},
			{"GET /", []string{ann, "Authorization: Bearer y"}, true},
			{"GET /", []string{ann, "X-Api-Key: x"}, true}, {"GET /", []string{ann, "X-Api-Key: x"}, false},
			{"GET /", []string{ann, "Sec-WebSocket-Protocol: bearer.x"}, true},
			{"GET /", []string{ann, "Sec-WebSocket-Protocol: bearer.y"}, true},
			{"GET /", []string{ann, "Sec-Token: x"}, true}, {"GET /", []string{ann, "If-Token: x"}, true},
			{"GET /", []string{ann, "Cookie: more=x"}, true},
			{"GET /", []string{"Cookie: user=ann; more=x"}, true},
			// What it asks for.
			{"GET /x", []string{ann}, !sameForAll}, {"GET /?x", []string{ann}, !sameForAll},
			{"PUT /", []string{ann}, !sameForAll},
			// That a target is for all says nothing of another one.
			{"GET /public/x", nil, true}, {"GET /public/x", nil, sameForAll}, {"GET /", nil, true},
			{"OPTIONS /", nil, true}, {"OPTIONS /", nil, sameForAll}, {"GET /", nil, true},
			// What must not be kept.
			{"GET /", nil, true}, {"GET /", nil, true},
			{"GET /", []string{"Cookie: user=eve"}, true}, {"GET /", []string{"Cookie: user=eve"}, true},
			{"GET /", []string{"Cookie: user=fresh"}, true}, {"GET /", []string{"Cookie: user=fresh"}, true},
			{"GET /", []string{"Cookie: user=long"}, true}, {"GET /", []string{"Cookie: user=long"}, true},
		} {
			if got := asks(tt.line, tt.fields...) > 0; got != tt.want {
				t.Errorf("by %q: %s %q: asked %t", by, tt.line, tt.fields, got)
			}
		}
	}
}

// TestAuthServiceDown: where nothing listens, nobody passes.
func TestAuthServiceDown(t *testing.T) {
	t.Parallel()
	for whole, want := range map[string]int{"false": 500, "true": 502} {
		srv := sites(t, source(), "", portalConf("whole_answer = "+whole, "127.0.0.1:1", "1m"))
		if a := srv.Request("GET /", []string{"Cookie: user=ann"}, ""); a.StatusCode != want {
			t.Errorf("%s: %s", whole, a.Status)
		}
	}
}

// TestAuthKeys: keys that cannot work are refused, with their line.
func TestAuthKeys(t *testing.T) {
	t.Parallel()
	const refused = "t.conf:2: site.auth."
	for auth, want := range map[string]string{
		"htpasswd = 'x', cache = '1s'": "cache: is for the answer to request, which is missing",
		"htpasswd = 'x', whole_answer = true": "whole_answer: is for the answer to request, which is " +
			"missing",
		"request = '/a', cache_by = 'host'": "cache_by: is for cache, which is missing",
		"request = '/a', cache = '11m'":     "cache: must be between 0s and 10m, found 11m",
		"request = '/a', cache = '1s', cache_by = 'host'": `cache_by: "host" needs user_header, ` +
			"since only an answer that names a user holds for all targets",
		"request = '/a', cache = '1s', cache_by = 'x'": `cache_by: expected "target" or "host", found "x"`,
		"request = '/a?b c'":                           `request: expected the path of a route, such as "/auth-check", not "/a?b c"`,
		"request = '/b?c'":                             "request: the site has no route for /b",
		"request = '/a', answer_headers = 'a b'": "answer_headers: a b: not a valid name of a " +
			"header field",
		"request = '/a', user_header = 'connection'": "user_header: connection: is set by the server " +
			"itself",
		"request = '/a', user_header = 'via'": "user_header: via is about the message itself",
		"request = '/a', copy_headers = 'X-Forwarded-Port'": "copy_headers: X-Forwarded-Port tells an " +
			"application of the " +
			"client's connection, not of the user",
		"request = '/a', copy_headers = 'X-Request-ID'": "copy_headers: X-Request-ID is " +
			"set by the server itself",
		"request = '/a', request_headers = { host = 'x' }": "request_headers: host is about " +
			"the message itself",
		"request = '/a', request_headers = { Expect = 'x' }": "request_headers: Expect is " +
			"about the message itself",
		"request = '/a', request_headers = { via = 'x' }": "request_headers: via is about " +
			"the message itself",
		"request = '/a', request_headers = { TE = 'x' }": "request_headers: TE is about " +
			"the message itself",
		"request = '/a', request_headers = { X-Request-ID = 'x' }": "request_headers: X-Request-ID " +
			"is set by the server itself",
		"request = '/a', request_headers = { X-A = 'x', x_a = 'y' }": "request_headers: x_a is given " +
			"twice",
		"request = '/a', request_headers = { A = '{pith}' }": `request_headers: A: "{pith}": unknown placeholder {pith}`,
	} {
		text := "[[site]]\nauth = { " + auth + " }\n[[site.route]]\nprefix = '/a'\nhandler = 'echo'\n"
		if _, err := source().Parse("t.conf", text); !strings.HasPrefix(fmt.Sprint(err), refused+want) {
			t.Errorf("%s\ngot  %v\nwant %s", auth, err, refused+want)
		}
	}
	for _, name := range []string{"X-Forwarded-For", "x-forwarded-proto", "X-Forwarded-Host",
		"X-Forwarded-Port",
		"X-Forwarded-Prefix", "X-Real-IP", "Forwarded", "X_Forwarded_For"} {
		text := "[[site]]\nauth = { request = '/a', request_headers = { " + name + " = 'x' } }\n" +
			"[[site.route]]\nprefix = '/a'\nhandler = 'echo'\n"
		want := refused + "request_headers: " + name + " is set by the server itself"
		if _, err := source().Parse("t.conf", text); fmt.Sprint(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
