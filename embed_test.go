package lwango_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
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
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/stream"
)

// says is a handler that answers with a text.
func says(text string) lwango.Handler {
	return func(_ *lwango.Request, resp *lwango.Response) int {
		resp.WriteString(text)
		return 200
	}
}

// embed starts a server that ends with the test. stop ends it earlier, and returns the error of
// Wait.
func embed(t *testing.T, s lwango.Server) (r *lwango.Running, stop func() error) {
	t.Helper()
	if s.Logger == nil {
		s.Logger = logtext.Quiet
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.Start(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	stop = sync.OnceValue(func() error { cancel(); return r.Wait() })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Wait: %v", err)
		}
	})
	return r, stop
}

// leavesNothing fails the test if it leaves goroutines or descriptors behind.
func leavesNothing(t *testing.T) {
	t.Helper()
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil { // Go's poller opens its own
		ln.Close()
	}
	check, before := leak.Goroutines(t), descriptors(t)
	t.Cleanup(func() {
		check()
		wait.Until(t, "descriptors are closed", func() bool {
			runtime.GC() // finalizers close some
			return descriptors(t) <= before
		})
	})
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// askAt sends a request by dial, and returns the body of the answer.
func askAt(t *testing.T, url string, secure bool, network, address string) string {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}}
	if secure {
		tr.TLSClientConfig = &tls.Config{InsecureSkipVerify: true,
			NextProtos: []string{"h2", "http/1.1"}}
	}
	resp, err := (&http.Client{Transport: tr, Timeout: wait.Patience}).Get(url)
	if err != nil {
		t.Errorf("%s at %s: %v", url, address, err)
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// TestServe: Serve returns nil after the end of its context, once the request in flight has its
// answer, and nothing is left.
func TestServe(t *testing.T) {
	leavesNothing(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	addr, asked := make(chan string, 1), make(chan struct{})
	h := func(req *lwango.Request, resp *lwango.Response) int {
		addr := req.LocalAddr()
		close(asked)
		if err := req.Sleep(50 * time.Millisecond); err != nil {
			t.Error(err)
		}
		resp.WriteString(addr.String())
		return 200
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr <- ln.Addr().String()
	ended := make(chan error, 1)
	go func() {
		ended <- lwango.Server{Handler: lwango.Handler(h), Logger: logtext.Quiet,
			Grace: wait.Patience, Listeners: []lwango.Listener{{Socket: ln}}}.Serve(ctx)
	}()
	at := <-addr
	go func() { <-asked; cancel() }()
	if got := get(t, "http://"+at); string(got) != at {
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
	leavesNothing(t)
	dir, err := os.MkdirTemp("", "embed") // names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	unixLn, err := net.Listen("unix", filepath.Join(dir, "own"))
	if err != nil {
		t.Fatal(err)
	}
	tcpLn, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := tcpLn.(*net.TCPListener).File() // a descriptor, as another program would pass it
	if err != nil {
		t.Fatal(err)
	}
	tcpLn.Close()
	fromFD, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	upper := func(_ *loop.Thread, s *stream.Stream) error {
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

	r, stop := embed(t, lwango.Server{Addr: "127.0.0.1:0", TLS: secure, Handler: says("here"),
		Listeners: []lwango.Listener{{Addr: "127.0.0.1:0"}, {Addr: "unix:" + dir + "/new"},
			{Socket: unixLn}, {Socket: fromFD}, {Addr: "127.0.0.1:0", TLS: chosen},
			{Addr: "127.0.0.1:0", Streams: upper}}})
	at := r.Addrs()
	if len(at) != 7 {
		t.Fatalf("addresses %q", at)
	}
	for i, network := range []string{"tcp", "tcp", "unix", "unix", "tcp", "tcp"} {
		scheme, secure := "http://x/", i == 0 || i == 5
		if secure {
			scheme = "https://x/"
		}
		got := askAt(t, scheme, secure, network, strings.TrimPrefix(at[i], "unix:"))
		if got != "here" {
			t.Errorf("%s: got %q", at[i], got)
		}
	}
	c, err := net.Dial("tcp", at[6])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "echo\n"); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "ECHO\n" {
		t.Errorf("streams: %q, %v", line, err)
	}
	c.Close()
	if err := stop(); err != nil {
		t.Errorf("Wait: %v", err)
	}
	for _, name := range []string{"own", "new"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("the socket %s is left: %v", name, err)
		}
	}
	if at := r.Addrs(); at != nil {
		t.Errorf("addresses of a server that has stopped: %q", at)
	}
}

// TestStartFails: what a server cannot do it says at once, and it leaves nothing.
func TestStartFails(t *testing.T) {
	leavesNothing(t)
	_, stop := embed(t, lwango.Server{Addr: "127.0.0.1:0", Handler: says("")})
	r, _ := embed(t, lwango.Server{Addr: "127.0.0.1:0", Handler: says("")})
	taken := r.Addrs()[0]
	if err := stop(); err != nil {
		t.Error(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	file := filepath.Join(t.TempDir(), "wrong.conf")
	if err := os.WriteFile(file, []byte("thread = 1\n[error_log]\nformat = \"json\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]lwango.Server{
		"listen tcp " + taken + ": bind: address already in use": {Addr: taken},
		"listen example.org:80: host":                            {Addr: "example.org:80"},
		"TLS has no certificate":                                 {Addr: "127.0.0.1:0", TLS: new(tls.Config)},
		"HeaderTimeout: expected 1ms to 24h, found -1s":          {HeaderTimeout: -time.Second},
		"Threads: expected 1 to 1024, found -1":                  {Threads: -1},
		"MaxHeaderSize: expected 1 KiB to 16 MiB, found 3 bytes": {MaxHeaderSize: 3},
		"use of closed network connection":                       {Listeners: []lwango.Listener{{Socket: closed}}},
		"localhost:9: the address is listened to twice": {Listeners: []lwango.Listener{{Addr: "127.0.0.1:9"},
			{Addr: "localhost:9"}}},
		"a *tls.listener has no descriptor": {Listeners: []lwango.Listener{
			{Socket: tls.NewListener(closed, modes.ServerTLS())}}},
		"an Addr or a Socket, not both":                             {Listeners: []lwango.Listener{{Addr: "*:1", Socket: closed}}},
		"wrong.conf:1: thread: unknown key (did you mean threads?)": {File: file},
		"wrong.conf:3: error_log.format: is for a server that":      {File: file},
		"no such file": {File: file + "x"},
	} {
		s.Logger, s.Handler = logtext.Quiet, says("")
		if err := s.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := lwango.ListenAndServe(t.Context(), taken, says("")); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v, want EADDRINUSE", err)
	}
}

// TestSeveralServers: servers that start at the same time, on one port and on others, do not get
// into each other's way: each port has one server, and stops with it alone.
func TestSeveralServers(t *testing.T) {
	leavesNothing(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().String()
	ln.Close()
	var got, refused atomic.Int32
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	running := make(chan *lwango.Running, 4)
	for range 4 {
		all.Go(func() {
			r, err := lwango.Server{Addr: port, Threads: 2, Handler: says(""),
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
	a, stopA := embed(t, lwango.Server{Addr: "127.0.0.1:0", Threads: 3, Handler: says("a")})
	b, _ := embed(t, lwango.Server{Addr: "127.0.0.1:0", Threads: 3, Handler: says("b")})
	if n := runtime.GOMAXPROCS(0); n < 2+3+3+1 {
		t.Errorf("%d processors for eight loops", n)
	}
	for text, r := range map[string]*lwango.Running{"a": a, "b": b} {
		if got := get(t, "http://"+r.Addrs()[0]); string(got) != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	if err := stopA(); err != nil {
		t.Error(err)
	}
	if got := get(t, "http://"+b.Addrs()[0]); string(got) != "b" {
		t.Errorf("after the other one has stopped: %q", got)
	}
	cancel()
	if err := (<-running).Wait(); err != nil {
		t.Error(err)
	}
}

// TestReload: a reload from code puts another handler, TLS and other addresses into force, and all
// or nothing.
func TestReload(t *testing.T) {
	leavesNothing(t)
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := lwango.Server{Handler: says("old"), Listeners: []lwango.Listener{{Socket: own}}}
	r, stop := embed(t, s)
	at := own.Addr().String()

	keep, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close()
	answers := bufio.NewReader(keep)
	ask := func() string {
		if _, err := io.WriteString(keep, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	if got := ask(); got != "old" {
		t.Errorf("got %q", got)
	}

	s.Handler = says("new")
	s.Listeners = append(s.Listeners, lwango.Listener{Addr: "127.0.0.1:0", TLS: modes.ServerTLS()})
	if err := r.Reload(s); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != "new" {
		t.Errorf("on the same connection: %q", got)
	}
	if got := askAt(t, "https://x", true, "tcp", r.Addrs()[1]); got != "new" {
		t.Errorf("at the new address: %q", got)
	}

	wrong := s
	wrong.Handler = says("never")
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	wrong.Listeners = append(wrong.Listeners[:2:2], lwango.Listener{Socket: unused},
		lwango.Listener{Addr: at})
	if err := r.Reload(wrong); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("an address that is taken: %v", err)
	}
	if _, err := unused.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a listener of a reload that was refused: %v, want it closed", err)
	}
	if got := ask(); got != "new" {
		t.Errorf("after a reload that was refused: %q", got)
	}

	s.Listeners = s.Listeners[1:]
	if err := r.Reload(s); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", at); err == nil {
		c.Close()
		t.Error("the address that is gone is still listened to")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := r.Reload(s); !errors.Is(err, lwango.ErrStopped) {
		t.Errorf("after the end: %v", err)
	}
}

// TestReloadOfChosenPorts: a port that the kernel has chosen stays, whatever comes and goes beside
// it, and whether the program asks for 0 again or for what it has got.
func TestReloadOfChosenPorts(t *testing.T) {
	leavesNothing(t)
	dir, err := os.MkdirTemp("", "embed")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const chosen = "127.0.0.1:0"
	beside := lwango.Listener{Addr: "unix:" + dir + "/s"}
	s := lwango.Server{Handler: says("x"), Listeners: []lwango.Listener{beside, {Addr: chosen},
		{Addr: chosen}}}
	r, _ := embed(t, s)
	first, second := r.Addrs()[1], r.Addrs()[2]
	for _, step := range []struct{ ask, want []string }{
		{[]string{chosen, chosen}, []string{first, second}},
		{[]string{chosen, "unix", chosen}, []string{first, "unix:" + dir + "/s", second}},
		{[]string{second, chosen}, []string{second, first}},
		{[]string{first, second}, []string{first, second}},
		{[]string{second}, []string{second}},
		{[]string{chosen}, []string{second}},
		{[]string{strings.Replace(second, "127.0.0.1", "localhost", 1)}, []string{second}},
	} {
		s.Listeners = nil
		for _, a := range step.ask {
			if a == "unix" {
				s.Listeners = append(s.Listeners, beside)
			} else {
				s.Listeners = append(s.Listeners, lwango.Listener{Addr: a})
			}
		}
		if err := r.Reload(s); err != nil {
			t.Fatalf("%q: %v", step.ask, err)
		}
		if got := r.Addrs(); !slices.Equal(got, step.want) {
			t.Errorf("%q: got %q, want %q", step.ask, got, step.want)
		}
		for _, at := range step.want {
			network := "tcp"
			if strings.HasPrefix(at, "unix:") {
				network = "unix"
			}
			if got := askAt(t, "http://x/", false, network, strings.TrimPrefix(at, "unix:")); got != "x" {
				t.Errorf("%s: %q", at, got)
			}
		}
	}
	if c, err := net.Dial("tcp", first); err == nil {
		c.Close()
		t.Error("the address that is gone is still listened to")
	}
	s.Listeners = []lwango.Listener{{Addr: second}, {Addr: second}}
	if err := r.Reload(s); err == nil || !strings.Contains(err.Error(), "listened to twice") {
		t.Errorf("got %v", err)
	}
}

// TestCounters: the access-log hook is told of each request, and Stats counts them.
func TestCounters(t *testing.T) {
	leavesNothing(t)
	var mu sync.Mutex
	var lines []string
	r, stop := embed(t, lwango.Server{Addr: "127.0.0.1:0", Handler: says("12345"),
		AccessLog: func(e *lwango.AccessEntry) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, e.Method+" "+string(e.Target))
			if e.Status != 200 || e.Bytes != 5 || e.Remote.Addr() != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("%+v", *e)
			}
		}})
	for range 3 {
		get(t, "http://"+r.Addrs()[0]+"/path")
	}
	idle, err := net.Dial("tcp", r.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	wait.Until(t, "one connection is open", func() bool {
		s, err := r.Stats(t.Context())
		return err != nil || s.Connections == 1
	})
	s, err := r.Stats(t.Context())
	if err != nil || s.Requests != 3 || len(s.Loops) == 0 || s.Loops[0].Waits == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if want := "GET /path GET /path GET /path"; strings.Join(lines, " ") != want {
		t.Errorf("lines %q", lines)
	}
	if _, err := r.Stats(t.Context()); !errors.Is(err, lwango.ErrStopped) {
		t.Errorf("after the end: %v", err)
	}
}

// settingsOfText are the settings of the module of TestRegisterModule.
type settingsOfText struct {
	Text string `toml:"text"`
}

// registerText is for one call in a process, however often the test runs in it.
var registerText = sync.OnceFunc(func() {
	lwango.RegisterModule("test_text", settingsOfText{Text: "default"},
		func(s settingsOfText, env lwango.Env) (lwango.Handler, error) {
			return says(env.Prefix + " " + s.Text), nil
		})
})

// TestRegisterModule: a module of the program works in the file of a server that it embeds, beside
// its handlers, and a reload reads the file again.
func TestRegisterModule(t *testing.T) {
	leavesNothing(t)
	registerText()
	file := filepath.Join(t.TempDir(), "x.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("[[site]]\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	route := "[[site.route]]\nprefix = \"/m\"\nmodule = \"test_text\"\n"
	write(route)
	s := lwango.Server{Addr: "127.0.0.1:0", File: file, Handler: says("code")}
	r, _ := embed(t, s)
	url := "http://" + r.Addrs()[0]
	for path, want := range map[string]string{"/m": "/m default", "/": "code"} {
		if got := get(t, url+path); string(got) != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	write(route + "text = \"other\"\n")
	if err := r.Reload(s); err != nil {
		t.Fatal(err)
	}
	if got := get(t, url+"/m"); string(got) != "/m other" {
		t.Errorf("after the reload: %q", got)
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
	leavesNothing(t)
	b := new(brokerOfTests)
	lwango.UseBroker(b)
	defer lwango.UseBroker(nil)
	file := filepath.Join(t.TempDir(), "x.conf")
	err := os.WriteFile(file, []byte("[pubsub]\nurl = \"redis://127.0.0.1:1/0\"\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s := lwango.Server{Addr: "127.0.0.1:0", File: file, Handler: says(""), Logger: logtext.Quiet}
	_, stop := embed(t, s)
	embed(t, lwango.Server{Addr: "127.0.0.1:0", Handler: says("")})
	if _, err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "pubsub.url: ") {
		t.Errorf("a second one: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	_, stop = embed(t, s)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n, m := b.connected.Load(), b.closed.Load(); n != 2 || m != 2 {
		t.Errorf("connected %d times, disconnected %d times", n, m)
	}
}

// TestZeroServer: a Server needs nothing but its port and something that answers.
func TestZeroServer(t *testing.T) {
	ci.Only(t, "listens on port 8080 of all addresses")
	leavesNothing(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := lwango.Server{Handler: says("")}.Start(ctx)
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
