package cgi_test

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/cgi"
	"github.com/lwango/lwango/internal/wire/http1"
)

var php = []string{".php"}

// TestFront: what the front controller gets for a path.
func TestFront(t *testing.T) {
	for _, tt := range []struct{ front, path, script, info, query string }{
		{"/index.php", "/a/b", "/index.php", "", ""},
		{"/app.fcgi", "/a", "/app.fcgi", "", ""},
		{"/app.fcgi?x=1", "/a", "/app.fcgi", "", "x=1"},
		{"/index.php{path}", "/a/b", "/index.php", "/a/b", ""},
		{"/index.php{path}", "/a/", "/index.php", "/a/", ""},
		{"/index.php/{path}", "/a/b", "/index.php", "/a/b", ""},
		{"/index.php/x{path}", "/a", "/index.php", "/x/a", ""},
		{"/index.php/x", "/a", "/index.php", "/x", ""},
		{"/sub/index.php/{rest}/y", "/a", "/sub/index.php", "/a/y", ""},
		{"/index.php?q={path}", "/a/b", "/index.php", "", "q=/a/b"},
		{"/index.php?q={rest}", "/a/b", "/index.php", "", "q=a/b"},
		{"/doku.php?id={rest}&x=1", "/a:b/c-d_e.f~g,h@i", "/doku.php", "",
			"id=a:b/c-d_e.f~g,h@i&x=1"},
		// No path adds a variable, or ends the query.
		{"/index.php?q={rest}", "/a&q=b", "/index.php", "", "q=a%26q%3Db"},
		{"/index.php?q={rest}", "/a+b c#d%e?f;g", "/index.php", "",
			"q=a%2Bb%20c%23d%25e%3Ff%3Bg"},
		{"/index.php?q={rest}", "/é\xff", "/index.php", "", "q=%C3%A9%FF"},
		{"/index.php{path}?q={path}", "/a b", "/index.php", "/a b", "q=/a%20b"},
	} {
		f, err := cgi.ParseFront(tt.front, php)
		if err != nil {
			t.Errorf("%s: %v", tt.front, err)
			continue
		}
		if info, query := f.Info(tt.path), f.Query(tt.path); f.Script != tt.script ||
			info != tt.info || query != tt.query {
			t.Errorf("%s for %q: %q, %q, %q", tt.front, tt.path, f.Script, info, query)
		}
	}
	for _, front := range []string{"", "/", "/app/", "index.php", "../x.php", "/../x.php",
		"/a/../x.php",
		"/./x.php", "//x.php", "/index.php/../x", "/index.php//x", "?q={path}", "/{path}",
		"/{path}.php", "/index.php{", "/index.php{}", "/index.php?q={", "/index.php?q=a b",
		"/index.php?q=#x", "/index.php?q={host}", "/index.php{query}",
		"/index.php?$args", "/index.php$uri", "/a\x00.php", "/x{path}", "/index.phpx{path}"} {
		if f, err := cgi.ParseFront(front, php); err == nil {
			t.Errorf("%q is taken: %+v", front, f)
		}
	}
}

// FuzzFront: whatever the path, the script stays the same, the path info is a clean path, and the
// query has one variable with the path as its value.
func FuzzFront(f *testing.F) {
	for _, s := range []string{"/", "/a", "/a%20b&c=d", "/%2e%2e/a", "/a//b/", "/%FF%00"} {
		f.Add(s)
	}
	front := must.Get(cgi.ParseFront("/index.php/x{path}?q={path}", php))(f)
	f.Fuzz(func(t *testing.T, raw string) {
		path, err := http1.CleanPath(nil, []byte(raw))
		if err != nil {
			return
		}
		if info := front.Info(string(path)); info != "/x"+string(path) {
			t.Errorf("path info of %q is %q", path, info)
		}
		query := front.Query(string(path))
		values, err := url.ParseQuery(query)
		if err != nil || len(values) != 1 || len(values["q"]) != 1 ||
			values.Get("q") != string(path) || strings.ContainsAny(query, "# \r\n\x00") {
			t.Errorf("query of %q is %q: %v", path, query, err)
		}
	})
}

