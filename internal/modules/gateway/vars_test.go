package gateway_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/handlers/uwsgi"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

// TestVariables: what an application is told.
func TestVariables(t *testing.T) {
	params := func(p map[string]string) func(*upstreams.Gateway) {
		return func(s *upstreams.Gateway) { s.Params = p }
	}
	for _, tt := range []struct {
		name, prefix string
		change       func(*upstreams.Gateway)
		line         string
		fields       []string
		body         string
		want         map[string]string // "-": none
	}{
		{"a request", "/", nil, "GET /a%2Fb/c%20d?x=%20y",
			[]string{"X-A: 1", "X-A: 2", "Cookie: a=1", "Cookie: b=2"}, "",
			map[string]string{"REQUEST_METHOD": "GET", "REQUEST_URI": "/a%2Fb/c%20d?x=%20y",
				"SCRIPT_NAME": "",
				"PATH_INFO":   "/a/b/c d", "QUERY_STRING": "x=%20y", "CONTENT_LENGTH": "0", "CONTENT_TYPE": "-",
				"SERVER_PROTOCOL": "HTTP/1.1", "GATEWAY_INTERFACE": "CGI/1.1", "SERVER_SOFTWARE": "lwango",
				"SERVER_NAME": "test.example", "HTTP_HOST": "test.example", "REMOTE_ADDR": "127.0.0.1",
				"REQUEST_SCHEME": "http", "HTTPS": "-", "REMOTE_USER": "-", "HTTP_X_A": "1, 2",
				"HTTP_COOKIE": "a=1; b=2", "DOCUMENT_URI": "/a/b/c d", "DOCUMENT_ROOT": "-",
				"SCRIPT_FILENAME": "-", "PATH_TRANSLATED": "-", "REDIRECT_STATUS": "-"}},
		{"dot segments, of which the rules have not heard", "/", nil, "GET /admin/../x%2F%3B/[?y", nil,
			"",
			map[string]string{"REQUEST_URI": "/x%2F%3B/%5B?y", "PATH_INFO": "/x/;/["}},
		{"below a prefix", "/app", nil, "GET /app/x/y", nil, "",
			map[string]string{"SCRIPT_NAME": "/app", "PATH_INFO": "/x/y", "REQUEST_URI": "/app/x/y"}},
		{"the prefix itself", "/app", nil, "GET /app", nil, "",
			map[string]string{"SCRIPT_NAME": "/app", "PATH_INFO": ""}},
		{"the whole path as PATH_INFO, as nginx has it", "/app",
			params(map[string]string{"SCRIPT_NAME": "", "PATH_INFO": "/app{path}"}), "GET /app/x", nil, "",
			map[string]string{"SCRIPT_NAME": "", "PATH_INFO": "/app/x"}},
		{"a body", "/", nil, "POST /x", []string{"Content-Type: text/plain"}, "hello",
			map[string]string{"CONTENT_LENGTH": "5", "CONTENT_TYPE": "text/plain", "HTTP_CONTENT_TYPE": "-",
				"HTTP_CONTENT_LENGTH": "-", "body": "hello"}},
		{"a body in chunks, whose length is found out first", "/", nil, "PUT /x",
			[]string{"Transfer-Encoding: chunked"}, "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
			map[string]string{"CONTENT_LENGTH": "7", "HTTP_TRANSFER_ENCODING": "-", "body": "abcdefg"}},
		{"and also without request_buffering", "/",
			func(s *upstreams.Gateway) { s.RequestBuffering = false },
			"PUT /x", []string{"Transfer-Encoding: chunked"}, "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
			map[string]string{"CONTENT_LENGTH": "7", "body": "abcdefg"}},
		{"httpoxy", "/", nil, "GET /x", []string{"Proxy: http://evil.example", "Proxy-X: a"}, "",
			map[string]string{"HTTP_PROXY": "-", "HTTP_PROXY_X": "-"}},
		{"underscores", "/", nil, "GET /x", []string{"X_Y: a", "X-Z: b"}, "",
			map[string]string{"HTTP_X_Y": "-", "HTTP_X_Z": "b"}},
		{"underscores that are allowed", "/", func(s *upstreams.Gateway) { s.Underscores = true },
			"GET /x", []string{"X_Y: a"}, "", map[string]string{"HTTP_X_Y": "a"}},
		{"fields of the connection", "/", nil, "GET /x",
			[]string{"Connection: X-A", "X-A: 1", "TE: trailers"}, "",
			map[string]string{"HTTP_X_A": "-", "HTTP_TE": "-", "HTTP_CONNECTION": "-"}},
		{"parameters", "/",
			params(map[string]string{"APP_ENV": "prod", "HTTP_X_A": "mine", "WHERE": "{host}{uri}",
				"SERVER_NAME": "other"}), "GET /x?y", []string{"X-A: 1"}, "",
			map[string]string{"APP_ENV": "prod", "HTTP_X_A": "mine", "WHERE": "test.example/x?y",
				"SERVER_NAME": "other"}},
		{"a large head", "/", nil, "GET /x", []string{"X-A: " + strings.Repeat("a", 9000)}, "",
			map[string]string{"HTTP_X_A": strings.Repeat("a", 9000)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, p protocol) {
				s := serve(t, p, tt.prefix, []string{application(t, p, "unix", func(r *request) {
					if p.name == "uwsgi" && r.get("modifiers") != "0 0" {
						t.Errorf("modifiers %s", r.get("modifiers"))
					}
					body := r.body()
					for name, want := range tt.want {
						have := r.get(name)
						if name == "body" {
							have = body
						}
						if have != want {
							t.Errorf("%s: %q, want %q", name, have, want)
						}
					}
					r.reply("Status: 204\r\n\r\n")
				})}, tt.change)
				if g := s.ask(tt.line, tt.fields, tt.body); g.status != 204 {
					t.Errorf("%+v", g)
				}
			})
		})
	}
}

