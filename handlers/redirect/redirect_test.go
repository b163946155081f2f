package redirect_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/redirect"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/template"
)

// known is how an error lists the placeholders.
var known = "(known: " + template.List(placeholder.Names) + ")"

func TestRedirect(t *testing.T) {
	for _, c := range []struct {
		to, line, want string
		why            string
	}{
		{"https://new.example/home", "GET /old/x?y=1", "https://new.example/home",
			"nothing is appended by itself"},
		{"/new", "POST /old", "/new", "any method"},
		{"/new{path}", "GET /old/a/b", "/new/a/b", "what follows the prefix"},
		{"/new{path}", "GET /old", "/new/", "the prefix itself"},
		{"/new{path}{query}", "GET /old/a?x=1&y=%20", "/new/a?x=1&y=%20",
			"the query as it was sent,"},
		{"/new{path}{query}", "GET /old/a?x=\xff\u00e4\"<>[|]%zz",
			"/new/a?x=%FF%C3%A4%22%3C%3E%5B%7C%5D%25zz", "but for what no address can have"},
		{"/new{uri}", "GET /old/a?\u00e4", "/new/old/a?%C3%A4", ""},
		{"/new{path}{query}", "GET /old/a?", "/new/a", "an empty query"},
		{"https://new.example{uri}", "GET /old/a%20b?x", "https://new.example/old/a%20b?x",
			"all of it"},
		{"https://{host}{uri}", "GET /old/a", "https://test.example/old/a",
			"the host without its port"},
		{"/pay?in=%24", "GET /old/a", "/pay?in=%24", "a $ itself"},
		{"/$-x/$.y", "GET /old/a", "/$-x/$.y", "a $ that nobody would take for a placeholder"},
		{"https://www.{host}/x", "GET /old/a", "https://www.test.example/x", ""},
		{"/new{path}", "GET /old/%C3%A9%3F%25%0", "", "a malformed path does not get here"},
		{"/new{path}", "GET /old/%C3%A9%3F%25", "/new/%C3%A9%3F%25", "in its encodings"},
		{"/new{path}", "GET /old/a%2F..%2F%2Fb", "/new/%2Fb", "dot segments are resolved"},
		{"/new{path}", "GET /old/a%2fb%3B%26%2B%3A%40//|", "/new/a%2fb%3B%26%2B%3A%40//%7C",
			"as it was sent"},
		{"https://new.example{uri}", "GET /old/a%2fb%3B?c=%2f%3b",
			"https://new.example/old/a%2fb%3B?c=%2f%3b", ""},
		{"/new{uri}", "GET /old/a?", "/new/old/a?", "the empty query is part of it"},
		{"/login?to={uri}", "GET /old/a%2Fb?c=%20", "/login?to=/old/a%252Fb%3Fc%3D%2520",
			"the target as a value"},
		{"/{path}", "GET /old/%2Fevil.example", "/%2Fevil.example", ""},
		{"/{path}", "GET /old/evil.example/x", "/evil.example/x",
			"no second slash, which would name a server"},
		{"/{path}", "GET /old//evil.example", "/evil.example", ""},
		{"{path}", "GET /old//evil.example/..", "/", ""},
		{"{path}", "GET /old/%5Cevil.example", "/%5Cevil.example",
			"browsers take a backslash for a slash"},
		{"{uri}", "GET //evil.example/../old/x", "/old/x", ""},
		{"/search?q={path}", "GET /old/a", "/search?q=/a", "in a query"},
	} {
		t.Run(c.to+" "+c.line, func(t *testing.T) {
			h := must.Get(module.Build(t, redirect.Register, "redirect", handlers.Env{},
				func(s *redirect.Settings) { s.To = c.to }))(t)
			got := module.Start(t, modes.Plain, "/old", h).Request(c.line,
				[]string{"Content-Length: 0"}, "")
			want := 302
			if c.want == "" {
				want = 400
			}
			if got.StatusCode != want || got.Header.Get("Location") != c.want {
				t.Errorf("got %d %q, want %d %q (%s)", got.StatusCode, got.Header.Get("Location"),
					want, c.want, c.why)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		h := must.Get(module.Build(t, redirect.Register, "redirect", handlers.Env{},
			func(s *redirect.Settings) { s.To, s.Status = "/", status }))(t)
		if got := module.Start(t, modes.Plain, "/", h).Request("GET /", nil,
			""); got.StatusCode != status {
			t.Errorf("got %d, want %d", got.StatusCode, status)
		}
	}
}

func TestWithoutHost(t *testing.T) {
	h := must.Get(module.Build(t, redirect.Register, "redirect", handlers.Env{},
		func(s *redirect.Settings) { s.To = "https://{host}{uri}" }))(t)
	s := module.Start(t, modes.Plain, "/", h)
	for wire, want := range map[string]string{
		"GET /evil.example HTTP/1.0\r\n\r\n":                   "400 ",
		"GET /x HTTP/1.0\r\nHost: a.example:80\r\n\r\n":        "302 https://a.example/x",
		"GET /x HTTP/1.0\r\nHost: [::1]:80\r\n\r\n":            "302 https://[::1]/x",
		"GET /x HTTP/1.0\r\nHost: [::1]\r\n\r\n":               "302 https://[::1]/x",
		"GET http://b.example/x HTTP/1.0\r\nHost: a\r\n\r\n":   "302 https://b.example/x",
		"GET /evil.example/.. HTTP/1.0\r\nHost: :80\r\n\r\n\r": "400 ",
	} {
		c := s.Dial()
		fmt.Fprint(c, wire)
		got := c.Answer("GET")
		if answer := fmt.Sprint(got.StatusCode, " ", got.Header.Get("Location")); answer != want {
			t.Errorf("%q: got %q, want %q", wire, answer, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		settings  redirect.Settings
		key, want string
	}{
		{redirect.Settings{To: "/", Status: 200}, "status",
			"status: expected 301, 302, 303, 307 or 308, not 200"},
		{redirect.Settings{To: "/", Status: 304}, "status",
			"status: expected 301, 302, 303, 307 or 308, not 304"},
		{redirect.Settings{Status: 302}, "to", "to: missing: the address to send clients to"},
		{redirect.Settings{To: "new", Status: 302}, "to",
			`to: "new": expected http://..., https://... or a path that begins with a slash`},
		{redirect.Settings{To: "{host}/x", Status: 302}, "to",
			`to: "{host}/x": expected http://..., https://... or a path that begins with a slash`},
		{redirect.Settings{To: "https://$host$request_uri", Status: 302}, "to",
			`to: "https://$host$request_uri": unknown placeholder $host (known: {path}, {uri}, {query}, {host}; a $ itself is written %24)`},
		{redirect.Settings{To: "/new/$1", Status: 302}, "to",
			`to: "/new/$1": unknown placeholder $1 (known: {path}, {uri}, {query}, {host}; a $ itself is written %24)`},
		{redirect.Settings{To: "/new${uri}", Status: 302}, "to",
			`to: "/new${uri}": unknown placeholder $ (known: {path}, {uri}, {query}, {host}; a $ itself is written %24)`},
		{redirect.Settings{To: "{query}", Status: 302}, "to", `to: "{query}": nothing but a query`},
		{redirect.Settings{To: "/a b", Status: 302}, "to",
			`to: ' ' cannot be part of an address; write it as %20`},
		{redirect.Settings{To: "/a\r\nb", Status: 302}, "to",
			`to: '\r' cannot be part of an address; write it as %0D`},
		{redirect.Settings{To: `/\host`, Status: 302}, "to",
			`to: '\\' cannot be part of an address; write it as %5C`},
		{redirect.Settings{To: "/{path", Status: 302}, "to", `to: "/{path": a { without its }`},
		{redirect.Settings{To: "/path}", Status: 302}, "to", `to: "/path}": a } without its {`},
		{redirect.Settings{To: "/{file}", Status: 302}, "to",
			`to: "/{file}": unknown placeholder {file} ` + known},
		{redirect.Settings{To: "/%zz", Status: 302}, "to", `to: "/%zz": not an address`},
		{redirect.Settings{To: "https:/x", Status: 302}, "to",
			`to: "https:/x": no server after https:`},
		{redirect.Settings{To: "https:{path}", Status: 302}, "to",
			`to: "https:{path}": no server after https:`},
		{redirect.Settings{To: "{host}:{path}", Status: 302}, "to",
			`to: "{host}:{path}": a request would name the scheme`},
		{redirect.Settings{To: "https://{path}", Status: 302}, "to",
			`to: "https://{path}": the path of a request would name the server`},
		{redirect.Settings{To: "//{uri}", Status: 302}, "to",
			`to: "//{uri}": the path of a request would name the server`},
		{redirect.Settings{To: "//{query}0", Status: 302}, "to",
			`to: "//{query}0": the query of a request would name the server`},
		{redirect.Settings{To: "//{path}", Status: 302}, "to",
			`to: "//{path}": the path of a request would name the server`},
	} {
		_, err := module.Build(t, redirect.Register, "redirect", handlers.Env{},
			func(s *redirect.Settings) { *s = c.settings })
		var bad *handlers.KeyError
		if !errors.As(err, &bad) || bad.Key != c.key || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}
