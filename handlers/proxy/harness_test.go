package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// front is a server with the module at a route.
type front struct {
	*server.Server
	log     *logtext.Buffer
	handler conn.Handler
}

// serve starts a server with the module at prefix.
func serve(t testing.TB, m modes.Mode, prefix string, addresses []string,
	change func(*proxy.Settings)) *front {
	t.Helper()
	f := &front{log: new(logtext.Buffer)}
	env := handlers.Env{Dir: t.TempDir(), Prefix: prefix,
		Logger: slog.New(slog.NewTextHandler(f.log, nil))}
	h := must.Get(module.Build(t, proxy.Register, "proxy", env, func(s *proxy.Settings) {
		s.Address = addresses
		s.IdleTimeout = 50 * time.Millisecond // nothing is left behind when the tests end
		if change != nil {
			change(s)
		}
	}))(t)
	f.handler = h
	f.Server = module.Start(t, m, prefix, h)
	return f
}

// origin is an upstream that follows a script on each connection.
type origin struct {
	addr     string
	accepted atomic.Int32
	open     atomic.Int32
	silent   chan bool // has an element for each of its connections that drains, and says nothing
	stop     func()    // as if its process had been killed
}

// originConn is a connection of an origin.
type originConn struct {
	net.Conn
	r *bufio.Reader
	o *origin
}

// request reads a request with its body, nil at the end of the connection.
func (p *originConn) request() *http.Request {
	req, err := http.ReadRequest(p.r)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil
	}
	req.Body = io.NopCloser(strings.NewReader(string(body)))
	return req
}

// head reads the head of a request.
func (p *originConn) head() string {
	var head strings.Builder
	for {
		line, err := p.r.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String()
		}
	}
}

func (p *originConn) say(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// start starts an origin whose connections run script, each to its end.
func start(t testing.TB, script func(p *originConn)) *origin {
	t.Helper()
	return startAt(t, "tcp", "127.0.0.1:0", script)
}

// startAt does so at an address of net.Listen.
func startAt(t testing.TB, network, address string, script func(p *originConn)) *origin {
	t.Helper()
	ln := must.Get(net.Listen(network, address))(t)
	o := &origin{addr: ln.Addr().String(), silent: make(chan bool, 1024)}
	if network == "unix" {
		o.addr = "unix:" + o.addr
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	all := make(map[net.Conn]bool)
	stopped := false
	running.Go(func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			o.accepted.Add(1)
			o.open.Add(1)
			mu.Lock()
			all[c] = true
			if stopped { // before this one was there
				c.Close()
			}
			mu.Unlock()
			running.Go(func() {
				_ = c.SetDeadline(time.Now().Add(wait.Patience))
				script(&originConn{c, bufio.NewReader(c), o})
				c.Close()
				o.open.Add(-1)
				mu.Lock()
				delete(all, c)
				mu.Unlock()
			})
		}
	})
	o.stop = func() {
		ln.Close()
		mu.Lock()
		stopped = true
		for c := range all {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	}
	t.Cleanup(o.stop)
	return o
}

// always is a script that gives the same answer to each request, up to the last one.
func always(answer string) func(*originConn) {
	return func(p *originConn) {
		for req := p.request(); req != nil && req.URL.Path != last; req = p.request() {
			p.say("%s", answer)
		}
	}
}

const (
	hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

	// last is the path of a request for which an upstream ends its connection, so that none is kept
	// when the test ends.
	last = "/last"
)

// got is an answer, perhaps one that was cut.
type got struct {
	status int
	header http.Header
	body   string
	err    error
}

func (f *front) ask(line string, fields string, body string) got {
	f.T.Helper()
	c := f.Dial()
	defer c.Close()
	method, _, _ := strings.Cut(line, " ")
	go io.WriteString(c, line+" HTTP/1.1\r\nHost: test.example\r\n"+fields+"\r\n"+body)
	return read(c.R, method)
}

// patiently is ask, where silent upstreams meet the request, which are to be given up after limit.
// The clock is put forward for that: on a busy machine others may take as long for an answer.
func (f *front) patiently(line, fields, body string, limit time.Duration, silent ...*origin) got {
	f.T.Helper()
	done := make(chan got, 1)
	go func() { done <- f.ask(line, fields, body) }()
	for _, o := range silent {
		select {
		case <-o.silent:
			f.Skip(limit)
		case g := <-done:
			return g
		}
	}
	return <-done
}

func (f *front) get(target string) got { f.T.Helper(); return f.ask("GET "+target, "", "") }

func read(r *bufio.Reader, method string) got {
	std, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return got{err: err}
	}
	b, err := io.ReadAll(std.Body)
	return got{std.StatusCode, std.Header, string(b), err}
}
