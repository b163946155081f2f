package proxy_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// secure starts a server of net/http with TLS.
func secure(t testing.TB, config *tls.Config, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS = config
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestTLSUpstream: many requests at once over all loops, with bodies that come back, on kept
// connections. The name is sent as SNI, and Host is the upstream's if asked for.
func TestTLSUpstream(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		ca := certs.New(t)
		var connections, resumed atomic.Int32
		o := secure(t, &tls.Config{MaxVersion: version, ServerName: "app.test",
			Certificates: []tls.Certificate{ca.Issue(time.Hour, "app.test")},
			VerifyConnection: func(s tls.ConnectionState) error {
				connections.Add(1)
				if s.DidResume {
					resumed.Add(1)
				}
				if s.ServerName != "app.test" {
					return fmt.Errorf("SNI %q", s.ServerName)
				}
				return nil
			}}, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s", r.Host, body)
		})
		address := "https://" + o.Listener.Addr().String()
		f := serve(t, modes.Several, "/", []string{address}, func(s *proxy.Settings) {
			s.TLS.CA, s.TLS.Name = ca.File, "app.test"
			s.Host = "upstream"
			s.IdleTimeout = time.Second
		})
		ended := make(chan error, 8)
		for n := range cap(ended) {
			go func() {
				body := strings.Repeat(fmt.Sprint(n), 100_000)
				for range 20 {
					resp, err := http.Post("http://"+f.Addr+"/", "", strings.NewReader(body))
					if err != nil {
						ended <- err
						return
					}
					got, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if want := o.Listener.Addr().String() + " " + body; err != nil || string(got) != want {
						ended <- fmt.Errorf("%v, %d bytes", err, len(got))
						return
					}
				}
				ended <- nil
			}()
		}
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		http.DefaultClient.CloseIdleConnections()
		if n := connections.Load(); n > 40 {
			t.Errorf("%d connections for 160 requests of 8 clients", n)
		}
		o.CloseClientConnections()
		before := resumed.Load()
		for range 3 {
			if g := f.get("/"); g.status != 200 {
				t.Error(g)
			}
			o.CloseClientConnections()
		}
		if resumed.Load() == before {
			t.Error("no session was resumed")
		}
	}
}

