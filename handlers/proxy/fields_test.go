package proxy_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
)

// TestInterceptedFields: what belongs to a status, and not to its page, reaches the client when a
// page takes the answer's place, on the way that it has otherwise.
func TestInterceptedFields(t *testing.T) {
	const fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Range: bytes */9\r\n" +
		"Set-Cookie: a=b; Path=/app\r\nSet-Cookie: c=d\r\nWWW-Authenticate: Basic\r\nAllow: PUT\r\n" +
		"Retry-After: 7\r\nX-Accel-Expires: 5\r\nETag: x\r\nContent-Type: " +
		"text/theirs\r\nContent-Length: 6\r\n\r\ntheirs"
	always := [][2]string{{"Set-Cookie", "[a=b; Path=/ c=d]"}, {"WWW-Authenticate", "[Basic]"},
		{"Allow", "[PUT]"}, {"Retry-After", "[7]"},
		{"ETag", "[]"}, {"X-Accel-Expires", "[]"}}
	for _, status := range []int{400, 401, 416, 426, 503} {
		o := start(t, func(p *originConn) {
			for p.request() != nil {
				p.say("HTTP/1.1 %d X\r\n%s", status, fields)
			}
		})
		for hide, hidden := range map[string]string{"": "", "set-cookie": "Set-Cookie",
			"upgrade": "Upgrade"} {
			f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
				s.InterceptErrors, s.MapCookiePath = true, map[string]string{"/app": "/"}
				if hide != "" {
					s.HideHeader = []string{hide}
				}
			})
			want := slices.Clone(always)
			at := func(n int, name, value string) {
				if status != n {
					value = "[]"
				}
				want = append(want, [2]string{name, value})
			}
			at(426, "Upgrade", "[websocket]")
			at(416, "Content-Range", "[bytes */9]")
			g := f.get("/")
			if g.err != nil || g.status != status || strings.Contains(g.body, "theirs") {
				t.Errorf("%d %q %v", g.status, g.body, g.err)
			}
			for _, w := range want {
				if w[0] == hidden {
					w[1] = "[]"
				}
				if got := fmt.Sprint(g.header.Values(w[0])); got != w[1] {
					t.Errorf("%d, hiding %q: %s: %s, want %s", status, hide, w[0], got, w[1])
				}
			}
		}
	}
}

// TestPlaceholdersOfRequestHeaders: parts of the request in fields that the configuration adds.
// Paths are encoded as in a target.
func TestPlaceholdersOfRequestHeaders(t *testing.T) {
	heads := make(chan string, 1)
	o := start(t, func(p *originConn) {
		for head := p.head(); head != ""; head = p.head() {
			heads <- head
			p.say(hello)
		}
	})
	f := serve(t, modes.Direct, "/app", []string{o.addr}, func(s *proxy.Settings) {
		s.RequestHeaders = map[string]string{
			"X-A": "{address} {scheme} {host}", "X-B": "{path} {rest} {query}", "X-C": "<{uri}>",
			"X-D": "{id}", "X-E": `{"a": 1} pa$$word`, "X-F": "", "X-Real-IP": "{address}",
		}
	})
	for target, want := range map[string]string{
		"/app/a%20b?x=1":  "X-B: /a%20b a%20b ?x=1\r\nX-C: </app/a%20b?x=1>\r\n",
		"/app":            "X-B: /  \r\nX-C: </app>\r\n",
		"/app/%C3%BC/%22": "X-B: /%C3%BC/%22 %C3%BC/%22 \r\nX-C: </app/%C3%BC/%22>\r\n",
	} {
		if got := f.ask("GET "+target, "X-F: 1\r\nX-Real-Ip: 1.2.3.4\r\n", ""); got.status != 200 {
			t.Fatal(target, got)
		}
		head := <-heads
		for _, want := range []string{"X-A: 127.0.0.1 http test.example\r\n" + want + "X-D: ",
			"\r\nX-E: {\"a\": 1} pa$$word\r\nX-Real-IP: 127.0.0.1\r\n"} {
			if !strings.Contains(head, want) {
				t.Errorf("%s: no %q in %q", target, want, head)
			}
		}
		if strings.Contains(head, "X-F:") || strings.Contains(head, "1.2.3.4") ||
			strings.Contains(head, "X-D: \r") {
			t.Errorf("%s: %q", target, head)
		}
	}
}

