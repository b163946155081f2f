package proxy_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestMapBack: what an upstream says of its own addresses, and what the client gets.
func TestMapBack(t *testing.T) { modes.Run(t, testMapBack, modes.Direct, modes.HTTP2) }

func testMapBack(t *testing.T, m modes.Mode) {
	field := ""
	var o *origin
	o = start(t, func(p *originConn) {
		for req := p.request(); req != nil; req = p.request() {
			p.say("HTTP/1.1 200 OK\r\n%s\r\nContent-Length: 0\r\n\r\n",
				strings.ReplaceAll(field, "UP", o.addr))
		}
	})
	const client = "http://test.example"
	type rows [][2]string
	strip := proxy.Paths{StripPrefix: true, MapBack: true}
	v1 := proxy.Paths{ReplacePrefix: "/v1", MapBack: true}
	for _, tt := range []struct {
		name, prefix, host string
		paths              proxy.Paths
		rows               rows // "" for the second: the same
	}{
		{"strip", "/app", "client", strip, rows{
			{"Location: /login?x=/y#z", "Location: /app/login?x=/y#z"},
			{"Location: /", "Location: /app/"},
			// What names the client's host is meant for the client.
			{"Location: " + client + "/login", ""}, {"Location: " + client + ":80/login", ""},
			{"Location: " + client, ""}, {"Location: https://test.example/x", ""},
			{"Location: //test.example/x", ""},
			{"location: /x", "Location: /app/x"},
			// What the upstream says with its prefix, which X-Forwarded-Prefix has told, stays.
			{"Location: /app/login", ""}, {"Location: /app", ""}, {"Location: /app?x", ""},
			{"Location: /apple", "Location: /app/apple"},
			// Relative ones mean the same to both.
			{"Location: login", ""}, {"Location: ?x", ""}, {"Location: #x", ""}, {"Location: ../x", ""},
			{"Location: mailto:a@b", ""}, {"Location: ", ""},
			// Other servers.
			{"Location: http://other.example/login", ""}, {"Location: //other.example/", ""},
			{"Location: http://test.example.evil/x", ""}, {"Location: http://a@test.example/x", ""},
			{"Location: http://test.example:81/x", ""}, {"Location: http://UP/x", ""},
			{"Content-Location: /x", "Content-Location: /app/x"},
			{"Refresh: 5; url=/x", "Refresh: 5; url=/app/x"},
			{"Refresh: 5;URL='/x' y", "Refresh: 5;URL='/app/x' y"},
			{`Refresh: 0, url="/x`, `Refresh: 0, url="/x`}, {"Refresh: 5", ""},
			{"Refresh: 5; curl=/x", ""},
			{`Link: </s.css>; rel=preload; title="<,>", <http://a/b>, <x>; a="\"<"`,
				`Link: </app/s.css>; rel=preload; title="<,>", <http://a/b>, <x>; a="\"<"`},
			{"Link: </x", ""}, {"Link: x", ""},
			// Where dot segments lead is not for the server to say.
			{"Location: /../x", ""}, {"Location: /x/.", ""}, {"Location: /x/%2E./y", ""},
			{`Location: /x\..\y`, ""}, {"Location: /.\t./x", ""},
			{"Location: /..x/a.b", "Location: /app/..x/a.b"},
			// Cookies stay.
			{"Set-Cookie: a=/; Path=/; HttpOnly", ""}, {"Set-Cookie: a=b;path=/x ; Secure", ""},
			{"Set-Cookie: a=b; Domain=test.example", ""},
			{"X-Location: /x", ""},
		}},
		{"replace", "/app", "client", v1, rows{
			{"Location: /v1/x", "Location: /app/x"}, {"Location: /v1", "Location: /app"},
			{"Location: /v1?x", "Location: /app?x"}, {"Location: /v1/", "Location: /app/"},
			{"Location: /v12", ""}, {"Location: /x", ""}, {"Location: /app/x", ""},
			{"Location: /v1//x", "Location: /app//x"}, {"Location: /v1/../x", ""},
			{"Location: " + client + "/v1/x", ""}, {"Set-Cookie: a=b; Path=/v1", ""},
		}},
		{"replace with a folder of it", "/app", "client",
			proxy.Paths{ReplacePrefix: "/app/v1", MapBack: true}, rows{
				{"Location: /app/v1/x", "Location: /app/x"}, {"Location: /app/x", ""},
			}},
		{"replace nothing", "/", "client", v1, rows{
			{"Location: /v1/x", "Location: /x"}, {"Location: /v1", "Location: /"}, {"Location: /x", ""},
			// What follows must not become the name of a server.
			{"Location: /v1//evil.example/", "Location: " + client + "//evil.example/"},
			{`Location: /v1/\evil.example/`, `Location: ` + client + `/\evil.example/`},
			{"Location: /v1/\t/evil.example/", "Location: " + client + "/\t/evil.example/"},
			{"Refresh: 0; url=/v1//evil.example", "Refresh: 0; url=" + client + "//evil.example"},
			{"Link: </v1//evil.example>; rel=x", "Link: <" + client + "//evil.example>; rel=x"},
			{"Location: //evil.example/", ""},
		}},
		{"host", "/app", "app.internal:81", proxy.Paths{MapBack: true}, rows{
			{"Location: http://app.internal:81/x?y", "Location: /x?y"},
			{"Location: http://APP.internal:81", "Location: /"},
			{"Location: http://app.internal:81?x", "Location: /?x"},
			{"Location: //app.internal:81/x", "Location: /x"},
			// From http to https: without the name the client would come here again.
			{"Location: https://app.internal:81/x", ""}, {"Location: http://app.internal/x", ""},
			{"Location: /x", ""}, {"Location: " + client + "/x", ""},
			// What follows must not become the name of a server.
			{"Location: http://app.internal:81//evil.example/x", "Location: " + client + "//evil.example/x"},
			{`Location: http://app.internal:81/\evil.example/x`, `Location: ` + client + `/\evil.example/x`},
			{`Location: http://app.internal:81\x`, ""},
			{"Set-Cookie: a=b; Domain=app.internal; Path=/", ""},
		}},
		{"host and prefix", "/app", "upstream", strip, rows{
			{"Location: http://UP/x", "Location: /app/x"}, {"Location: http://UP", "Location: /app/"},
			{"Location: http://UP//evil.example", "Location: /app//evil.example"},
		}},
		{"off", "/app", "upstream", proxy.Paths{StripPrefix: true}, rows{
			{"Location: /x", ""}, {"Location: http://UP/x", "Location: http://UP/x"},
			{"Set-Cookie: a=b; Path=/", ""},
		}},
		{"same", "/app", "client", proxy.Paths{MapBack: true}, rows{
			{"Location: /x", ""}, {"Location: http://UP/x", ""}, {"Set-Cookie: a=b; Path=/; Domain=x", ""},
		}},
		{"tables", "/app", "client", proxy.Paths{StripPrefix: true, MapBack: true,
			MapLocation: map[string]string{"http://a.internal": "{scheme}://{host}/a",
				"http://a.internal/b": "https://b.example", "/far": "https://far.example",
				"/none": "", "/root": "/", "/cdn": "//cdn.example"},
			MapCookiePath: map[string]string{"/one": "/two", "/one/more": "/"},
			MapCookieDomain: map[string]string{"a.internal": "example.org", "b.internal": "{host}",
				".c": ""},
		}, rows{
			{"Location: http://a.internal/x", "Location: http://test.example/a/x"},
			{"Location: http://a.internal/b/x", "Location: https://b.example/x"},
			{"Location: /far/x", "Location: https://far.example/x"}, {"Location: /x", "Location: /app/x"},
			{"Link: <http://a.internal/x>", "Link: <http://test.example/a/x>"},
			{"Set-Cookie: a=b; Path=/one/x", "Set-Cookie: a=b; Path=/two/x"},
			{"Set-Cookie: a=b; Path=/one/more", "Set-Cookie: a=b; Path=/"},
			{"Location: /none/x", "Location: /x"}, {"Location: /none?x:y", "Location: ?x:y"},
			{"Location: /none//evil.example", "Location: " + client + "//evil.example"},
			{"Location: /none\t//evil.example", "Location: " + client + "/\t//evil.example"},
			{`Location: /none\\evil.example`, `Location: ` + client + `/\\evil.example`},
			{"Location: /nonehttps://evil.example", "Location: " + client + "/https://evil.example"},
			{"Location: /root/evil.example", "Location: " + client + "//evil.example"},
			{"Location: /cdn/x", "Location: //cdn.example/x"},
			{"Set-Cookie: a=b; Path=/x", ""}, {"Set-Cookie: a=b; Path", ""},
			{"Set-Cookie: Path=/one; Max-Age=1", ""},
			{"Set-Cookie: a=/;path=/one ; Secure", "Set-Cookie: a=/;path=/two; Secure"},
			{"Set-Cookie: __Host-a=b; Secure; Path=/one", ""},
			{"Set-Cookie: __hOST-a=b; Secure; Path=/one", ""},
			{"Set-Cookie: __Secure-a=b; Path=/one", "Set-Cookie: __Secure-a=b; Path=/two"},
			{"Set-Cookie: a=b; Domain=.A.internal", "Set-Cookie: a=b; Domain=example.org"},
			{"Set-Cookie: a=b; Domain=b.internal", "Set-Cookie: a=b; Domain=test.example"},
			{"Set-Cookie: a=b; Domain=c", "Set-Cookie: a=b"}, {"Set-Cookie: a=b; Domain=d", ""},
		}},
		{"expressions", "/app", "client", proxy.Paths{StripPrefix: true, MapBack: true,
			MapLocation: map[string]string{
				`~^http://(?<app>[a-z]+)\.internal(?::\d+)?(/.*)$`: "{scheme}://{host}/{app}{2}",
				"http://a.internal/b":                              "https://b.example",
				`~^/go(/.*)?$`:                                     "{1}",
				`~(?i)^/OLD/([^/?]+)`:                              "/new?{1}",
				`~^(https?):`:                                      "{1}://z.example/"},
			MapCookiePath:   map[string]string{`~^/(one|two)(/.*)?$`: "/app/{1}{2}"},
			MapCookieDomain: map[string]string{`~^(\w+)\.internal$`: "{1}.example.org"},
		}, rows{
			{"Location: http://web.internal:81/x?y", "Location: http://test.example/web/x?y"},
			{"Location: http://web.internal/", "Location: http://test.example/web/"},
			// A beginning comes before any expression, and the longest expression first.
			{"Location: http://a.internal/b/c", "Location: https://b.example/c"},
			{"Location: https://other/", "Location: https://z.example/"},
			// An expression stands for the whole address.
			{"Location: /old/x/y", "Location: /new?x"},
			// A group that has taken no part is nothing; what is left of it is no server's name.
			{"Location: /go", "Location: "}, {"Location: /go/x", "Location: /x"},
			{"Location: /go//evil.example", "Location: " + client + "//evil.example"},
			{`Location: /go/\evil.example`, `Location: ` + client + `/\evil.example`},
			{"Location: /x", "Location: /app/x"},
			{"Link: <http://web.internal/x>", "Link: <http://test.example/web/x>"},
			{"Set-Cookie: a=b; Path=/one", "Set-Cookie: a=b; Path=/app/one"},
			{"Set-Cookie: a=b; Path=/two/x", "Set-Cookie: a=b; Path=/app/two/x"},
			{"Set-Cookie: a=b; Path=/three", ""},
			{"Set-Cookie: a=b; Domain=.Web.internal", "Set-Cookie: a=b; Domain=web.example.org"},
			{"Set-Cookie: a=b; Domain=x.web.internal", ""},
		}},
	} {
		f := serve(t, m, tt.prefix, []string{o.addr}, func(s *proxy.Settings) {
			s.Host, s.Paths = tt.host, tt.paths
		})
		for _, row := range tt.rows {
			field = row[0]
			want := row[1]
			if want == "" {
				want = row[0]
			}
			name, want, _ := strings.Cut(want, ": ")
			want = strings.ReplaceAll(want, "UP", o.addr)
			g := f.get(strings.TrimSuffix(tt.prefix, "/") + "/")
			if got := g.header.Get(name); g.status != 200 || got != want {
				t.Errorf("%s: %q: %d %q, want %q", tt.name, field, g.status, got, want)
			}
		}
	}
}

