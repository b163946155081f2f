package lwango_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/embedded"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/stream"
)

// TestMain: no test leaves goroutines or descriptors behind.
func TestMain(m *testing.M) { leak.Main(m) }

// TestServe: Serve returns nil after the end of its context, once the request in flight has its
// answer.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan struct{})
	h := func(req *lwango.Request, resp *lwango.Response) int {
		addr := req.LocalAddr()
		close(asked)
		if err := req.Sleep(50 * time.Millisecond); err != nil {
			t.Error(err)
		}
		resp.WriteString(addr.String())
		return 200
	}
	ln := must.Listen(t)
	ended := make(chan error, 1)
	go func() {
		ended <- lwango.Server{Handler: lwango.Handler(h), Logger: logtext.Quiet,
			Grace: wait.Patience, Listeners: []lwango.Listener{{Socket: ln}}}.Run(ctx)
	}()
	at := ln.Addr().String()
	go func() { <-asked; cancel() }()
	if got := embedded.Get(t, "http://"+at); got != at {
		t.Errorf("got %q, want %q", got, at)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener afterwards: %v, want it closed", err)
	}
}

// TestListeners: one server serves HTTP and streams, with TLS and without, at addresses and at
// sockets that the program has made.
func TestListeners(t *testing.T) {
	dir := must.Get(os.MkdirTemp("", "embed"))(t) // names of sockets are short
	defer os.RemoveAll(dir)
	unixLn := must.Get(net.Listen("unix", filepath.Join(dir, "own")))(t)
	tcpLn := must.Listen(t)
	f := must.Get(tcpLn.(*net.TCPListener).File())(t) // a descriptor, as another program would pass it
	tcpLn.Close()
	fromFD := must.Get(net.FileListener(f))(t)
	f.Close()
	upper := func(_ *loop.Thread, s *stream.Conn) error {
		var p [100]byte
		n, err := s.Read(p[:])
		if err != nil {
			return err
		}
		_, err = s.Write([]byte(strings.ToUpper(string(p[:n]))))
		return err
	}
	secure := modes.ServerTLS().Clone()
	secure.NextProtos = []string{"h2"}
	chosen := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return secure, nil
	}}

	r, stop := embedded.Start(t,
		lwango.Server{Addr: "127.0.0.1:0", TLS: secure, Handler: embedded.Says("here"),
			Listeners: []lwango.Listener{{Addr: "127.0.0.1:0"}, {Addr: "unix:" + dir + "/new"},
				{Socket: unixLn}, {Socket: fromFD}, {Addr: "127.0.0.1:0", TLS: chosen},
				{Addr: "127.0.0.1:0", Streams: upper}}})
	at := r.Addrs()
	if len(at) != 7 {
		t.Fatalf("addresses %q", at)
	}
	for i, address := range at[:6] {
		url := "http://x/"
		if i == 0 || i == 5 {
			url = "https://x/"
		}
		if got := embedded.GetAt(t, url, address); got != "here" {
			t.Errorf("%s: got %q", address, got)
		}
	}
	c := must.Dial(t, "tcp", at[6])
	if _, err := io.WriteString(c, "echo\n"); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "ECHO\n" {
		t.Errorf("streams: %q, %v", line, err)
	}
	c.Close()
	stop()
	for _, name := range []string{"own", "new"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("the socket %s is left: %v", name, err)
		}
	}
	if got := r.Addrs(); !slices.Equal(got, at) {
		t.Errorf("addresses of a server that has stopped: %q, want %q", got, at)
	}
}

