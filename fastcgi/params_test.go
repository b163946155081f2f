package fastcgi_test

import (
	"crypto/md5"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

// TestServerName: SERVER_NAME is a name of the site, and HTTP_HOST is what the client says.
func TestServerName(t *testing.T) {
	up := fcgitest.Start(t, "unix", tells("SERVER_NAME", "HTTP_HOST"))
	for want, hosts := range map[string][]string{
		"test.example|test.example": nil,
		"a.example|test.example":    {"a.example", "*.b.example"},
		"TEST.example|test.example": {"a.example", "TEST.example"},
	} {
		env := handlers.Env{Dir: t.TempDir(), Prefix: "/", Hosts: hosts}
		h := must.Get(module.Build(t, fastcgi.Register, "fastcgi", env, func(s *fastcgi.Settings) {
			s.Address, s.ScriptPath, s.CheckFile = []string{up.Address}, ".", false
		}))(t)
		s := module.Start(t, modes.Direct, "/", h)
		if got := s.Request("GET /x.php", nil, ""); got.Text != want {
			t.Errorf("%q: %q", hosts, got.Text)
		}
	}
}

// TestUser: an application learns who the user is if the server knows it, and only then.
func TestUser(t *testing.T) {
	up := fcgitest.Start(t, "unix", tells("REMOTE_USER", "AUTH_TYPE", "HTTP_AUTHORIZATION"))
	p := route(t, registry(), "/", []string{up.Address}, nil,
		func(s *fastcgi.Settings) { s.CheckFile = false })
	for want, user := range map[string][2]string{
		"||Basic eDp5":    {},
		"ann|Basic|":      {"ann", "Basic"},
		"ann||Basic eDp5": {"ann"},
	} {
		s := module.Start(t, modes.Direct, "/", func(req *conn.Request, resp *conn.Response) int {
			req.Layer().SetUser(user[0], user[1])
			return p.handler(req, resp)
		})
		got := s.Request("GET /x.php", []string{"Authorization: Basic eDp5", "Remote-User: eve"}, "")
		if got.Text != want {
			t.Errorf("%q: %q, want %q", user, got.Text, want)
		}
	}
}

// TestReplaced: what a program says in place of the client reaches the application, also if the
// client's Connection field names it, which says what the client's own fields are for.
func TestReplaced(t *testing.T) {
	up := fcgitest.Start(t, "unix", tells("HTTP_X_USER", "HTTP_X_OTHER"))
	p := route(t, registry(), "/", []string{up.Address}, nil,
		func(s *fastcgi.Settings) { s.CheckFile = false })
	s := module.Start(t, modes.Direct, "/", func(req *conn.Request, resp *conn.Response) int {
		req.Layer().ReplaceHeader("X-User", "ann")
		return p.handler(req, resp)
	})
	got := s.Request("GET /x.php",
		[]string{"X-User: eve", "X-Other: 1", "Connection: x_user, x-other"}, "")
	if got.Text != "ann|" {
		t.Errorf("%q", got.Text)
	}
}

// TestOnUNIXSocket: a client without an address, such as a server in front, gets no address that
// scripts would trust.
func TestOnUNIXSocket(t *testing.T) {
	up := fcgitest.Start(t, "unix", tells("REMOTE_ADDR", "SERVER_NAME", "SERVER_PORT"))
	p := route(t, registry(), "/", []string{up.Address}, nil,
		func(s *fastcgi.Settings) { s.CheckFile = false })
	p.Server = module.Start(t, modes.OverUNIX, "/", p.handler)
	if g := p.get("/x.php"); g.body != "unix:|test.example|80" {
		t.Errorf("%+v", g)
	}
}

// TestBehindProxies: scripts see the client of trusted proxies.
func TestBehindProxies(t *testing.T) {
	f := startFPM(t, "unix")
	p := serveFiles(t, "/", []string{f.Address}, map[string]string{
		"who.php": `<?php foreach (["REMOTE_ADDR", "REMOTE_PORT", "HTTPS", "HTTP_HOST", "SERVER_NAME",
"SERVER_ADDR", "SERVER_PORT"] as $k) echo $_SERVER[$k] ?? "-", " ";`,
	}, nil)
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	fields := []string{"X-Forwarded-For: 6.6.6.6, 192.0.2.1:77", "X-Forwarded-Proto: https",
		"X-Forwarded-Host: front.example"}
	for _, c := range []struct {
		proxies      *conn.Proxies
		header, want string
	}{
		{&conn.Proxies{Networks: trusted}, "",
			"192.0.2.1 77 on front.example front.example 127.0.0.1 443 "},
		{&conn.Proxies{Networks: trusted, Protocol: true},
			"PROXY TCP4 192.0.2.9 203.0.113.7 56324 8081\r\n",
			"192.0.2.9 56324 - a.example a.example 203.0.113.7 8081 "},
		{&conn.Proxies{Networks: trusted, Protocol: true},
			"PROXY TCP4 127.0.0.5 203.0.113.7 56324 443\r\n",
			"192.0.2.1 77 on front.example front.example 203.0.113.7 443 "},
	} {
		p.Configure(conn.Config{Handler: p.handler, Proxies: map[string]*conn.Proxies{"": c.proxies}})
		got := p.Dial().Do("GET", c.header+"GET /who.php HTTP/1.1\r\nHost: a.example\r\n"+
			strings.Join(fields, "\r\n")+"\r\n\r\n")
		if got.Text != c.want {
			t.Errorf("%q: got %q, want %q", c.header, got.Text, c.want)
		}
	}
}

// TestLongParams: PHP-FPM gets parameters that take several records.
func TestLongParams(t *testing.T) {
	f := startFPM(t, "unix")
	p := serveFiles(t, "/", []string{f.Address}, map[string]string{
		"sums.php": `<?php foreach ($_SERVER as $k => $v) if (str_starts_with($k, "LONG_"))
echo "$k ", strlen($v), " ", md5($v), "\n";`,
	}, func(s *fastcgi.Settings) {
		s.ReadTimeout = 10 * time.Second
		s.Params = map[string]string{}
		for i := range 8 {
			s.Params[fmt.Sprint("LONG_", i)] = strings.Repeat(fmt.Sprint(i), 30000+i)
		}
	})
	want := ""
	for i := range 8 {
		v := strings.Repeat(fmt.Sprint(i), 30000+i)
		want += fmt.Sprintf("LONG_%d %d %x\n", i, len(v), md5.Sum([]byte(v)))
	}
	lines := func(s string) int { return strings.Count(s, "\n") }
	g := p.get("/sums.php")
	for _, line := range strings.SplitAfter(want, "\n") {
		if !strings.Contains(g.body, line) {
			t.Errorf("no %q", line)
		}
	}
	if g.status != 200 || lines(g.body) != 8 {
		t.Error(g)
	}
}

// TestRewritten: a script is found by the path that a rule has made, and learns what the client has
// sent from REQUEST_URI.
func TestRewritten(t *testing.T) {
	up := fcgitest.Start(t, "unix", tells("SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "REQUEST_URI"))
	p := route(t, registry(), "/app", []string{up.Address}, nil,
		func(s *fastcgi.Settings) { s.CheckFile = false })
	p.Server = module.Start(t, modes.Direct, "/app", func(req *conn.Request, resp *conn.Response) int {
		if err := req.Layer().Rewrite("/app/doku.php/a%20b?id=x%26y"); err != nil {
			t.Error(err)
		}
		return p.handler(req, resp)
	})
	if g := p.get("/app/page/x?y=1"); g.body != "/app/doku.php|/a b|id=x%26y|/app/page/x?y=1" {
		t.Errorf("%+v", g)
	}
}