// TestTLSReused: one connection serves requests one after the other.
func TestTLSReused(t *testing.T) {
	ca := certs.New(t)
	var connections atomic.Int32
	o := secure(t, &tls.Config{Certificates: []tls.Certificate{ca.Issue(time.Hour, "127.0.0.1")},
		VerifyConnection: func(tls.ConnectionState) error { connections.Add(1); return nil },
	}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	f := serve(t, modes.Direct, "/", []string{o.URL}, func(s *proxy.Settings) {
		s.TLS.CA = ca.File
		s.IdleTimeout = 2 * time.Second
		s.MaxConns = 1
	})
	for range 20 {
		if g := f.get("/"); g.status != 200 || g.body != "hello" {
			t.Fatal(g)
		}
	}
	if n := connections.Load(); n > 2 { // on a machine that was busy for two seconds
		t.Errorf("%d connections, want 1", n)
	}
}

// TestTLSTunnel: a WebSocket through the proxy to an upstream with TLS.
func TestTLSTunnel(t *testing.T) {
	ca := certs.New(t)
	o := secure(t, &tls.Config{Certificates: []tls.Certificate{ca.Issue(time.Hour, "127.0.0.1")}},
		func(w http.ResponseWriter, r *http.Request) {
			c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
			if err != nil {
				return
			}
			defer c.Close()
			for {
				typ, p, err := c.ReadMessage()
				if err != nil || c.WriteMessage(typ, p) != nil {
					return
				}
			}
		})
	f := serve(t, modes.Direct, "/", []string{o.URL}, func(s *proxy.Settings) { s.TLS.CA = ca.File })
	c, _, err := websocket.DefaultDialer.Dial("ws://"+f.Addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 150 {
		want := strings.Repeat("x", i*i*5)
		must.Do(t, c.WriteMessage(websocket.TextMessage, []byte(want)))
		if _, got, err := c.ReadMessage(); err != nil || string(got) != want {
			t.Fatalf("%d: %d bytes, %v", i, len(got), err)
		}
	}
}

// TestTLSRefused: what is wrong with the upstream's TLS is one line in the log that says so, and a
// status. No request goes out.
func TestTLSRefused(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	with := func(c tls.Certificate) func(*originConn) {
		return func(p *originConn) {
			s := tls.Server(p.Conn, &tls.Config{Certificates: []tls.Certificate{c}})
			if s.Handshake() == nil {
				if _, err := http.ReadRequest(bufio.NewReader(s)); err == nil {
					io.WriteString(s, hello)
				}
			}
		}
	}
	long := time.Hour
	good := with(ca.Issue(long, "127.0.0.1"))
	stall := func(p *originConn) { io.Copy(io.Discard, p) }
	for _, tt := range []struct {
		name   string
		script func(*originConn)
		change func(*proxy.Settings)
		status int
		log    string
	}{
		{"good", good, nil, 200, ""},
		{"expired", with(ca.Issue(-time.Minute, "127.0.0.1")), nil, 502, "has expired"},
		{"wrong name", with(ca.Issue(long, "other.test")), nil, 502, "127.0.0.1"},
		{"another name", good, func(s *proxy.Settings) { s.TLS.Name = "app.test" }, 502,
			"wanted to match app.test"},
		{"unknown", with(other.Issue(long, "127.0.0.1")), nil, 502, "unknown authority"},
		{"not the system's", good, func(s *proxy.Settings) { s.TLS.CA = "" }, 502, "unknown authority"},
		{"insecure", with(other.Issue(-long/2, "other.test")),
			func(s *proxy.Settings) { s.TLS.Insecure, s.TLS.CA = true, "" }, 200, ""},
		{"plain", func(p *originConn) { p.Read(make([]byte, 9)); p.say(hello); stall(p) }, nil, 502,
			"does not look like a TLS handshake"},
		{"plain, speaks first", func(p *originConn) { p.say("220 mail.test ready\r\n"); stall(p) }, nil, 502,
			"does not look like a TLS handshake"},
		{"closes", func(*originConn) {}, nil, 502, "tls handshake: "},
		{"closes after the hello", func(p *originConn) { p.Read(make([]byte, 100)) }, nil, 502,
			"tls handshake: "},
		{"stalls", stall, func(s *proxy.Settings) { s.ConnectTimeout = 50 * time.Millisecond }, 504,
			"timeout"},
		{"byte by byte", func(p *originConn) {
			for _, b := range []byte("\x16\x03\x03\x40\x00" + strings.Repeat("\x00", 1000)) {
				if _, err := p.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		}, func(s *proxy.Settings) { s.ConnectTimeout = 100 * time.Millisecond }, 504, "timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := start(t, tt.script)
			f := serve(t, modes.Direct, "/", []string{"https://" + o.addr}, func(s *proxy.Settings) {
				s.TLS.CA = ca.File
				if tt.change != nil {
					tt.change(s)
				}
			})
			g := f.get("/")
			if g.status != tt.status || tt.status == 200 && g.body != "hello" {
				t.Error(g)
			}
			log := f.log.String()
			if tt.log == "" && log != "" || tt.log != "" &&
				(strings.Count(log, "\n") != 1 || !strings.Contains(log, tt.log)) {
				t.Errorf("log: %s", log)
			}
			wait.Until(t, "nothing is open", func() bool { return o.open.Load() == 0 })
		})
	}
}

// TestTLSFailed: an upstream with a wrong certificate is passed over like one that does not listen,
// for ten seconds.
func TestTLSFailed(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	cert := func(a *certs.Authority) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{a.Issue(time.Hour, "127.0.0.1")}}
	}
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, text) }
	}
	bad, good := secure(t, cert(other), says("bad")), secure(t, cert(ca), says("good"))
	f := serve(t, modes.Direct, "/", []string{bad.URL, good.URL}, func(s *proxy.Settings) {
		s.TLS.CA = ca.File
	})
	for range 10 {
		if g := f.get("/"); g.status != 200 || g.body != "good" {
			t.Error(g)
		}
	}
	if n := strings.Count(f.log.String(), "upstream not reached"); n != 1 {
		t.Errorf("tried %d times, want once:\n%s", n, f.log)
	}
}

// TestTLSClientCertificate: the upstream asks for one. Two routes to one address do not share
// connections if one of them has a certificate, or verifies, and the other does not.
func TestTLSClientCertificate(t *testing.T) {
	ca := certs.New(t)
	o := secure(t, &tls.Config{Certificates: []tls.Certificate{ca.Issue(time.Hour, "127.0.0.1")},
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: ca.Pool,
	}, func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			w.WriteHeader(403)
			return
		}
		io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	})
	cert, key := ca.Files(ca.Issue(time.Hour, "front.test"))
	var r handlers.Registry
	proxy.Register(&r)
	m, _ := r.Module("proxy")
	var with, without handlers.Route
	for _, route := range []*handlers.Route{&with, &without} {
		s := m.NewSettings().(*proxy.Settings)
		s.Address, s.IdleTimeout = []string{o.URL}, 50*time.Millisecond
		s.TLS.CA = ca.File
		route.Prefix = "/without"
		if route == &with {
			s.TLS.Cert, s.TLS.Key, route.Prefix = cert, key, "/with"
		}
		h := must.Get(m.Build(s, handlers.Env{Prefix: route.Prefix}))(t)
		route.Handler = h
	}
	router := must.Get(handlers.NewRouter([]handlers.Site{{Routes: []handlers.Route{with, without}}}))(
		t)
	f := &front{Server: module.Start(t, modes.Direct, "/", router.Serve)}
	for range 3 {
		if g := f.get("/with"); g.status != 200 || g.body != "front.test" {
			t.Error(g)
		}
		if g := f.get("/without"); g.status != 403 {
			t.Error(g)
		}
	}
}