// TestHTTP2: a server in code speaks HTTP/2 over TLS unless it is told otherwise, and without TLS
// if it is told so.
func TestHTTP2(t *testing.T) {
	names := func(all ...string) *tls.Config {
		c := modes.ServerTLS().Clone()
		c.NextProtos = all
		return c
	}
	chooses := func(own *tls.Config) *tls.Config {
		return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return own, nil
		}}
	}
	for name, test := range map[string]struct {
		listener lwango.Listener
		want     string
	}{
		"nothing named":       {lwango.Listener{TLS: names()}, "HTTP/2.0"},
		"both":                {lwango.Listener{TLS: names("h2", "http/1.1")}, "HTTP/2.0"},
		"HTTP/1.1":            {lwango.Listener{TLS: names("http/1.1")}, "HTTP/1.1"},
		"another one":         {lwango.Listener{TLS: names("acme-tls/1")}, "HTTP/1.1"},
		"chosen by handshake": {lwango.Listener{TLS: chooses(names())}, "HTTP/2.0"},
		"chosen by handshake, and HTTP/1.1": {lwango.Listener{TLS: chooses(names("http/1.1"))},
			"HTTP/1.1"},
		"chosen, HTTP/1.1 around it": {lwango.Listener{TLS: &tls.Config{NextProtos: []string{"http/1.1"},
			GetConfigForClient: chooses(names()).GetConfigForClient}}, "HTTP/1.1"},
		"without TLS": {lwango.Listener{HTTP2: true}, "HTTP/2.0"},
	} {
		test.listener.Addr = "127.0.0.1:0"
		r, stop := embedded.Start(t,
			lwango.Server{Handler: lwango.Handler(func(req *lwango.Request, w *lwango.Response) int {
				return w.Text(200, req.Proto())
			}), Listeners: []lwango.Listener{test.listener}})
		protocols, url := new(http.Protocols), "https://"
		protocols.SetHTTP2(true)
		protocols.SetHTTP1(test.listener.TLS != nil)
		if test.listener.TLS == nil {
			protocols.SetUnencryptedHTTP2(true)
			url = "http://"
		}
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			Protocols: protocols}
		answer, err := (&http.Client{Transport: tr}).Get(url + r.Addrs()[0])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(answer.Body)
		if string(got) != test.want || answer.Proto != test.want || err != nil {
			t.Errorf("%s: %q, %s, %v, want %s", name, got, answer.Proto, err, test.want)
		}
		tr.CloseIdleConnections()
		stop()
	}
}

