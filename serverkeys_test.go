package lwango_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/acme"
	"github.com/lwango/lwango/internal/test/embedded"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/tls/certs"
)

// whoAsks answers with the address of the client.
var whoAsks = lwango.Handler(func(req *lwango.Request, resp *lwango.Response) int {
	return resp.Text(200, req.RemoteAddr().Addr().String())
})

// ask sends raw bytes, which are a request, and returns the body of the answer.
func ask(t *testing.T, address, raw string) string {
	t.Helper()
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	c := must.Dial(t, network, address)
	fmt.Fprint(c, raw)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	defer resp.Body.Close()
	var body strings.Builder
	if _, err := bufio.NewReader(resp.Body).WriteTo(&body); err != nil {
		t.Error(err)
	}
	return body.String()
}

// TestTrustedProxies: each address believes its own proxies, in the fields that it names, until a
// reload says otherwise.
func TestTrustedProxies(t *testing.T) {
	const (
		get      = "GET / HTTP/1.1\r\nHost: x\r\n"
		plain    = get + "X-Forwarded-For: 203.0.113.9\r\n\r\n"
		standard = get + "Forwarded: for=203.0.113.8\r\n\r\n"
	)
	dir := must.Get(os.MkdirTemp("", "proxies"))(t) // names of sockets are short
	defer os.RemoveAll(dir)
	local := []string{"127.0.0.0/8"}
	s := lwango.Server{Addr: "127.0.0.1:0", Handler: whoAsks, TrustedProxies: local,
		Listeners: []lwango.Listener{
			{Addr: "127.0.0.1:0"},
			{Addr: "127.0.0.1:0", TrustedProxies: local, ProxyFields: "forwarded"},
			{Addr: "127.0.0.1:0", TrustedProxies: local, ProxyProtocol: true},
			{Addr: "unix:" + filepath.Join(dir, "s"), TrustedProxies: []string{"unix:"}},
		}}
	r, _ := embedded.Start(t, s)
	at := r.Addrs()
	for _, row := range []struct {
		address    int
		text, want string
	}{
		{0, plain, "203.0.113.9"},
		{0, standard, "127.0.0.1"},
		{1, plain, "127.0.0.1"},
		{2, plain, "127.0.0.1"},
		{2, standard, "203.0.113.8"},
		{3, "PROXY TCP4 203.0.113.7 127.0.0.1 1 2\r\n" + get + "\r\n", "203.0.113.7"},
		{4, plain, "203.0.113.9"},
	} {
		if got := ask(t, at[row.address], row.text); got != row.want {
			t.Errorf("listener %d, %q: client %s, want %s", row.address, row.text, got, row.want)
		}
	}
	s.TrustedProxies = nil
	s.Listeners[0].TrustedProxies = local
	if err := r.Reload(s); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"127.0.0.1", "203.0.113.9"} {
		if got := ask(t, at[i], plain); got != want {
			t.Errorf("listener %d after a reload: client %s, want %s", i, got, want)
		}
	}
}

// TestPubsubURL: a Server names the broker without a file, one at a time, and cannot change it.
func TestPubsubURL(t *testing.T) {
	b := new(brokerOfTests)
	lwango.UseBroker(b)
	defer lwango.UseBroker(nil)
	s := lwango.Server{Addr: "127.0.0.1:0", Handler: whoAsks, Logger: logtext.Quiet,
		PubsubURL: "redis://:secret@127.0.0.1:1/0"}
	r, stop := embedded.Start(t, s)
	if _, err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "connected") {
		t.Errorf("a second one: %v", err)
	}
	if err := r.Reload(s); err != nil {
		t.Errorf("a reload with the same: %v", err)
	}
	s.PubsubURL = "redis://:password@127.0.0.1:2/0"
	const want = "PubsubURL: cannot change while the server runs"
	if err := r.Reload(s); err == nil || err.Error() != want {
		t.Errorf("a reload with another one: %v, want %s", err, want)
	}
	s.PubsubURL = ""
	if err := r.Reload(s); err != nil {
		t.Errorf("a reload without: %v", err)
	}
	stop()
	if n, m := b.connected.Load(), b.closed.Load(); n != 1 || m != 1 {
		t.Errorf("connected %d times, disconnected %d times", n, m)
	}
}

