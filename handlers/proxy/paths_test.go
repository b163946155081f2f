package proxy_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
)

// TestPathForUpstream: what the upstream is asked for where the prefix is replaced, or empty
// segments stay.
func TestPathForUpstream(t *testing.T) {
	lines := make(chan string, 1)
	o := start(t, func(p *originConn) {
		for head := p.head(); head != ""; head = p.head() {
			line, _, _ := strings.Cut(head, "\r\n")
			lines <- line
			p.say(hello)
		}
	})
	type rows map[string]string // by target
	for _, tt := range []struct {
		prefix string
		paths  proxy.Paths
		rows   rows
	}{
		{"/api", proxy.Paths{ReplacePrefix: "/v1", MergeSlashes: true}, rows{
			"/api": "/v1", "/api/": "/v1/", "/api/x?y": "/v1/x?y", "/api?y": "/v1?y",
			"/api/a%2Fb%20c": "/v1/a%2Fb%20c", "/%61pi/a%2Fb": "/v1/a%2Fb", "/api//x": "/v1/x",
			"/api%2Fa%2Fb":  "/v1/a/b",
			"/api/../api/x": "/v1/x", "http://test.example/api/x": "/v1/x",
		}},
		{"/api", proxy.Paths{ReplacePrefix: "/v1/", MergeSlashes: true}, rows{
			"/api": "/v1", "/api/": "/v1/", "/api/x": "/v1/x",
		}},
		{"/api", proxy.Paths{ReplacePrefix: "/", MergeSlashes: true}, rows{
			"/api": "/", "/api/": "/", "/api/x": "/x",
		}},
		{"/", proxy.Paths{ReplacePrefix: "/a b/ü", MergeSlashes: true}, rows{
			"/": "/a%20b/%C3%BC/", "/x": "/a%20b/%C3%BC/x",
		}},
		{"/app", proxy.Paths{}, rows{
			"/app/https://example.org//x": "/app/https://example.org//x", "//app/x": "/app/x",
			"/app/a%20//b": "/app/a%20//b", "/app/x//": "/app/x//", "/app//": "/app//",
			// Dot segments are resolved, and nothing else is changed.
			"/app/a/..//b": "/app//b", "/app/.//b": "/app//b", "/app/a/%2Fb": "/app/a/%2Fb",
			"/app//%2e%2e/app/x": "/app/x", "/app//a|b%3B": "/app//a%7Cb%3B",
		}},
		{"/app", proxy.Paths{StripPrefix: true}, rows{
			"/app/https://example.org/": "/https://example.org/", "/app": "/", "/app/x//y": "/x//y",
			// What begins with two slashes could pass for the name of a server.
			"/app//x": "/x", "/app///x//y": "/x/y", "//app//x": "/x", "/app//": "/", "/app/%2Fx": "/%2Fx",
		}},
		{"/app", proxy.Paths{ReplacePrefix: "/v1"}, rows{
			"/app//x": "/v1//x", "/app/x//y": "/v1/x//y",
		}},
		{"/", proxy.Paths{}, rows{"//evil.example//x": "/evil.example//x", "///": "/"}},
		{"/", proxy.Paths{MergeSlashes: true}, rows{
			"/api/v1/repositories/https%3A%2F%2Fgithub.com%2Forg%2Frepo.git/apps": "/api/v1/repositories/https%3A%2F%2Fgithub.com%2Forg%2Frepo.git/apps",
			"/a%2Fb/[slug]": "/a%2Fb/%5Bslug%5D", "/%3B|^{": "/%3B%7C%5E%7B", "/%3b\xc3\xbc": "/%3b%C3%BC",
			"/a%2F/b":     "/a%2F/b",
			"/a//b%2F%2F": "/a/b%2F%2F", "/x%2Fy/../%3B?a|%2F": "/x%2F%3B?a|%2F",
			"http://test.example/a%2Fb/./|": "/a%2Fb/%7C",
			// An empty query is a query.
			"/x?": "/x?", "/?": "/?", "/x??": "/x??", "http://test.example?": "/?",
			"http://test.example": "/",
		}},
		{"/app", proxy.Paths{StripPrefix: true, MergeSlashes: true}, rows{
			"/app/https://example.org/": "/https:/example.org/",
		}},
	} {
		f := serve(t, modes.Direct, tt.prefix, []string{o.addr}, func(s *proxy.Settings) {
			s.Paths = tt.paths
		})
		for target, want := range tt.rows {
			if g := f.get(target); g.status != 200 {
				t.Fatalf("%+v %s: %+v", tt.paths, target, g)
			}
			if got, want := <-lines, "GET "+want+" HTTP/1.1"; got != want {
				t.Errorf("%+v %s: %s, want %s", tt.paths, target, got, want)
			}
		}
	}
}

// refused builds the module with settings that cannot work, and returns the error.
func refused(t *testing.T, change func(*proxy.Settings)) string {
	t.Helper()
	_, err := module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/app"},
		func(s *proxy.Settings) {
			s.Address = []string{"127.0.0.1:1"}
			change(s)
		})
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestPathErrors: what is no path is refused.
func TestPathErrors(t *testing.T) {
	t.Parallel()
	const want = "replace_prefix: expected a path without encodings, dots and empty segments, such " +
		"as \"/v1\", not "
	for to, want := range map[string]string{
		"v1": want + `"v1"`, "/v1/../x": want + `"/v1/../x"`, "/a%20b": want + `"/a%20b"`,
		"//x": want + `"//x"`, "/a?b": want + `"/a?b"`,
	} {
		if got := refused(t, func(s *proxy.Settings) { s.ReplacePrefix = to }); got != want {
			t.Errorf("%q: %s", to, got)
		}
	}
	got := refused(t, func(s *proxy.Settings) { s.ReplacePrefix, s.StripPrefix = "/v1", true })
	if got != "replace_prefix: is in place of strip_prefix; expected one of them" {
		t.Error(got)
	}
}