// TestStartFails: what a server cannot do it says at once, and it leaves nothing.
func TestStartFails(t *testing.T) {
	_, stop := embedded.Start(t, lwango.Server{Addr: "127.0.0.1:0", Handler: embedded.Says("")})
	r, _ := embedded.Start(t, lwango.Server{Addr: "127.0.0.1:0", Handler: embedded.Says("")})
	taken := r.Addrs()[0]
	stop()
	closed := must.Listen(t)
	closed.Close()
	file := filepath.Join(t.TempDir(), "wrong.conf")
	must.Write(t, file, "thread = 1\n[error_log]\nformat = \"json\"\n")
	for want, s := range map[string]lwango.Server{
		"listen tcp " + taken + ": bind: address already in use": {Addr: taken},
		"listen example.org:80: host":                            {Addr: "example.org:80"},
		"HTTP2 is for HTTP, and not": {Listeners: []lwango.Listener{{Addr: "127.0.0.1:0", HTTP2: true,
			Streams: func(*loop.Thread, *stream.Conn) error { return nil }}}},
		"TLS has no certificate": {Addr: "127.0.0.1:0",
			TLS: new(tls.Config)},
		"HeaderTimeout: must be between 1ms and 24h, found -1s": {
			Limits: lwango.Limits{HeaderTimeout: -time.Second}},
		"Threads: must be between 0 and 1024, found -1": {Threads: -1},
		"MaxHeaderSize: must be between 1KiB and 16MiB, found 3B": {
			Limits: lwango.Limits{MaxHeaderSize: 3}},
		"use of closed network connection": {Listeners: []lwango.Listener{{Socket: closed}}},
		"localhost:9: the address is listened to twice": {Listeners: []lwango.Listener{{
			Addr: "127.0.0.1:9"},
			{Addr: "localhost:9"}}},
		"a *tls.listener has no descriptor": {Listeners: []lwango.Listener{
			{Socket: tls.NewListener(closed, modes.ServerTLS())}}},
		"an Addr or a Socket, not both": {
			Listeners: []lwango.Listener{{Addr: "*:1", Socket: closed}}},
		"wrong.conf:1: thread: unknown key (did you mean threads?)": {File: file},
		"wrong.conf:3: error_log.format: is for a server that":      {File: file},
		"Config:2: thread: unknown key (did you mean threads?)":     {Config: "\nthread = 1"},
		"a File or a text, not both":                                {File: file, Config: "threads = 1"},
		"a file system needs the File":                              {FS: os.DirFS(".")},
		"listen *:8080: TrustedProxies: expected a network":         {TrustedProxies: []string{"x"}},
		"listen *:8080: ProxyProtocol: needs trusted_proxies":       {ProxyProtocol: true},
		`ProxyFields: must be one of x-forwarded forwarded x-real-ip, found "via"`: {
			TrustedProxies: []string{"10.0.0.0/8"}, ProxyFields: "via"},
		"TrustedProxies are for HTTP": {Listeners: []lwango.Listener{{Addr: "127.0.0.1:0",
			TrustedProxies: []string{"unix:"},
			Streams:        func(*loop.Thread, *stream.Conn) error { return nil }}}},
		"PubsubURL: this program has no broker": {PubsubURL: "redis://127.0.0.1"},
		"ACME: domains: expected the names":     {ACME: new(lwango.ACME)},
		"ACME: directory: expected a URL with https://": {
			ACME: &lwango.ACME{Domains: []string{"a.test"}, Directory: "http://ca.test"}},
		"ACME: expected a command": {ACME: &lwango.ACME{Domains: []string{"*.a.test"},
			Challenges: []string{"dns-01"}, Cache: t.TempDir()}},
		"ACME: challenges: expected": {ACME: &lwango.ACME{Domains: []string{"a.test"},
			Challenges: []string{"dns-02"}, Cache: t.TempDir()}},
		"ACME: no Listener has ACME, and it takes one": {
			ACME:      &lwango.ACME{Domains: []string{"a.test"}, Cache: t.TempDir()},
			Listeners: []lwango.Listener{{Addr: "127.0.0.1:0"}}},
		"the Server has no ACME": {Listeners: []lwango.Listener{{Addr: "127.0.0.1:0", ACME: true}}},
		"TLS has certificates of its own, beside those of ACME": {TLS: modes.ServerTLS(),
			ACME: &lwango.ACME{Domains: []string{"a.test"}, Cache: t.TempDir()}},
		"no such file": {File: file + "x"},
	} {
		s.Logger, s.Handler = logtext.Quiet, embedded.Says("")
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := lwango.ListenAndServe(t.Context(), taken, embedded.Says("")); !errors.Is(err,
		syscall.EADDRINUSE) {
		t.Errorf("got %v, want EADDRINUSE", err)
	}
}

// TestSeveralServers: servers that start at the same time, on one port and on others, do not get
// into each other's way: each port has one server, and stops with it alone.
func TestSeveralServers(t *testing.T) {
	ln := must.Listen(t)
	port := ln.Addr().String()
	ln.Close()
	var got, refused atomic.Int32
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	running := make(chan *lwango.Running, 4)
	for range 4 {
		all.Go(func() {
			r, err := lwango.Server{Addr: port, Threads: 2, Handler: embedded.Says(""),
				Logger: logtext.Quiet}.Start(ctx)
			switch {
			case err == nil:
				got.Add(1)
				running <- r
			case errors.Is(err, syscall.EADDRINUSE):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got.Load() != 1 || refused.Load() != 3 {
		t.Fatalf("%d servers have the port, and %d were refused", got.Load(), refused.Load())
	}
	a, stopA := embedded.Start(t,
		lwango.Server{Addr: "127.0.0.1:0", Threads: 3, Handler: embedded.Says("a")})
	b, _ := embedded.Start(t,
		lwango.Server{Addr: "127.0.0.1:0", Threads: 3, Handler: embedded.Says("b")})
	if n := runtime.GOMAXPROCS(0); n < 2+3+3+1 {
		t.Errorf("%d processors for eight loops", n)
	}
	for text, r := range map[string]*lwango.Running{"a": a, "b": b} {
		if got := embedded.Get(t, "http://"+r.Addrs()[0]); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	stopA()
	if got := embedded.Get(t, "http://"+b.Addrs()[0]); got != "b" {
		t.Errorf("after the other one has stopped: %q", got)
	}
	cancel()
	if err := (<-running).Wait(); err != nil {
		t.Error(err)
	}
}

// TestCounters: the access-log hook is told of each request, and Stats counts them.
func TestCounters(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	r, stop := embedded.Start(t, lwango.Server{Addr: "127.0.0.1:0", Handler: embedded.Says("12345"),
		AccessLog: func(e *lwango.AccessEntry) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, e.Method+" "+string(e.Target))
			if e.Status != 200 || e.Bytes != 5 || e.Remote.Addr() != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("%+v", *e)
			}
		}})
	for range 3 {
		embedded.Get(t, "http://"+r.Addrs()[0]+"/path")
	}
	must.Dial(t, "tcp", r.Addrs()[0])
	wait.Until(t, "one connection is open", func() bool {
		s, err := r.Stats(t.Context())
		return err != nil || s.Connections == 1
	})
	s, err := r.Stats(t.Context())
	if err != nil || s.Requests != 3 || len(s.Loops) == 0 || s.Loops[0].Waits == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	stop()
	if want := "GET /path GET /path GET /path"; strings.Join(lines, " ") != want {
		t.Errorf("lines %q", lines)
	}
	if _, err := r.Stats(t.Context()); !errors.Is(err, lwango.ErrStopped) {
		t.Errorf("after the end: %v", err)
	}
}

// brokerOfTests is a broker that carries nothing.
type brokerOfTests struct{ connected, closed atomic.Int32 }

func (b *brokerOfTests) Check(string) error { return nil }

func (b *brokerOfTests) Start(*pubsub.Hub, string, *slog.Logger) (func(time.Duration) int, error) {
	b.connected.Add(1)
	return func(time.Duration) int { b.closed.Add(1); return 0 }, nil
}

// TestOneBroker: the topics belong to the process, so one server at a time connects them; the
// others have them as well.
func TestOneBroker(t *testing.T) {
	b := new(brokerOfTests)
	lwango.UseBroker(b)
	defer lwango.UseBroker(nil)
	file := filepath.Join(t.TempDir(), "x.conf")
	err := os.WriteFile(file, []byte("[pubsub]\nurl = \"redis://127.0.0.1:1/0\"\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s := lwango.Server{Addr: "127.0.0.1:0", File: file, Handler: embedded.Says(""),
		Logger: logtext.Quiet}
	_, stop := embedded.Start(t, s)
	embedded.Start(t, lwango.Server{Addr: "127.0.0.1:0", Handler: embedded.Says("")})
	if _, err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "pubsub.url: ") {
		t.Errorf("a second one: %v", err)
	}
	stop()
	_, stop = embedded.Start(t, s)
	stop()
	if n, m := b.connected.Load(), b.closed.Load(); n != 2 || m != 2 {
		t.Errorf("connected %d times, disconnected %d times", n, m)
	}
}

// TestZeroServer: a Server needs nothing but its port and something that answers.
func TestZeroServer(t *testing.T) {
	ci.Only(t, "listens on port 8080 of all addresses")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := lwango.Server{Handler: embedded.Says("")}.Start(ctx)
	if errors.Is(err, syscall.EADDRINUSE) {
		t.Skip("another program has port 8080")
	}
	if err != nil {
		t.Fatal(err)
	}
	if at := r.Addrs(); len(at) != 1 || at[0] != "*:8080" && at[0] != "[::]:8080" {
		t.Errorf("addresses %q", at)
	}
	cancel()
	if err := r.Wait(); err != nil {
		t.Error(err)
	}
}

// TestStopCountsSessions: the line of the log that says how many connections are open at a stop
// counts those of Streams.
func TestStopCountsSessions(t *testing.T) {
	log := new(logtext.Buffer)
	met := make(chan bool)
	_, stop := embedded.Start(t, lwango.Server{Logger: slog.New(slog.NewTextHandler(log, nil)),
		Listeners: []lwango.Listener{{Addr: "127.0.0.1:0",
			Streams: func(th *loop.Thread, s *stream.Conn) error {
				_, err := io.CopyN(io.Discard, s, 1)
				met <- true
				return err
			}}}})
	at := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(log.String())
	for range 3 {
		c := must.Get(new(net.Dialer).DialContext(context.Background(), "tcp", at[1]))(t)
		defer c.Close()
		must.Get(io.WriteString(c, "x"))(t)
		<-met
	}
	stop()
	if !strings.Contains(log.String(), "connections=3") {
		t.Errorf("logged: %s", log)
	}
}

// A session that waits for a line, or for the rest of one, does not hold up a stop, and answers
// what has come before.
func TestSessionEndsAtStop(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	running := must.Get(lwango.Server{
		Listeners: []lwango.Listener{{Addr: "127.0.0.1:0", Streams: stream.Session(session)}},
		Grace:     time.Hour,
		Logger:    slog.New(slog.DiscardHandler),
	}.Start(ctx))(t)
	var conns []net.Conn
	for _, rest := range []string{"", "half a li"} {
		c := must.Dial(t, "tcp", running.Addrs()[0])
		fmt.Fprint(c, "one\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); line != "ONE\n" || err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		fmt.Fprint(c, rest)
		conns = append(conns, c)
	}
	stop()
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
	for i, want := range []string{"", "HALF A LI\n"} {
		if got, err := io.ReadAll(conns[i]); string(got) != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}