// TestMapBackHost: {host} has the port in an address, and not in a cookie's domain, which has none.
// Without a host there is nothing to put in front of a path, so the address stays.
func TestMapBackHost(t *testing.T) {
	o := start(t, always("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"+
		"Location: http://b.internal/x\r\nContent-Location: /v1//evil.example\r\n"+
		"Set-Cookie: a=b; Domain=b.internal; Path=/\r\n\r\n"))
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
		s.ReplacePrefix = "/v1"
		s.MapLocation = map[string]string{"http://b.internal": "{scheme}://{host}"}
		s.MapCookieDomain = map[string]string{"b.internal": "{host}"}
	})
	for request, want := range map[string][3]string{
		"GET / HTTP/1.1\r\nHost: a.example:8080\r\n\r\n": {"http://a.example:8080/x",
			"http://a.example:8080//evil.example", "a=b; Domain=a.example; Path=/"},
		"GET / HTTP/1.0\r\n\r\n": {"http://b.internal/x", "/v1//evil.example", "a=b; Path=/"},
	} {
		c := f.Dial()
		c.Send(request)
		h := read(c.R, "GET").header
		got := [3]string{h.Get("Location"), h.Get("Content-Location"), h.Get("Set-Cookie")}
		if got != want {
			t.Errorf("%q: %q, want %q", request, got, want)
		}
	}
}