// TestConfig: a configuration is a text, or in a file system, with what it includes; a reload takes
// the next text. Relative paths of files to serve begin in the working directory in both cases.
func TestConfig(t *testing.T) {
	const site = "[[site]]\n[[site.route]]\nprefix = \"/\"\nmodule = \"response\"\nbody = %q\n"
	files := fstest.MapFS{
		"conf/main.conf":     {Data: []byte("include = \"sites/*.conf\"\nthreads = 1\n")},
		"conf/sites/a.conf":  {Data: fmt.Appendf(nil, site, "included")},
		"conf/sites/.b.conf": {Data: []byte("thread = 1")},
		"conf/bad.conf":      {Data: []byte("include = [\"../other.conf\", \"none.conf\", \"sites\"]")},
		"other.conf":         {Data: []byte("thread = 1")},
	}
	const served = "[[site]]\n[[site.route]]\nprefix = \"/\"\nmodule = \"serve_files\"\n" +
		"path = \"wwwroot\"\n"
	page := string(must.Get(os.ReadFile("wwwroot/index.html"))(t))
	s := lwango.Server{Addr: "127.0.0.1:0", Threads: 1}
	s.Config = fmt.Sprintf(site, "text")
	r, _ := embedded.Start(t, s)
	url := "http://" + r.Addrs()[0]
	asks := func(want string) {
		t.Helper()
		if got := embedded.Get(t, url); got != want {
			t.Errorf("got %.40q, want %.40q", got, want)
		}
	}
	reload := func(text, file string, want string) {
		t.Helper()
		s.Config, s.File, s.FS = text, file, files
		if err := r.Reload(s); err != nil {
			t.Errorf("%q, %q: %v", text, file, err)
		}
		asks(want)
	}
	asks("text")
	reload(fmt.Sprintf(site, "next"), "", "next")
	reload("include = \"conf/sites/a.conf\"", "", "included")
	reload("", "conf/main.conf", "included")
	reload("", "./conf/main.conf", "included")
	files["conf/sites/a.conf"].Data = []byte(served)
	reload("", "conf/main.conf", page)
	reload(served, "", page)

	s.Config, s.File = "", "conf/bad.conf"
	err := r.Reload(s)
	for _, want := range []string{"other.conf:1: thread: unknown key",
		"conf/bad.conf:1: include: open conf/none.conf: file does not exist",
		"include: conf/sites: not a regular file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	asks(page)
	s.File = "none.conf"
	if err := r.Reload(s); err == nil || !strings.Contains(err.Error(), "file does not exist") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestACMEByReload: an address gets its certificates, and loses them, by reloads. One that is
// refused changes nothing.
func TestACMEByReload(t *testing.T) {
	ca := acme.New(t)
	s := lwango.Server{Addr: "127.0.0.1:0", Handler: whoAsks}
	ca.Verify("")
	r, _ := embedded.Start(t, lwango.ObtainBy(s, certs.Options{Authorities: ca.CA.Pool,
		LeastPause: time.Millisecond, MostPause: time.Millisecond}))
	at := r.Addrs()[0]
	ca.Verify(at)
	plain := func() {
		t.Helper()
		if got := ask(t, at, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); got != "127.0.0.1" {
			t.Errorf("without TLS: %q", got)
		}
	}
	plain()
	dir := t.TempDir()
	s.ACME = &lwango.ACME{Domains: []string{"a.test"}, Directory: ca.URL,
		Cache: filepath.Join(dir, "none", "acme")}
	if err := r.Reload(s); err == nil || !strings.Contains(err.Error(), "ACME: cache: ") {
		t.Errorf("a folder whose parent is missing: %v", err)
	}
	plain()
	s.ACME.Cache = filepath.Join(dir, "acme")
	if err := r.Reload(s); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the certificate", func() bool {
		c, err := tls.Dial("tcp", at, &tls.Config{RootCAs: ca.CA.Pool, ServerName: "a.test"})
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	s.ACME = nil
	if err := r.Reload(s); err != nil {
		t.Fatal(err)
	}
	plain()
}

// TestACME: a server in code obtains the certificates of an address of its own, of a Listener and
// of a configuration; a reload adds a name.
func TestACME(t *testing.T) {
	for name, s := range map[string]lwango.Server{
		"Addr":     {Addr: "127.0.0.1:0", TLS: &tls.Config{MinVersion: tls.VersionTLS13}},
		"Listener": {Listeners: []lwango.Listener{{Addr: "127.0.0.1:0", ACME: true}}},
		"Config": {Config: "[[listener]]\naddress = \"127.0.0.1:0\"\n" +
			"tls = { acme = true }\n"},
	} {
		t.Run(name, func(t *testing.T) {
			ca := acme.New(t)
			dir := t.TempDir()
			var log logtext.Buffer
			s.Handler, s.Logger = whoAsks, slog.New(slog.NewTextHandler(&log, nil))
			s.ACME = &lwango.ACME{Domains: []string{"A.test"}, Email: "a@example.org",
				Directory: ca.URL, Cache: filepath.Join(dir, "acme")}
			ca.Verify("")
			r, _ := embedded.Start(t, lwango.ObtainBy(s, certs.Options{Authorities: ca.CA.Pool,
				LeastPause: time.Millisecond, MostPause: time.Millisecond}))
			at := r.Addrs()[0]
			ca.Verify(at)
			await := func(name string) tls.ConnectionState {
				t.Helper()
				var state tls.ConnectionState
				wait.Until(t, "certificate for "+name, func() bool {
					c, err := tls.DialWithDialer(&net.Dialer{Timeout: wait.Patience}, "tcp", at,
						&tls.Config{RootCAs: ca.CA.Pool, ServerName: name, NextProtos: []string{"h2"}})
					if err != nil {
						return false
					}
					state = c.ConnectionState()
					c.Close()
					return true
				})
				return state
			}
			if state := await("a.test"); state.NegotiatedProtocol != "h2" {
				t.Errorf("protocol %q", state.NegotiatedProtocol)
			}
			if got := fmt.Sprint(ca.Contacts()); got != "[mailto:a@example.org]" {
				t.Errorf("contacts: %s", got)
			}
			next := *s.ACME
			next.Domains = []string{"a.test", "b.test"}
			s.ACME = &next
			if err := r.Reload(s); err != nil {
				t.Fatal(err)
			}
			await("b.test")
			await("a.test")
			if orders := ca.Asked("newOrder"); orders != 2 {
				t.Errorf("%d orders for two names", orders)
			}
			if name == "Addr" {
				_, err := tls.Dial("tcp", at, &tls.Config{RootCAs: ca.CA.Pool, ServerName: "a.test",
					MaxVersion: tls.VersionTLS12})
				if err == nil {
					t.Error("TLS 1.2 is spoken, though the Server's TLS begins with 1.3")
				}
			}
		})
	}
}

// TestProxy: a Server passes requests on without a configuration, and a reload puts another proxy
// in the place of the first.
func TestProxy(t *testing.T) {
	to := func(name string) lwango.Server {
		origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, name, " for ", r.Header.Get("X-Forwarded-For"))
		}))
		t.Cleanup(origin.Close)
		h := must.Get(proxy.New(t.Context(), proxy.To(origin.URL), lwango.Env{}))(t)
		return lwango.Server{Addr: "127.0.0.1:0", Handler: h}
	}
	r, _ := embedded.Start(t, to("one"))
	for _, want := range []string{"one for 127.0.0.1", "two for 127.0.0.1"} {
		if got := embedded.Get(t, "http://"+r.Addrs()[0]); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if err := r.Reload(to("two")); err != nil {
			t.Fatal(err)
		}
	}
}
