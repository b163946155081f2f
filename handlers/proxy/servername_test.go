package proxy_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestServerName: TLS is made for the name that the request asks for, and verified by it. No
// request goes on a connection that was made for another name.
func TestServerName(t *testing.T) {
	for _, version := range []string{"1.1", "2"} {
		ca := certs.New(t)
		o := secure2(t, version, ca.Config("a.test", "b.test", "127.0.0.1"),
			func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, r.Proto, " ", r.TLS.ServerName, " ", r.RemoteAddr)
			})
		f := serve(t, modes.Direct, "/", []string{o}, func(s *proxy.Settings) {
			s.Version, s.TLS.CA, s.TLS.Name, s.IdleTimeout = version, ca.File, "{host}", 2*time.Second
		})
		at := map[string]string{}
		for range 3 {
			for host, name := range map[string]string{"a.test": "a.test", "B.test:8080": "b.test"} {
				c := f.Dial()
				fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
				g := read(c.R, "GET")
				fields := strings.Fields(g.body + " . . .")
				if g.status != 200 || fields[1] != name || fields[0][5:6] != version[:1] {
					t.Fatalf("%s by %s: %+v", host, version, g)
				}
				if before := at[name]; before != "" && before != fields[2] {
					t.Errorf("%s by %s: no connection was kept", name, version)
				}
				at[name] = fields[2]
			}
		}
		if at["a.test"] == at["b.test"] {
			t.Errorf("version %s: one connection for two names", version)
		}
	}
}

// secure2 is secure for a version of HTTP, and returns the address.
func secure2(t *testing.T, version string, config *tls.Config, h http.HandlerFunc) string {
	t.Helper()
	config.NextProtos = []string{"http/1.1"}
	if version == "2" {
		config.NextProtos = []string{"h2"}
	}
	return "https://" + secure(t, config, h).Listener.Addr().String()
}

// TestServerNameIsNoFault: a client that asks for a name of which the upstream has no certificate
// gets 502, or 400 where it is none, and others are served as before: the upstream is not avoided.
func TestServerNameIsNoFault(t *testing.T) {
	for _, version := range []string{"1.1", "2"} {
		ca := certs.New(t)
		var refused atomic.Int32
		config := func() *tls.Config {
			own := ca.Config("a.test")
			own.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
				switch h.ServerName {
				case "refused.test": // by an alert
					refused.Add(1)
					return nil, fmt.Errorf("not here")
				case "closed.test":
					h.Conn.Close()
				}
				return nil, nil
			}
			return own
		}
		answer := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.TLS.ServerName) }
		addresses := []string{secure2(t, version, config(), answer),
			secure2(t, version, config(), answer)}
		f := serve(t, modes.Direct, "/", addresses, func(s *proxy.Settings) {
			s.Version, s.TLS.CA, s.TLS.Name, s.MaxFails = version, ca.File, "{field.x-name}", 1
			s.Circuit.Errors, s.Circuit.Requests, s.TryFor = 1, 1, time.Hour
		})
		for _, tt := range []struct {
			name   string
			status int
		}{{"evil.test", 502}, {"refused.test", 502}, {"closed.test", 502}, {"", 400}, {"a b", 400},
			{"a..test", 400},
			{"a<b.test", 400}, {strings.Repeat("a", 64) + ".test", 400},
			{strings.Repeat("a.", 130) + "test", 400},
			{"a.test", 200}, {"a.test", 200}, {"A.test.", 200}} {
			g := f.ask("GET /", "X-Name: "+tt.name+"\r\nConnection: close\r\n", "")
			if g.status != tt.status {
				t.Errorf("%q by %s: %+v", tt.name, version, g)
			}
		}
		if n := refused.Load(); n != 1 {
			t.Errorf("version %s: %d upstreams were asked for the name", version, n)
		}
		if text := f.log.String(); strings.Contains(text, "upstream not reached") ||
			strings.Contains(text, "too many have failed") {
			t.Error(text)
		}
	}
}

// TestBadCertificate: what is wrong with a certificate besides its name is the upstream's fault.
func TestBadCertificate(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	var asked atomic.Int32
	bad := other.Config("a.test")
	bad.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		asked.Add(1)
		return nil, nil
	}
	answer := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "good") }
	f := serve(t, modes.Direct, "/",
		[]string{secure2(t, "1.1", bad, answer), secure2(t, "1.1", ca.Config("a.test"), answer)},
		func(s *proxy.Settings) { s.TLS.CA, s.TLS.Name, s.IdleTimeout = ca.File, "{host}", time.Second })
	for range 6 {
		c := f.Dial()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
		if g := read(c.R, "GET"); g.body != "good" {
			t.Error(g)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("it was tried %d times", n)
	}
}