// TestMapBackErrors: what cannot work is refused.
func TestMapBackErrors(t *testing.T) {
	t.Parallel()
	type table = map[string]string
	for want, paths := range map[string]proxy.Paths{
		`map_location: expected what an address begins with, not ""`: {MapLocation: table{"": "/x"}},
		`map_location: /x: "{path}": unknown placeholder {path} (known: {host}, {scheme})`: {
			MapLocation: table{"/x": "{path}"}},
		`map_location: /x: "$scheme://a": unknown placeholder $scheme`: {
			MapLocation: table{"/x": "$scheme://a"}},
		`map_location: /x: control characters cannot be part of a header field`: {
			MapLocation: table{"/x": "/\n"}},
		"map_location: ~(: missing closing ): `(`":                {MapLocation: table{"~(": "x"}},
		"map_location: ~: an empty expression matches everything": {MapLocation: table{"~": "x"}},
		"map_location: ~(?=x): invalid or unsupported Perl syntax: `(?=` (the syntax is RE2's, without look-around)": {
			MapLocation: table{"~(?=x)": "y"}},
		`map_location: ~^/(x): "/{2}": {2} is no group of the expression; the first is {1}`: {
			MapLocation: table{"~^/(x)": "/{2}"}},
		`map_location: ~^/(x): "/$1": $1 is no group of the expression; the first is {1}`: {
			MapLocation: table{"~^/(x)": "/$1"}},
		`map_location: ~^/(x): "/{name}": unknown placeholder {name} (known: {host}, {scheme}, {1})`: {
			MapLocation: table{"~^/(x)": "/{name}"}},
		`map_location: ~(?<scheme>x): a group cannot be called scheme: {scheme} is a part of the request`: {
			MapLocation: table{"~(?<scheme>x)": "y"}},
		`map_cookie_path: ~^/x: expected paths that begin with a slash, not "y"`: {
			MapCookiePath: table{"~^/x": "y"}},
		`map_cookie_path: /x: "/a;b" cannot be part of a cookie's attribute`: {
			MapCookiePath: table{"/x": "/a;b"}},
		`map_cookie_path: /x: expected paths that begin with a slash, not "y"`: {
			MapCookiePath: table{"/x": "y"}},
		`map_cookie_domain: a: "b c" cannot be part of a cookie's attribute`: {
			MapCookieDomain: table{"a": "b c"}},
	} {
		if got := refused(t, func(s *proxy.Settings) { s.Paths = paths }); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