// TestTLSSettings: the errors of the key.
func TestTLSSettings(t *testing.T) {
	ca := certs.New(t)
	cert, key := ca.Files(ca.Issue(time.Hour, "a"))
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "empty.pem"), "no PEM")
	for _, tt := range []struct {
		address string
		change  func(*proxy.Settings)
		want    string
	}{
		{"https://a", nil, ""},
		{"https://a:8443 weight=2", func(s *proxy.Settings) { s.TLS.Cert, s.TLS.Key = cert, key }, ""},
		{"https://[::1]", nil, ""},
		{"http://a", nil, ""},
		{"https://unix:s", func(s *proxy.Settings) { s.TLS.Name = "a" }, ""},
		{"https://unix:s", func(s *proxy.Settings) { s.TLS.Insecure = true }, ""},
		{"https://unix:s", nil, "address: https://unix:s: expected tls = { name = ... }: what a " +
			"certificate of the socket names"},
		{"https://a/", nil,
			"address: https://a/: expected no path: the upstream gets that of the request"},
		{"https://", nil, `address: expected unix:/path or host:port, not "https://"`},
		{"https://a:x", nil, `address: https://a:x: expected a port between 1 and 65535, not "x"`},
		{"https://::1", nil, `address: expected unix:/path or host:port, not "https://::1"`},
		{"https://a", func(s *proxy.Settings) { s.TLS.Name = "a:443" },
			`tls: name: expected a name that certificates have, without a port, not "a:443"`},
		{"https://a", func(s *proxy.Settings) { s.TLS.Name = "::1" }, ""},
		{"a:443", func(s *proxy.Settings) { s.TLS.Name = "a" }, `tls: no address begins with "https://"`},
		{"https://a", func(s *proxy.Settings) { s.TLS.CA = "none.pem" },
			"tls: ca: open " + dir + "/none.pem: no such file or directory"},
		{"https://a", func(s *proxy.Settings) { s.TLS.CA = "empty.pem" },
			"tls: ca: no certificate in empty.pem"},
		{"https://a", func(s *proxy.Settings) { s.TLS.CA, s.TLS.Insecure = ca.File, true },
			"tls: ca is of no use with insecure = true"},
		{"https://a", func(s *proxy.Settings) { s.TLS.Cert = cert },
			"tls: expected both cert and key, paths of PEM files"},
		{"https://a", func(s *proxy.Settings) { s.TLS.Cert, s.TLS.Key = cert, cert },
			"tls: tls: found a certificate rather than a key in the PEM for the private key"},
	} {
		_, err := module.Build(t, proxy.Register, "proxy", handlers.Env{Dir: dir, Prefix: "/"},
			func(s *proxy.Settings) {
				s.Address = []string{tt.address}
				if tt.change != nil {
					tt.change(s)
				}
			})
		have := ""
		if err != nil {
			have = err.Error()
		}
		if have != tt.want {
			t.Errorf("%s: have %s, want %s", tt.address, have, tt.want)
		}
	}
}

// TestTLSCloseNotify: a connection ends with a close_notify, after an answer, and when it has been
// idle for too long.
func TestTLSCloseNotify(t *testing.T) {
	ca := certs.New(t)
	for _, idle := range []int{0, 1} {
		ended := make(chan error, 1)
		o := start(t, func(p *originConn) {
			s := tls.Server(p.Conn,
				&tls.Config{Certificates: []tls.Certificate{ca.Issue(time.Hour, "127.0.0.1")}})
			r := bufio.NewReader(s)
			if _, err := http.ReadRequest(r); err == nil {
				io.WriteString(s, hello)
			}
			_, err := r.ReadByte()
			ended <- err
		})
		f := serve(t, modes.Direct, "/", []string{"https://" + o.addr}, func(s *proxy.Settings) {
			s.TLS.CA, s.MaxIdle = ca.File, idle
		})
		if g := f.get("/"); g.body != "hello" {
			t.Error(g)
		}
		if err := <-ended; err != io.EOF {
			t.Errorf("max_idle %d: %v", idle, err)
		}
	}
}