// TestResolveFront: the front controller's own parts come only where it takes the place of another
// path.
func TestResolveFront(t *testing.T) {
	r := rules(cgi.Rules{Try: cgi.TryFront, FrontMissing: true})
	var err error
	if r.Front, err = cgi.ParseFront("/index.php{path}?q={rest}", php); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]cgi.Target{
		"/":            {Kind: cgi.Script, Name: "/index.php"},
		"/index.php":   {Kind: cgi.Script, Name: "/index.php"},
		"/index.php/x": {Kind: cgi.Script, Name: "/index.php", Info: "/x"},
		"/style.css":   {Kind: cgi.Static, Name: "/style.css"},
		"/users/7": {Kind: cgi.Script, Name: "/index.php", Info: "/users/7",
			Query: "q=users/7"},
		"/css/": {Kind: cgi.Script, Name: "/index.php", Info: "/css/", Query: "q=css/"},
		"/no.php/x": {Kind: cgi.Script, Name: "/index.php", Info: "/no.php/x",
			Query: "q=no.php/x"},
		"/notes.php.bak": {},
		"/a\n":           {Kind: cgi.BadRequest},
	} {
		if got, err := r.Resolve(site, path); got != want || err != nil {
			t.Errorf("%q: %+v, %v", path, got, err)
		}
	}
}

// TestQueries: the front controller's own query comes first.
func TestQueries(t *testing.T) {
	for _, tt := range [][3]string{
		{"", "", ""}, {"q=a", "", "q=a"}, {"", "x=1", "x=1"}, {"q=a", "x=1&y", "q=a&x=1&y"},
	} {
		r := base()
		r.Front, r.Query = tt[0], tt[1]
		if got := values(t, &r)["QUERY_STRING"]; got != tt[2] {
			t.Errorf("%q and %q: %q", tt[0], tt[1], got)
		}
	}
}

func values(t *testing.T, r *cgi.Request) map[string]string {
	t.Helper()
	list := must.Get(params(t, r))(t)
	got := make(map[string]string)
	for _, p := range list {
		got[p[0]] = p[1]
	}
	return got
}

// TestPlaceholders: parameters of the configuration with parts of the request, which replace others
// of their name as well.
func TestPlaceholders(t *testing.T) {
	r := base()
	r.Target, r.Path, r.Query = "/app/a%20b?x=1", "/a b", "x=1"
	r.Host, r.TLS, r.ID = "[::1]:8443", true, []byte("17")
	r.Remote = netip.MustParseAddrPort("[::ffff:192.0.2.1]:5")
	r.Fields = cgi.List{{Name: "X-Url", Value: "theirs"}}
	want := map[string]string{
		"PATHS": "/a b|a b", "URI": "/app/a%20b?x=1", "QUERY": "?x=1",
		"HTTP_X_URL":  "https://[::1]/",
		"REMOTE_ADDR": "client 192.0.2.1", "ID": "17",
		"JSON": `{"path": {"a": {}}}`, "OPEN": "{path", "CLOSE": "path}", "MONEY": "$path",
		"EMPTY":  "",
		"NESTED": "{/a b}",
	}
	for name, value := range map[string]string{
		"PATHS": "{path}|{rest}", "URI": "{uri}", "QUERY": "{query}",
		"HTTP_X_URL": "{scheme}://{host}/", "REMOTE_ADDR": "client {address}", "ID": "{id}",
		"JSON": `{"path": {"a": {}}}`, "OPEN": "{path", "CLOSE": "path}", "MONEY": "$path",
		"EMPTY":  "",
		"NESTED": "{{path}}",
	} {
		r.Params = append(r.Params, cgi.Field{Name: name, Value: value})
	}
	got := values(t, &r)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	r.Target, r.Query, r.Path, r.Remote, r.TLS = "/?y", "", "/", netip.AddrPort{}, false
	got = values(t, &r)
	for name, value := range map[string]string{"URI": "/?y", "QUERY": "", "PATHS": "/|",
		"HTTP_X_URL": "http://[::1]/", "REMOTE_ADDR": "client unix:"} {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	r.Query = "\x00"
	if _, err := params(t, &r); err == nil {
		t.Error("a NUL is passed on")
	}
}
