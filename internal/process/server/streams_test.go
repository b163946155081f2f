package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/process/tcpproxy"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/wait"
)

// tcp serves each connection by sending a name and then what comes.
func tcp(t *testing.T, name string) string {
	t.Helper()
	ln := must.Listen(t)
	var all sync.WaitGroup
	t.Cleanup(func() { ln.Close(); all.Wait() })
	all.Go(func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			all.Go(func() {
				defer c.Close()
				_, _ = io.WriteString(c, name)
				_, _ = io.Copy(c, c)
			})
		}
	})
	return ln.Addr().String()
}

// reads returns a connection from which so much came.
func reads(t *testing.T, at, want string) net.Conn {
	t.Helper()
	c := must.Dial(t, "tcp", at)
	echoes(t, c, "", want)
	return c
}

// echoes sends a text and reads another.
func echoes(t *testing.T, c net.Conn, text, want string) {
	t.Helper()
	must.Get(io.WriteString(c, text))(t)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

func streamTo(up, more string) string {
	return "[[stream]]\naddress = '127.0.0.1:0'\n" + more + "[[stream.route]]\naddress = '" + up +
		"'\n"
}

// TestStreamReload: a reload leads new connections elsewhere, those that there are go on, and what
// was counted is not forgotten. Metrics and access log have them all.
func TestStreamReload(t *testing.T) {
	src := source()
	src.Hub = new(tcpproxy.Hub)
	a, b := tcp(t, "a"), tcp(t, "b")
	site :=
		"[[listener]]\naddress = 'unix:http'\n[[site]]\n[[site.route]]\nprefix = '/'\nmodule = 'status'\n"
	dir := t.TempDir()
	src.File = filepath.Join(dir, "lwango.conf")
	log := "access_log = { path = 'log' }\n"
	s := serve(t, src, "grace = '50ms'\n"+streamTo(a, log)+site)
	old := reads(t, s.at, "a")
	s.reload("grace = '50ms'\n" + streamTo(b, log) + site)
	fresh := reads(t, s.at, "b")
	if n := src.Hub.Open(); n != 2 {
		t.Errorf("%d connections are open, of both configurations", n)
	}
	echoes(t, old, "still", "still")
	echoes(t, fresh, "here", "here")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", filepath.Join(dir, "http"))
		}}}
	metrics := func() string {
		resp := must.Get(client.Get("http://x/metrics"))(t)
		return must.Body(t, resp)
	}
	text := metrics()
	for _, want := range []string{`lwango_stream_connections{address="127.0.0.1:0"} 2`,
		`lwango_stream_connections_accepted_total{address="127.0.0.1:0"} 2`,
		`lwango_stream_received_bytes_total{address="127.0.0.1:0"} 9`,
		`lwango_upstream_connections{site="stream 127.0.0.1:0",route="*",address="` + b +
			`",state="active"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	s.end() // the grace period is over at once for what does not end
	if n, err := old.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("after the stop: %d, %v", n, err)
	}
	lines := string(must.Get(os.ReadFile(filepath.Join(dir, "log")))(t))
	if strings.Count(lines, "\n") != 2 || strings.Count(lines, `"stopped"`) != 2 {
		t.Errorf("log:\n%s", lines)
	}
}

// TestStreamLog: the log says that a port is listened to once, whatever is reloaded, unless it
// becomes one of HTTP or of a stream; and why a client has got no upstream, also where there is
// only one.
func TestStreamLog(t *testing.T) {
	src := source()
	var log logtext.Buffer
	src.Logger = logtext.Logger(t, &log)
	site := "[[listener]]\naddress = 'unix:http'\n"
	s := serve(t, src, streamTo(tcp(t, "a"), "")+site)
	listening := strings.Count(log.String(), "msg=listening")
	gone := refuse.Address(t)
	s.reload(streamTo(gone, "") + site)
	if n := strings.Count(log.String(), "msg=listening"); n != listening {
		t.Errorf("%d lines say that a port is listened to, %d before the reload:\n%s", n, listening,
			log.String())
	}
	c := must.Get(net.Dial("tcp", s.at))(t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(wait.Patience))
	_, _ = c.Read(make([]byte, 1))
	wait.Until(t, "the log says why", func() bool {
		return strings.Contains(log.String(), `level=ERROR msg="stream: no upstream"`)
	})
	for _, other := range []string{"[[listener]]\naddress = '127.0.0.1:0'\n", streamTo(gone, "")} {
		s.reload(other + site)
		listening++
		if n := strings.Count(log.String(), "msg=listening"); n != listening {
			t.Errorf("%d lines say that a port is listened to, want %d:\n%s", n, listening, log.String())
		}
	}
}

// TestStreamStop: connections have the grace period for their end.
func TestStreamStop(t *testing.T) {
	s := serve(t, source(), "grace = '1m'\n[[listener]]\naddress = 'unix:http'\n"+
		streamTo(tcp(t, "a"), ""))
	c := reads(t, s.at, "a")
	s.stop()
	echoes(t, c, "in flight", "in flight")
	_ = c.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	s.end() // long before the minute is over
}

// TestStreamAlone: a file with streams alone listens to nothing else.
func TestStreamAlone(t *testing.T) {
	src := source()
	src.File = filepath.Join(t.TempDir(), "lwango.conf")
	must.Write(t, src.File, streamTo(tcp(t, "a"), ""))
	c := must.Get(src.Load())(t)
	if len(c.Listeners) != 1 || c.Listeners[0].Stream == nil {
		t.Errorf("listeners: %+v", c.Listeners)
	}
}
