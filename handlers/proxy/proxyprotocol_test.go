package proxy_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/proxyproto"
)

// headed is a listener whose connections begin with a header of the PROXY protocol.
type headed struct {
	net.Listener
	mu  sync.Mutex
	all []string // the headers
}

type headedConn struct {
	net.Conn
	in     *bufio.Reader
	source string
}

func (c *headedConn) Read(p []byte) (int, error) { return c.in.Read(p) }
func (c *headedConn) RemoteAddr() net.Addr       { return named(c.source) }

type named string

func (named) Network() string  { return "tcp" }
func (n named) String() string { return string(n) }

// Accept implements net.Listener. A connection without a header is closed.
func (l *headed) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		in, size := bufio.NewReader(c), 0
		var h proxyproto.Header
		for n := 1; size == 0 && err == nil; n++ {
			var b []byte
			if b, err = in.Peek(n); err == nil {
				h, size, err = proxyproto.Parse(b)
			}
		}
		if err != nil {
			c.Close()
			continue
		}
		b, _ := in.Peek(size)
		l.mu.Lock()
		l.all = append(l.all, string(b))
		l.mu.Unlock()
		_, _ = in.Discard(size)
		source := "nobody"
		if h.Known {
			source = h.Source.String()
		}
		return &headedConn{c, in, source}, nil
	}
}

func (l *headed) headers() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.all...)
}

// startHeaded starts a server of net/http that says who asks, with TLS if config is not nil, and by
// HTTP/2 alone if second.
func startHeaded(t *testing.T, config *tls.Config, second bool) *headed {
	t.Helper()
	l := &headed{Listener: must.Listen(t)}
	s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.RemoteAddr)
		})}
	s.Protocols.SetHTTP1(!second)
	s.Protocols.SetHTTP2(second)
	s.Protocols.SetUnencryptedHTTP2(second)
	var running sync.WaitGroup
	if config == nil {
		running.Go(func() { _ = s.Serve(l) })
	} else {
		s.TLSConfig = config
		running.Go(func() { _ = s.ServeTLS(l, "", "") })
	}
	t.Cleanup(func() {
		s.Close()
		running.Wait()
	})
	return l
}

// TestProxyProtocol: an upstream is told of each client, ahead of TLS, and a connection stays that
// of one client.
func TestProxyProtocol(t *testing.T) {
	ca := certs.New(t)
	for _, tt := range []struct{ version, scheme, http string }{
		{"v1", "", "1.1"}, {"v2", "", "1.1"}, {"v1", "https://", "1.1"}, {"v2", "https://", "1.1"},
		{"v2", "", "2"}, {"v1", "https://", "2"},
	} {
		var config *tls.Config
		if tt.scheme != "" {
			config = ca.Config("127.0.0.1")
		}
		l := startHeaded(t, config, tt.http == "2")
		f := serve(t, modes.Direct, "/", []string{tt.scheme + l.Addr().String()},
			func(s *proxy.Settings) {
				s.ProxyProtocol, s.Version, s.IdleTimeout = tt.version, tt.http, 2*time.Second
				if tt.scheme != "" {
					s.TLS.CA = ca.File
				}
			})
		first, second := f.Dial(), f.Dial()
		for range 3 {
			for _, c := range []net.Conn{first, second} {
				fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: test.example\r\n\r\n")
				in := first.R
				if c == net.Conn(second) {
					in = second.R
				}
				if g := read(in, "GET"); g.status != 200 || g.body != c.LocalAddr().String() {
					t.Errorf("%v: %+v, want %s", tt, g, c.LocalAddr())
				}
			}
		}
		if all := l.headers(); len(all) != 2 {
			t.Errorf("%v: headers %q, want one for each client", tt, all)
		}
	}
}

// TestProxyProtocolCheck: a check is for no client, and says so.
func TestProxyProtocolCheck(t *testing.T) {
	ca := certs.New(t)
	for version, want := range map[string]string{"v1": "PROXY UNKNOWN\r\n",
		"v2": "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"} {
		l := startHeaded(t, ca.Config("127.0.0.1"), false)
		f, _ := checked(t, proxy.Register, []string{"https://" + l.Addr().String()},
			func(s *proxy.Settings) {
				s.ProxyProtocol, s.TLS.CA = version, ca.File
			})
		wait.Until(t, "four checks", func() bool { return len(l.headers()) >= 4 })
		for _, h := range l.headers() {
			if h != want {
				t.Errorf("%q, want %q", h, want)
			}
		}
		if text := f.log.String(); strings.Contains(text, out) {
			t.Error(text)
		}
	}
}

// TestSource: connections come from the address, those of checks, too.
func TestSource(t *testing.T) {
	from := make(chan string, 100)
	o := start(t, func(p *originConn) {
		from <- p.RemoteAddr().(*net.TCPAddr).IP.String()
		always(hello)(p)
	})
	f, _ := checked(t, proxy.Register, []string{o.addr}, func(s *proxy.Settings) {
		s.Source, s.Health.Type, s.Health.Path = "127.0.0.9", "tcp", ""
	})
	wait.Until(t, "a check", func() bool { return o.accepted.Load() > 0 })
	if g := f.get("/"); g.status != 200 {
		t.Error(g)
	}
	f.get(last)
	for range o.accepted.Load() {
		if a := <-from; a != "127.0.0.9" {
			t.Errorf("a connection comes from %s", a)
		}
	}
}

// TestSourceKeys: what is wrong is said at the start.
func TestSourceKeys(t *testing.T) {
	for _, tt := range []struct{ source, address, err string }{
		{"192.0.2.1", "127.0.0.1:1", "source: 192.0.2.1 is no address of this machine"},
		{"127.0.0.1:80", "127.0.0.1:1",
			`source: expected an address of this machine, without a port, not "127.0.0.1:80"`},
		{"0.0.0.0", "127.0.0.1:1",
			`source: expected an address of this machine, without a port, not "0.0.0.0"`},
		{"127.0.0.1", "[::1]:1",
			`address: [::1]:1: source = "127.0.0.1" is an address of the other family`},
		{"127.0.0.1", "unix:/x",
			"address: a connection to a UNIX socket comes from no address: source has no effect"},
	} {
		_, err := module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/"},
			func(s *proxy.Settings) {
				s.Address, s.Source = []string{tt.address}, tt.source
			})
		if err == nil || err.Error() != tt.err {
			t.Errorf("%v, want %s", err, tt.err)
		}
	}
}
