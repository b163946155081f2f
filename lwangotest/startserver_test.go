package lwangotest_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/lwangotest"
)

// protocol answers with how it was asked.
var protocol = lwango.Handler(func(req *lwango.Request, resp *lwango.Response) int {
	return resp.Text(200, fmt.Sprintf("%s %v %s", req.Proto(), req.Secure(), req.Host()))
})

// TestStartServer: the client of a whole server speaks what the server offers, and trusts its
// certificate.
func TestStartServer(t *testing.T) {
	old := lwangotest.TLS()
	old.NextProtos = []string{"http/1.1"}
	dir := must.Get(os.MkdirTemp("", "whole"))(t) // names of sockets are short
	defer os.RemoveAll(dir)
	for name, row := range map[string]struct {
		server lwango.Server
		want   string // with ADDR for the address
	}{
		"plain":    {lwango.Server{}, "HTTP/1.1 false ADDR"},
		"TLS":      {lwango.Server{TLS: lwangotest.TLS()}, "HTTP/2.0 true ADDR"},
		"HTTP/1.1": {lwango.Server{TLS: old}, "HTTP/1.1 true ADDR"},
		"h2c":      {lwango.Server{HTTP2: true}, "HTTP/2.0 false ADDR"},
		"listeners": {lwango.Server{Listeners: []lwango.Listener{{Addr: "127.0.0.1:0", TLS: old}}},
			"HTTP/1.1 true ADDR"},
		"UNIX": {lwango.Server{Addr: "unix:" + filepath.Join(dir, "s")}, "HTTP/1.1 false localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			row.server.Handler = protocol
			s := lwangotest.StartServer(t, row.server)
			want := strings.ReplaceAll(row.want, "ADDR", s.Addr)
			if a := s.Get("/"); a.StatusCode != 200 || a.Text != want {
				t.Errorf("%s: %q, want %q", a.Status, a.Text, want)
			}
			if name == "h2c" {
				return // Dial is for HTTP/1.1, which this port speaks, too
			}
			c := s.Dial()
			c.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			if a := c.Answer("GET"); !strings.HasPrefix(a.Text, "HTTP/1.1 ") {
				t.Errorf("Dial: %s: %q", a.Status, a.Text)
			}
		})
	}
}

// TestStartServerConfig: a configuration, middleware and a reload are those of a real server; its
// log and its panics belong to the test.
func TestStartServerConfig(t *testing.T) {
	const site = "[[listener]]\naddress = \"*:80\"\n[[site]]\nhost = %q\n[[site.route]]\nprefix = \"/\"\n" +
		"module = \"response\"\nbody = %q\n"
	cfg := lwango.Server{Config: fmt.Sprintf(site, "one.test", "one"), TLS: lwangotest.TLS()}
	s := lwangotest.StartServer(t, cfg)
	asks := func(want string) {
		t.Helper()
		if a := s.Get("/", "Host: one.test"); a.Text != want {
			t.Errorf("%s: %q, want %q", a.Status, a.Text, want)
		}
	}
	asks("one")
	cfg.Config = fmt.Sprintf(site, "one.test", "two")
	if err := s.Reload(cfg); err != nil {
		t.Error(err)
	}
	asks("two")
	if want := "msg=reloaded file=Config"; !strings.Contains(s.Log(), want) {
		t.Errorf("%s\nwant %s", s.Log(), want)
	}
	cfg.Config = "thread = 1"
	if err := s.Reload(cfg); err == nil || !strings.Contains(err.Error(), "unknown key") {
		t.Errorf("a wrong configuration: %v", err)
	}
	asks("two")
	if !strings.Contains(s.Log(), "listening") {
		t.Errorf("the log: %q", s.Log())
	}

	s = lwangotest.StartServer(t, lwango.Server{
		Handler: lwango.Handler(func(*lwango.Request, *lwango.Response) int { panic("oh") })})
	s.ExpectPanic()
	if a := s.Get("/"); a.StatusCode != 500 {
		t.Error(a.Status)
	}
}

// TestStartServerName: a URL may have a name for TLS; those of other servers lead there.
func TestStartServerName(t *testing.T) {
	s := lwangotest.StartServer(t, lwango.Server{TLS: lwangotest.TLS(),
		Handler: lwango.Handler(func(req *lwango.Request, resp *lwango.Response) int {
			return resp.Text(200, req.TLS().ServerName)
		})})
	plain := lwangotest.Start(t, protocol)
	for url, want := range map[string]string{"https://example.com/": "example.com",
		"https://a.example.com:9/": "a.example.com", s.URL: "",
		plain.URL: "HTTP/1.1 false " + plain.Addr} {
		resp := must.Get(s.Client().Get(url))(t)
		if got := must.Body(t, resp); got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
}

// TestStartServerAdvance: the clocks of all loops of a whole server can be put forward.
func TestStartServerAdvance(t *testing.T) {
	s := lwangotest.StartServer(t, lwango.Server{Threads: 2,
		Limits: lwango.Limits{KeepAliveTimeout: time.Hour},
		Handler: lwango.Handler(func(req *lwango.Request, resp *lwango.Response) int {
			if err := req.Sleep(time.Hour); err != nil {
				return resp.Error(500, err)
			}
			return 204
		})})
	var all []*lwangotest.Conn
	for range 8 { // some at each loop, most likely
		c := s.Dial()
		c.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		all = append(all, c)
	}
	s.Advance(time.Hour)
	for _, c := range all {
		if a := c.Answer("GET"); a.StatusCode != 204 {
			t.Error(a.Status)
		}
	}
	s.Advance(time.Hour)
	for _, c := range all {
		if got := c.ReadAll(); got != "" {
			t.Errorf("instead of the end: %q", got)
		}
	}
}

// TestStartServerFails: a wrong Server fails the test, and so does a certificate for another name.
func TestStartServerFails(t *testing.T) {
	for want, do := range map[string]func(t testing.TB){
		"Config:1: thread: unknown key": func(t testing.TB) {
			lwangotest.StartServer(t, lwango.Server{Config: "thread = 1"})
		},
		"Reload: the Server is none of StartServer": func(t testing.TB) {
			_ = lwangotest.Start(t, protocol).Reload(lwango.Server{})
		},
		"certificate": func(t testing.TB) {
			s := lwangotest.StartServer(t, lwango.Server{Handler: protocol, TLS: &tls.Config{
				GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
					return &lwangotest.TLS().Certificates[0], nil
				}}})
			s.Get("/")
		},
	} {
		if got := fails(t, do); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