// TestAddedFields: add_request_headers stands beside what the client sends; a field whose
// placeholders stand for nothing is left out.
func TestAddedFields(t *testing.T) {
	o := heads(t)
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
		s.AddRequestHeaders = map[string][]string{"X-List": {"b", "{host}"}, "X-Query": {"{query}"}}
		s.RequestHeaders = map[string]string{"X-User": "{user}", "X-Over": "ours"}
	})
	head := f.ask("GET /", "X-List: a\r\nX-User: eve\r\nX-Over: theirs\r\n", "").body
	for _, want := range []string{"\r\nX-List: a\r\n", "\r\nX-List: b\r\nX-List: test.example\r\n",
		"\r\nX-Over: ours\r\n"} {
		if !strings.Contains(head, want) {
			t.Errorf("no %q in %q", want, head)
		}
	}
	for _, not := range []string{"X-Query", "X-User", "theirs"} {
		if strings.Contains(head, not) {
			t.Errorf("%s in %q", not, head)
		}
	}
	type table = map[string][]string
	for want, added := range map[string]table{
		"add_request_headers: X-Forwarded-For has one value; request_headers puts another one in its place": {
			"X-Forwarded-For": {"1.2.3.4"}},
		"add_request_headers: x-request-id has one value; request_headers puts another one in its place": {
			"x-request-id": {"1"}},
		"add_request_headers: X-User: a client's own field of that name would come before {user}; " +
			"request_headers puts it in its place": {"X-User": {"a", "u={user}"}},
		"add_request_headers: X-Cert: a client's own field of that name would come before " +
			"{cert_serial}; request_headers puts it in its place": {"X-Cert": {"{cert_serial}"}},
		"add_request_headers: Connection is set by the server itself": {
			"Connection": {"x"}},
		"add_request_headers: A: control characters cannot be part of a header field": {"A": {"b", "\n"}},
		`add_request_headers: "a b" is not the name of a header field`:                {"a b": {"x"}},
	} {
		if got := refused(t, func(s *proxy.Settings) { s.AddRequestHeaders = added }); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestInterceptStatuses: a page takes the place of the chosen statuses alone.
func TestInterceptStatuses(t *testing.T) {
	status := 0
	o := start(t, func(p *originConn) {
		for p.request() != nil {
			p.say("HTTP/1.1 %d Odd\r\nContent-Length: 6\r\n\r\ntheirs", status)
		}
	})
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
		s.InterceptStatuses = []string{"404", "500-502"}
	})
	for _, status = range []int{200, 403, 404, 405, 499, 500, 502, 503} {
		own := status == 404 || status == 500 || status == 502
		if g := f.get("/"); g.status != status || (g.body == "theirs") == own {
			t.Errorf("%d: %+v", status, g)
		}
	}
	for _, bad := range []string{"200", "404-", "x", "500-404", "600", "+404", "404-+405"} {
		want :=
			`intercept_statuses: expected statuses between 400 and 599, such as "404" or "500-599", not "` +
				bad + `"`
		if got := refused(t, func(s *proxy.Settings) {
			s.InterceptStatuses = []string{bad}
		}); got != want {
			t.Error(got)
		}
	}
	got := refused(t, func(s *proxy.Settings) {
		s.InterceptErrors, s.InterceptStatuses = true, []string{"404"}
	})
	if got != "intercept_statuses: is in place of intercept_errors, which is for all errors" {
		t.Error(got)
	}
}

// TestProxyField: as HTTP_PROXY, a client's field would choose through which proxy an application
// asks others.
func TestProxyField(t *testing.T) {
	heads := make(chan string, 1)
	o := start(t, func(p *originConn) { heads <- p.head(); p.say(hello) })
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
		s.Underscores = true
	})
	f.ask("GET /", "Proxy: http://evil.example\r\npROXY: http://evil.example\r\nProxied: x\r\n", "")
	if head := <-heads; strings.Contains(head, "evil") || !strings.Contains(head, "Proxied: x") {
		t.Errorf("%q", head)
	}
}

// TestFilesOfUpstreams: a file that an upstream names is sent where the route has a folder for
// that. Elsewhere the client gets the body, and never what was meant for the server.
func TestFilesOfUpstreams(t *testing.T) {
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "a b.txt"), "the file")
	answer := ""
	o := start(t, func(p *originConn) {
		for p.request() != nil {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Own: y\r\n%s\r\n\r\nhello", answer)
		}
	})
	for _, allowed := range []bool{false, true} {
		f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
			if allowed {
				s.AccelRoot = dir
			}
		})
		for _, test := range []struct{ fields, want string }{
			{"X-Accel-Redirect: /a%20b.txt", "the file"},
			{"X-Accel-Redirect: /../a%20b.txt?x", "the file"},
			{"X-Sendfile: " + dir + "/a b.txt", "the file"},
			{"X-Accel-Redirect: /no", "404"},
			{"X-Sendfile: /etc/passwd", "404"},
			{"X-Accel-Expires: 5\r\nX-Accel-Limit-Rate: 5\r\nx-accel-charset: z", "hello"},
		} {
			answer = test.fields
			want := test.want
			if !allowed {
				want = "hello"
			}
			got := f.get("/")
			for name := range got.header {
				if strings.HasPrefix(name, "X-Accel") || strings.HasPrefix(name, "X-Sendfile") {
					t.Errorf("%q: the client gets %s", answer, name)
				}
			}
			if want == "404" {
				if got.status != 404 {
					t.Errorf("%q: %v", answer, got)
				}
			} else if got.body != want || got.status != 200 || got.header.Get("X-Own") != "y" {
				t.Errorf("%q: %v, want %q", answer, got, want)
			}
			if head := f.ask("HEAD /", "", ""); want == "the file" &&
				head.header.Get("Content-Length") != "8" {
				t.Errorf("%q: HEAD: %v", answer, head)
			}
		}
		f.get(last)
	}
}