// TestVariablesRefused: what cannot be said is not sent.
func TestVariablesRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p protocol) {
		s := serve(t, p, "/", []string{application(t, p, "tcp", func(r *request) {
			if n := len(r.get("LONG")); n != 60000 {
				t.Errorf("%d bytes", n)
			}
			r.reply("Status: 204\r\n\r\n")
		})}, func(s *upstreams.Gateway) {
			s.Params = map[string]string{"LONG": strings.Repeat("x", 60000)}
		})
		for _, tt := range []struct {
			line        string
			size        int
			uwsgi, scgi int
		}{
			{"GET /x", 10, 204, 204},
			{"GET /x", 8000, 431, 204}, // a packet of uwsgi has 65,535 bytes
			{"GET /%00", 10, 400, 400},
			{"TRACE /", 10, 405, 405},
		} {
			want := tt.uwsgi
			if p.name == "scgi" {
				want = tt.scgi
			}
			g := s.ask(tt.line, []string{"X-A: " + strings.Repeat("a", tt.size)}, "")
			if g.status != want {
				t.Errorf("%s with %d bytes: %+v", tt.line, tt.size, g)
			}
			if want == 431 && !strings.Contains(s.log.String(), "variables do not fit in a packet") {
				t.Errorf("log: %s", s.log)
			}
		}
	})
}

// TestBufferSize: uWSGI closes the connection of a request with more variables than its
// buffer-size; so none is sent, and the client gets 431.
func TestBufferSize(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	at := application(t, protocols[0], "unix", func(r *request) {
		asked.Add(1)
		size := 0
		for _, v := range r.vars[1:] { // without the modifiers
			size += 4 + len(v[0]) + len(v[1])
		}
		r.reply(fmt.Sprint("Status: 200\r\n\r\n", size))
	})
	h := must.Get(module.Build(t, uwsgi.Register, "uwsgi", handlers.Env{Prefix: "/"},
		func(s *uwsgi.Settings) {
			s.Address = []string{at}
		}))(t)
	s := &route{Server: module.Start(t, modes.Direct, "/", h)}
	long := func(n int) got { return s.ask("GET /", []string{"X-A: " + strings.Repeat("a", n)}, "") }
	size := must.Get(strconv.Atoi(long(1).body))(t)
	long(1+4096-size).check(t, "4096 bytes", 200, "", "4096")
	if g := long(1 + 4097 - size); g.status != 431 {
		t.Errorf("4097 bytes: %+v", g)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the application was asked %d times", n)
	}
}

// TestInternalPrefix: an application is not told of the prefix of an internal route, with which it
// would make links that no client can follow.
func TestInternalPrefix(t *testing.T) {
	each(t, func(t *testing.T, p protocol) {
		at := application(t, p, "unix", func(r *request) {
			r.body()
			r.reply("Status: 200\r\n\r\n" + r.get("SCRIPT_NAME") + "|" + r.get("PATH_INFO"))
		})
		r := must.Get(build(p, handlers.Env{Dir: t.TempDir(), Prefix: "/_app",
			Process: around.In(around.Context{Internal: true})}, []string{at}, nil))(t)
		s := module.Start(t, modes.Direct, "/_app", r.Handler)
		if a := s.Request("GET /_app/x%2Fy", nil, ""); a.Text != "|/x/y" {
			t.Errorf("%s: %q", a.Status, a.Text)
		}
	})
}
