package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestHTTP2Leaves: a client that leaves costs its stream, and the connection goes on.
func TestHTTP2Leaves(t *testing.T) {
	begun, left := make(chan bool), make(chan bool)
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			begun <- true
			<-r.Context().Done()
			left <- true
			return
		}
		io.WriteString(w, "hello")
	}, nil)
	f := serve(t, modes.Direct, "/", []string{o.addr}, version2)
	for range 3 {
		c := f.Dial()
		c.Send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
		<-begun
		c.Close()
		<-left
		if g := f.get("/"); g.body != "hello" {
			t.Error(g, f.log)
		}
	}
	if n := o.accepted.Load(); n != 1 {
		t.Error(n, " connections")
	}
}

// TestHTTP2Timeouts: the limits hold for each request, and the connection goes on.
func TestHTTP2Timeouts(t *testing.T) {
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/head":
			<-r.Context().Done()
		case "/body":
			io.WriteString(w, "he")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/send": // it does not read
			<-r.Context().Done()
		default:
			io.WriteString(w, "hello")
		}
	}, nil)
	large := strings.Repeat("x", 16<<20)
	// of the case alone: a busy machine may need it for what comes before
	const limit = 50 * time.Millisecond
	for i, tt := range []struct {
		path, body string
		change     func(*proxy.Settings)
		status     int
		cut        bool
	}{
		{"/head", "", func(s *proxy.Settings) { s.FirstByteTimeout = limit }, 504, false},
		{"/body", "", func(s *proxy.Settings) { s.ReadTimeout = limit }, 200, true},
		{"/send", large, func(s *proxy.Settings) { s.SendTimeout = limit }, 504, false},
	} {
		f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
			version2(s)
			tt.change(s)
		})
		g := f.ask("PUT "+tt.path, fmt.Sprint("Content-Length: ", len(tt.body), "\r\n"), tt.body)
		if g.status != tt.status || (g.err != nil) != tt.cut {
			t.Error(tt.path, g.status, g.err)
		}
		wait.Until(t, "an answer behind "+tt.path, func() bool { return f.get("/").body == "hello" })
		if n := int(o.accepted.Load()); n != i+1 {
			t.Error(n, " connections")
		}
	}
}

// TestHTTP2SlowClient: a client that does not read holds up its own answer alone, and gets all of
// it in the end.
func TestHTTP2SlowClient(t *testing.T) {
	const size = 8 << 20
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			io.Copy(w, io.LimitReader(zeros{}, size))
			return
		}
		io.WriteString(w, "hello")
	}, nil)
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
		version2(s)
		s.ResponseBuffering = 0
	})
	var slow []*server.Client
	for range 3 {
		c := f.DialBuffer(server.SlowReader)
		c.Send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
		must.Get(c.R.Peek(1))(t)
		slow = append(slow, c)
	}
	for range 10 {
		if g := f.get("/"); g.body != "hello" {
			t.Error(g, f.log)
		}
	}
	for _, c := range slow {
		if g := read(c.R, "GET"); len(g.body) != size || g.err != nil {
			t.Error(len(g.body), g.err)
		}
	}
	if n := o.accepted.Load(); n != 1 {
		t.Error(n, " connections")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestHTTP2Streams: as many requests share a connection as the upstream allows, and max_conns is
// for requests.
func TestHTTP2Streams(t *testing.T) {
	var now, most atomic.Int32
	held, goOn := make(chan bool, 100), make(chan bool)
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		if r.URL.Path == "/held" {
			held <- true
			<-goOn
		}
		now.Add(-1)
		io.WriteString(w, "hello")
	}, func(s *http.Server) { s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2} })
	f := serve(t, modes.Direct, "/", []string{o.addr}, version2)
	if g := f.get("/"); g.body != "hello" { // its settings are known from here on
		t.Error(g)
	}
	var clients sync.WaitGroup
	ask := func(f *front) {
		clients.Go(func() {
			if g := f.get("/held"); g.body != "hello" {
				t.Error(g, f.log)
			}
		})
		<-held
	}
	for range 6 {
		ask(f)
	}
	if n := o.accepted.Load(); n != 3 {
		t.Error(n, " connections")
	}
	for range 6 {
		goOn <- true
	}
	clients.Wait()
	f = serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
		version2(s)
		s.MaxConns, s.QueueTimeout = 2, 50*time.Millisecond
	})
	ask(f)
	ask(f)
	if g := f.get("/"); g.status != 503 {
		t.Error(g)
	}
	goOn <- true
	goOn <- true
	clients.Wait()
	if g := f.get("/"); g.body != "hello" {
		t.Error(g)
	}
}

// TestHTTP2NotReused: without max_idle a connection ends with its last request.
func TestHTTP2NotReused(t *testing.T) {
	o := start2(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }, nil)
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
		version2(s)
		s.MaxIdle = 0
	})
	for range 3 {
		if g := f.get("/"); g.body != "hello" {
			t.Error(g, f.log)
		}
		wait.Until(t, "the connection ends", func() bool { return o.open.Load() == 0 })
	}
}
