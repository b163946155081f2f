package conn_test

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(benchServer); kind != "" {
		benchServe(kind)
		return
	}
	leak.Parallel(6)
	leak.Main(m)
}

type (
	mode   = modes.Mode
	site   = server.Server
	client = server.Client
	answer = server.Answer
)

var run, chacha = modes.Run, modes.Noise

var start, send, rest = server.Start, server.Send, server.Rest

var parse, answers, clip = server.Parse, server.Answers, server.Clip

var http1 = modes.HTTP1

var plain, direct, several, overTLS = modes.Plain, modes.Direct, modes.Several, modes.OverTLS

// atOnce gives all modes the same test at the same time. It returns when they have ended.
func atOnce(t *testing.T, f func(t *testing.T, m mode), modes ...mode) {
	t.Run("at once", func(t *testing.T) {
		run(t, func(t *testing.T, m mode) {
			t.Parallel()
			f(t, m)
		}, modes...)
	})
}

func hello(req *conn.Request, resp *conn.Response) int {
	resp.Header().Set("Content-Type", "text/plain")
	resp.WriteString("Hello, world!")
	return 200
}

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// paths records which requests reach the handler.
type paths struct {
	mu  sync.Mutex
	all []string
}

func (p *paths) add(path string) {
	p.mu.Lock()
	p.all = append(p.all, path)
	p.mu.Unlock()
}

// take returns what came since the last call.
func (p *paths) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := strings.Join(p.all, " ")
	p.all = nil
	return got
}

// byPath makes a handler of one for each path; others are 404.
func byPath(m map[string]conn.Handler) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		if h := m[req.Path()]; h != nil {
			return h(req, resp)
		}
		return http.StatusNotFound
	}
}
