package fastcgi_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// proxy is a server with the module at a route.
type proxy struct {
	*server.Server
	handler conn.Handler
	log     *logtext.Buffer
	dir     string // the scripts'
}

// serve starts a server whose module uses the addresses, for scripts that need not be there.
func serve(t testing.TB, addresses []string, change func(*fastcgi.Settings)) *proxy {
	t.Helper()
	return serveFiles(t, "/", addresses, nil, func(s *fastcgi.Settings) {
		s.CheckFile = false
		if change != nil {
			change(s)
		}
	})
}

// serveFiles does so for scripts that must exist.
func serveFiles(t testing.TB, prefix string, addresses []string, files map[string]string,
	change func(*fastcgi.Settings)) *proxy {
	t.Helper()
	return serveRoute(t, registry(), prefix, addresses, files, change)
}

// registry returns a registry as a process has one.
func registry() *handlers.Registry {
	r := new(handlers.Registry)
	fastcgi.Register(r)
	return r
}

// serveRoute does so for another route of the process whose registry is r.
func serveRoute(t testing.TB, r *handlers.Registry, prefix string, addresses []string,
	files map[string]string, change func(*fastcgi.Settings)) *proxy {
	t.Helper()
	p := route(t, r, prefix, addresses, files, change)
	p.Server = module.Start(t, modes.Direct, prefix, p.handler)
	return p
}

// route builds a route that is not served yet.
func route(t testing.TB, r *handlers.Registry, prefix string, addresses []string,
	files map[string]string, change func(*fastcgi.Settings)) *proxy {
	t.Helper()
	p := &proxy{log: new(logtext.Buffer), dir: t.TempDir()}
	must.Do(t, os.Chmod(p.dir, 0o755))
	write(t, p.dir, files)
	env := handlers.Env{Dir: p.dir, Prefix: prefix,
		Logger: slog.New(slog.NewTextHandler(p.log, nil))}
	module, _ := r.Module("fastcgi")
	s := module.NewSettings().(*fastcgi.Settings)
	s.Address, s.ScriptPath = addresses, p.dir
	s.ReadTimeout, s.SendTimeout = 10*wait.Patience, 10*wait.Patience
	s.IdleTimeout = 50 * time.Millisecond // nothing is left behind when the tests end
	if change != nil {
		change(s)
	}
	h := must.Get(module.Build(s, env))(t)
	p.handler = h
	return p
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// got is an answer, perhaps one that was cut.
type got struct {
	status int
	reason string // with the number
	header http.Header
	body   string
	err    error
}

// request sends one request, as lines, on a connection of its own, and reads the answer.
func (p *proxy) request(line string, fields []string, body string) got {
	p.T.Helper()
	c := p.Dial()
	defer c.Close()
	wire := line + " HTTP/1.1\r\nHost: test.example\r\n" + strings.Join(append(fields, ""), "\r\n")
	if body != "" && !strings.Contains(wire, "chunked") {
		wire += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	go io.WriteString(c, wire+"\r\n"+body)
	method, _, _ := strings.Cut(line, " ")
	return read(bufio.NewReader(c), method)
}

func (p *proxy) get(target string) got { p.T.Helper(); return p.request("GET "+target, nil, "") }

func read(r *bufio.Reader, method string) got {
	std, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return got{err: err}
	}
	b, err := io.ReadAll(std.Body)
	return got{status: std.StatusCode, reason: std.Status, header: std.Header, body: string(b),
		err: err}
}

// env is the Env of a route in a folder of its own.
func env(t testing.TB) handlers.Env { return handlers.Env{Dir: t.TempDir(), Prefix: "/"} }

// stepwise is an application that answers a request when it is told to.
func stepwise(t *testing.T) (*fcgitest.Upstream, chan<- bool) {
	goOn := make(chan bool)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		for {
			c.Read()
			<-goOn
			c.Reply(okHead + "hello")
		}
	})
	return up, goOn
}

func requests(t *testing.T, up *fcgitest.Upstream, n int) {
	t.Helper()
	if !up.Wait(wait.Patience, func(_, _, requests int) bool { return requests == n }) {
		t.Fatalf("%d requests, want %d", len(up.Requests()), n)
	}
}

const okHead = "Content-Type: text/plain\r\n\r\n"

// answers is an application that always gives the same answer.
func answers(text string) fcgitest.Script {
	return func(c *fcgitest.Conn) {
		for {
			c.Answer(okHead + text)
		}
	}
}

// tells is an application that answers with the values of these parameters.
func tells(names ...string) fcgitest.Script {
	return func(c *fcgitest.Conn) {
		r := c.Read()
		var values []string
		for _, name := range names {
			values = append(values, r.Get(name))
		}
		c.Reply(okHead + strings.Join(values, "|"))
	}
}
