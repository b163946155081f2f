package tcpproxy_test

import (
	"cmp"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// running is streams that are served on one loop.
type running struct {
	t      *testing.T
	config *config.Config
	at     string // the first of their addresses
	all    []string
	folder string
	loops  *loops.Loops
	logs   *accesslog.Logs
}

// serve serves the streams of a configuration on one loop.
func serve(t *testing.T, text string) *running {
	t.Helper()
	return serveTLS(t, text, nil)
}

// serveTLS is serve, with TLS ended by ends if that is not nil. In the configuration, LISTEN is the
// line for a free port, LOG one for the file that log returns, and DIR a folder for files.
func serveTLS(t *testing.T, text string, ends *tls.Config) *running {
	t.Helper()
	s := &running{t: t, folder: t.TempDir()}
	c, err := s.parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	s.config = c
	logs := accesslog.New(logtext.Quiet, logtext.Quiet, nil)
	s.logs = logs
	t.Cleanup(logs.Close)
	logs.Use(c.AccessLogs(), must.Get(logs.Open(c.AccessLogs()))(t))
	s.loops = loops.Start(t, modes.Direct, logtext.Quiet, func(l *loop.Loop) {
		for _, lc := range c.Listeners {
			fd := must.Get(loop.Listen("tcp", lc.Address.Name, false))(t)
			must.Get(lc.Stream.Listen(l, fd, cmp.Or(ends, lc.TLS.Config)))(t)
			s.all = append(s.all, loop.LocalAddr(fd).String())
		}
		s.at = s.all[0]
	})
	return s
}

// parse reads a configuration.
func (s *running) parse(text string) (*config.Config, error) {
	text = strings.NewReplacer("LISTEN", `address = "127.0.0.1:0"`, "DIR", s.folder,
		"LOG", `access_log = { path = "`+s.folder+`/log" }`).Replace(text)
	src := config.Source{Modules: config.Builtin(), Logger: logtext.Quiet}
	return src.Parse(filepath.Join(s.folder, "lwango.conf"), text)
}

// skip puts the loop's clock forward.
func (s *running) skip(d time.Duration) {
	loops.On(s.t, s.loops.All[0], func(l *loop.Loop) { l.Layer().AdvanceClock(d) })
}

// log returns the lines of the access log, of which there must come so many.
func (s *running) log(n int) (lines []string) {
	s.t.Helper()
	wait.Until(s.t, "lines in the log", func() bool {
		s.logs.Reopen() // writes them now
		text, _ := os.ReadFile(filepath.Join(s.folder, "log"))
		lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		return len(lines) >= n && lines[0] != ""
	})
	return lines
}

// counts returns what the first stream has counted.
func (s *running) counts() metrics.Stream { return s.config.StreamReports()()[0] }

// dial connects to the server.
func (s *running) dial() *net.TCPConn {
	s.t.Helper()
	return dial(s.t, s.at)
}

func dial(t *testing.T, at string) *net.TCPConn {
	t.Helper()
	c := must.Get(net.Dial("tcp", at))(t).(*net.TCPConn)
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(wait.Patience))
	return c
}

// upstream serves each connection by f on a goroutine of its own, and returns its address.
func upstream(t *testing.T, f func(c *net.TCPConn)) string {
	t.Helper()
	ln := must.Listen(t)
	var all sync.WaitGroup
	t.Cleanup(func() { ln.Close(); all.Wait() })
	all.Go(func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			all.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(wait.Patience))
				f(c.(*net.TCPConn))
			})
		}
	})
	return ln.Addr().String()
}

// echo sends back what comes, with a name in front.
func echo(name string) func(c *net.TCPConn) {
	return func(c *net.TCPConn) {
		_, _ = io.WriteString(c, name)
		_, _ = io.Copy(c, c)
	}
}

// wants reads a text.
func wants(t *testing.T, c io.Reader, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("got %q, %v; want %q", got[:n], err, text)
	}
}

// wantsEnd reads up to the end.
func wantsEnd(t *testing.T, c io.Reader, text string) {
	t.Helper()
	if got, err := io.ReadAll(c); err != nil || string(got) != text {
		t.Fatalf("got %q, %v; want %q and the end", got, err, text)
	}
}

// says writes a text.
func says(t *testing.T, c io.Writer, text string) {
	t.Helper()
	must.Get(io.WriteString(c, text))(t)
}

// settle returns when the loop has acted on what has come so far.
func (s *running) settle() { loops.Settle(s.t, s.loops.All...) }
