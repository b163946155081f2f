package conn_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(benchServer); kind != "" {
		benchServe(kind)
		return
	}
	leak.Parallel(6)
	leak.Main(m)
}

type mode = modes.Mode

var run, serverTLS, chacha = modes.Run, modes.ServerTLS, modes.Noise

var plain, direct, several, overTLS = modes.Plain, modes.Direct, modes.Several, modes.OverTLS

// site is a server under test.
type site struct {
	t      testing.TB
	m      mode
	addr   string
	server *conn.Server
	loops  []*loop.Loop
	log    *logtext.Buffer
	once   sync.Once
	done   sync.WaitGroup
}

func start(t testing.TB, m mode, cfg conn.Config) *site {
	t.Helper()
	s := &site{t: t, m: m, log: new(logtext.Buffer)}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	}
	s.server = conn.NewServer(cfg)
	s.addr = "127.0.0.1:0"
	for range m.Loops {
		l, err := loop.New(loop.Options{Handoff: m.Handoff, Logger: cfg.Logger})
		if err != nil {
			t.Fatal(err)
		}
		fd, err := loop.Listen("tcp", s.addr, true)
		if err != nil {
			t.Fatal(err)
		}
		s.addr = loop.LocalAddr(fd).String()
		ln := conn.Listener{FD: fd}
		if m.TLS {
			ln.TLS = serverTLS()
		}
		if _, err := s.server.Serve(l, ln); err != nil {
			t.Fatal(err)
		}
		s.loops = append(s.loops, l)
	}
	for _, l := range s.loops {
		s.done.Go(func() {
			if err := l.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { s.stop(time.Second) })
	return s
}

// stop stops the loops and waits for them.
func (s *site) stop(grace time.Duration) {
	s.once.Do(func() {
		for _, l := range s.loops {
			l.Stop(grace)
		}
		s.done.Wait()
		if n := s.server.Active(); n != 0 {
			s.t.Errorf("%d connections counted after the stop", n)
		}
	})
}

// on calls f on the first loop and waits for it.
func (s *site) on(f func(l *loop.Loop)) {
	s.t.Helper()
	done := make(chan struct{})
	if err := s.loops[0].Post(func() { f(s.loops[0]); close(done) }); err != nil {
		s.t.Fatal(err)
	}
	<-done
}

// dial connects.
func (s *site) dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.m.TLS {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	s.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// exchange sends raw bytes and returns all that comes until the server closes.
func (s *site) exchange(raw string) string {
	s.t.Helper()
	c := s.dial()
	defer c.Close()
	if _, err := io.WriteString(c, raw); err != nil {
		s.t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		s.t.Fatalf("after %q: %v", answer, err)
	}
	return string(answer)
}

// answers parses everything that comes on c as responses to requests of the given methods.
func answers(t testing.TB, r io.Reader, methods ...string) (all []answer) {
	t.Helper()
	br := bufio.NewReader(r)
	for _, method := range methods {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("response %d: %v", len(all)+1, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("body of response %d: %v", len(all)+1, err)
		}
		all = append(all, answer{resp, string(body)})
	}
	return all
}

type answer struct {
	*http.Response
	text string
}

func hello(req *conn.Request, resp *conn.Response) int {
	resp.Header().Set("Content-Type", "text/plain")
	resp.WriteString("Hello, world!")
	return 200
}