// TestKnownName: an upstream that ends handshakes for a name that it has had is avoided.
func TestKnownName(t *testing.T) {
	ca := certs.New(t)
	var ends atomic.Bool
	var asked atomic.Int32
	bad := ca.Config("a.test")
	bad.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if ends.Load() {
			asked.Add(1)
			h.Conn.Close()
		}
		return nil, nil
	}
	answer := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "good") }
	f := serve(t, modes.Direct, "/",
		[]string{secure2(t, "1.1", bad, answer), secure2(t, "1.1", ca.Config("a.test"), answer)},
		func(s *proxy.Settings) { s.TLS.CA, s.TLS.Name, s.MaxIdle = ca.File, "{field.x-name}", 0 })
	for i := range 8 {
		ends.Store(i >= 2)
		if g := f.ask("GET /", "X-Name: a.test\r\n", ""); g.body != "good" {
			t.Error(g)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("it was tried %d times", n)
	}
}

// TestServerNameWithoutTLS: an upstream that speaks no TLS needs no name, and its connections are
// for all.
func TestServerNameWithoutTLS(t *testing.T) {
	o := start(t, always(hello))
	f := serve(t, modes.Direct, "/", []string{o.addr, "https://127.0.0.1:1 backup"},
		func(s *proxy.Settings) {
			s.TLS.Name, s.IdleTimeout = "{field.x-name}", wait.Patience
		})
	for _, name := range []string{"", "a.test", "a b"} {
		if g := f.ask("GET /", "X-Name: "+name+"\r\n", ""); g.status != 200 {
			t.Errorf("%q: %+v", name, g)
		}
	}
	if n := o.accepted.Load(); n != 1 {
		t.Error(n, " connections")
	}
	f.get(last)
}

// TestManyServerNames: a client that asks for many names does not make the server hold a connection
// of HTTP/2 for each.
func TestManyServerNames(t *testing.T) {
	ca := certs.New(t)
	names := make([]string, 70)
	for i := range names {
		names[i] = fmt.Sprint("n", i, ".test")
	}
	var made, ended atomic.Int32
	config := ca.Config(names...)
	config.NextProtos = []string{"h2"}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			made.Add(1)
		case http.StateClosed:
			ended.Add(1)
		}
	}
	s.TLS, s.EnableHTTP2 = config, true
	s.StartTLS()
	t.Cleanup(s.Close)
	f := serve(t, modes.Direct, "/", []string{s.URL}, func(s *proxy.Settings) {
		s.Version, s.TLS.CA, s.TLS.Name, s.IdleTimeout = "2", ca.File, "{host}", wait.Patience
	})
	c := f.Dial()
	for _, name := range names {
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", name)
		if g := read(c.R, "GET"); g.status != 200 {
			t.Fatalf("%s: %+v", name, g)
		}
	}
	wait.Until(t, "6 connections end", func() bool { return ended.Load() == 6 })
	if n := made.Load(); n != 70 {
		t.Error(n, " connections")
	}
}

// TestServerNameOfChecks: checks of a socket need a name.
func TestServerNameOfChecks(t *testing.T) {
	for host, want := range map[string]string{"a.test": "",
		"": "address: https://unix:/x: a check has no name for TLS there: expected health = { host = " +
			"... }"} {
		_, err := module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/"},
			func(s *proxy.Settings) {
				s.Address, s.TLS.Name, s.Health.Path, s.Health.Host = []string{"https://unix:/x"}, "{host}",
					"/up", host
			})
		if have := fmt.Sprint(err); err != nil && have != want || err == nil && want != "" {
			t.Errorf("%q: %s, want %s", host, have, want)
		}
	}
}

// TestServerNameKeys: what is wrong is said at the start.
func TestServerNameKeys(t *testing.T) {
	for _, tt := range []struct{ name, err string }{
		{"{nobody}", `tls: "{nobody}": unknown placeholder {nobody} ` + known},
		{"{host", `tls: "{host": expected a text with placeholders ` + known},
		{"a b", `tls: name: expected a name that certificates have, without a port, not "a b"`},
	} {
		_, err := module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/"},
			func(s *proxy.Settings) {
				s.Address, s.TLS.Name = []string{"https://127.0.0.1"}, tt.name
			})
		if err == nil || err.Error() != tt.err {
			t.Errorf("%v, want %s", err, tt.err)
		}
	}
}
