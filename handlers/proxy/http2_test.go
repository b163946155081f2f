package proxy_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// server2 is net/http's server, which speaks HTTP/2 by prior knowledge alone.
type server2 struct {
	addr     string
	accepted atomic.Int32
	open     atomic.Int32
}

// start2 starts one. change may change its settings.
func start2(t testing.TB, h http.HandlerFunc, change func(*http.Server)) *server2 {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	o := &server2{addr: ln.Addr().String()}
	s := &http.Server{Handler: h, Protocols: new(http.Protocols),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				o.accepted.Add(1)
				o.open.Add(1)
			case http.StateClosed:
				o.open.Add(-1)
			}
		}}
	s.Protocols.SetUnencryptedHTTP2(true)
	if change != nil {
		change(s)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(ln) })
	t.Cleanup(func() {
		s.Close()
		running.Wait()
	})
	return o
}

// version2 has upstreams asked by HTTP/2.
func version2(s *proxy.Settings) { s.Version, s.IdleTimeout = "2", wait.Patience }

// TestHTTP2: a request goes to an upstream of HTTP/2, and its answer to the client.
func TestHTTP2(t *testing.T) { modes.Run(t, testHTTP2) }

func testHTTP2(t *testing.T, m modes.Mode) {
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", fmt.Sprint(r.Proto, " ", r.Method, " ", r.Host, " ", r.RequestURI, " ",
			r.Header.Get("X-A"), " ", r.ContentLength, " ", len(body), " ", err, " ", r.Header.Get("Via")))
		w.WriteHeader(201)
		io.WriteString(w, "hello")
	}, nil)
	f := serve(t, m, "/", []string{o.addr}, version2)
	large := strings.Repeat("x", 3<<20)
	for range 2 {
		for _, tt := range []struct{ line, fields, body, want string }{
			{"GET /a%20b?c", "X-A: b\r\n", "", "HTTP/2.0 GET test.example /a%20b?c b 0 0 <nil>"},
			{"POST /", "Content-Length: 4\r\nX-A: b\r\n", "body",
				"HTTP/2.0 POST test.example / b 4 4 <nil>"},
			{"PUT /", fmt.Sprint("X-A: b\r\nContent-Length: ", len(large), "\r\n"), large,
				fmt.Sprint("HTTP/2.0 PUT test.example / b ", len(large), " ", len(large), " <nil>")},
		} {
			g := f.ask(tt.line, tt.fields, tt.body)
			via := " 1.1 lwango"
			if m.HTTP2 {
				via = " 2.0 lwango"
			}
			if g.status != 201 || g.body != "hello" || g.header.Get("X-Seen") != tt.want+via {
				t.Errorf("%s: %d %q %q, want %q; %v; log %s", tt.line, g.status, g.body, g.header.Get("X-Seen"),
					tt.want+via, g.err, f.log)
			}
		}
	}
	if n := o.accepted.Load(); int(n) > m.Loops {
		t.Error(n, " connections")
	}
}

// TestHTTP2Together: requests of one loop share a connection.
func TestHTTP2Together(t *testing.T) {
	const many = 50
	var all sync.WaitGroup
	all.Add(many)
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		all.Done()
		all.Wait() // until all are there
		io.WriteString(w, r.URL.Path)
	}, nil)
	f := serve(t, modes.Direct, "/", []string{o.addr}, version2)
	var clients sync.WaitGroup
	for i := range many {
		clients.Go(func() {
			path := fmt.Sprint("/", i)
			if g := f.get(path); g.body != path {
				t.Errorf("%s: %d %q", path, g.status, g.body)
			}
		})
	}
	clients.Wait()
	if n := o.accepted.Load(); n != 1 {
		t.Error(n, " connections")
	}
}

// TestHTTP2Health: checks ask by HTTP/2, too.
func TestHTTP2Health(t *testing.T) {
	var status atomic.Int32
	var wrong atomic.Value
	status.Store(503)
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Proto != "HTTP/2.0" || r.RequestURI != "/up?x=1" ||
			r.Header.Get("User-Agent") != "lwango (health)" {
			wrong.Store(fmt.Sprint(r))
		}
		w.WriteHeader(int(status.Load()))
	}, nil)
	f, _ := checked(t, proxy.Register, []string{"h2c://" + o.addr}, nil)
	f.logged(t, 1, out)
	status.Store(200)
	f.logged(t, 1, back)
	if w := wrong.Load(); w != nil {
		t.Error(w)
	}
}

// TestHTTP2TLS: over TLS the version is agreed on by ALPN, and an upstream that does not agree
// cannot be reached.
func TestHTTP2TLS(t *testing.T) {
	for _, offered := range []bool{true, false} {
		var running sync.WaitGroup
		ln, err := tls.Listen("tcp", "127.0.0.1:0", modes.ServerTLS())
		if err != nil {
			t.Fatal(err)
		}
		if offered {
			c := modes.ServerTLS().Clone()
			c.NextProtos = []string{"h2"}
			ln.Close()
			if ln, err = tls.Listen("tcp", "127.0.0.1:0", c); err != nil {
				t.Fatal(err)
			}
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Proto)
			io.Copy(w, r.Body)
		}), ErrorLog: log.New(io.Discard, "", 0)}
		running.Go(func() { _ = s.Serve(ln) })
		f := serve(t, modes.Direct, "/", []string{"https://" + ln.Addr().String()},
			func(s *proxy.Settings) {
				version2(s)
				s.TLS.Insecure = true
			})
		want := 502
		if offered {
			want = 200
		}
		for range 3 {
			body := strings.Repeat("x", 200_000)
			g := f.ask("POST /", "Content-Length: 200000\r\n", body)
			if g.status != want || offered && g.body != "HTTP/2.0"+body {
				t.Errorf("%d, %d bytes, %v; log %s", g.status, len(g.body), g.err, f.log)
			}
		}
		if !offered && !strings.Contains(f.log.String(), "ALPN") {
			t.Error(f.log)
		}
		s.Close()
		running.Wait()
	}
}

// hello2 is what a script sends and reads before the first request.
func hello2(p *originConn) {
	_, _ = p.r.Discard(len(http2.Preface))
	_, _ = p.Write(http2.AppendHeader(nil, http2.SettingsFrame, 0, 0, 0))
}

// await2 returns the stream of the next frame of that type, 0 at the end of the connection.
func await2(p *originConn, want http2.Type) uint32 {
	for {
		var head [http2.FrameHeaderLen]byte
		if _, err := io.ReadFull(p.r, head[:]); err != nil {
			return 0
		}
		h := http2.ParseHeader(head[:])
		_, _ = p.r.Discard(int(h.Length))
		if h.Type == want {
			return h.Stream
		}
	}
}

// answer2 is the answer 200 without content.
func answer2(id uint32) []byte {
	return append(http2.AppendHeader(nil, http2.Headers, http2.EndHeaders|http2.EndStream, id, 1),
		0x88)
}

// TestHTTP2Refused: what the upstream has not acted on is sent again, whatever the method, as long
// as the body is there. It is not sent for ever.
func TestHTTP2Refused(t *testing.T) {
	for name, refuse := range map[string]func(p *originConn, id uint32){
		"goaway": func(p *originConn, id uint32) {
			_, _ = p.Write(http2.AppendGoAway(nil, id-1, http2.NoError, ""))
		},
		"reset": func(p *originConn, id uint32) {
			_, _ = p.Write(http2.AppendReset(nil, id, http2.RefusedStream))
		},
	} {
		for _, always := range []bool{false, true} {
			var refused atomic.Int32
			// It is connected to at once.
			o := startAt(t, "unix", t.TempDir()+"/s", func(p *originConn) {
				hello2(p)
				for id := await2(p, http2.Headers); id != 0; id = await2(p, http2.Headers) {
					if always || refused.Load() == 0 {
						refused.Add(1)
						refuse(p, id)
					} else {
						_, _ = p.Write(answer2(id))
					}
				}
			})
			for _, buffered := range []bool{true, false} {
				refused.Store(0)
				f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
					version2(s)
					s.RequestBuffering = buffered
				})
				g := f.ask("POST /", "Content-Length: 4\r\n", "body")
				want, times := 200, int32(1)
				switch {
				case !buffered:
					want = 502
				case always:
					want, times = 502, 2
				}
				if g.status != want || refused.Load() != times {
					t.Errorf("%s, always %t, buffered %t: %d, refused %d times; log %s", name, always, buffered,
						g.status, refused.Load(), f.log)
				}
			}
		}
	}
}

// TestHTTP2BothWays: body and answer move at once, with trailers both ways.
func TestHTTP2BothWays(t *testing.T) {
	modes.Run(t, testHTTP2BothWays, modes.Direct, modes.OverTLS, modes.HTTP2)
}

func testHTTP2BothWays(t *testing.T, m modes.Mode) {
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "T")
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		io.Copy(w, r.Body)
		w.Header().Set("T", r.Trailer.Get("T")+r.Trailer.Get("X-Forwarded-For")+r.Header.Get("Te"))
	}, nil)
	f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
		version2(s)
		s.RequestBuffering, s.ResponseBuffering = false, 64<<10
	})
	c := f.Dial()
	c.Send(
		"POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n")
	std, err := http.ReadResponse(c.R, nil) // before a byte of the body is sent
	if err != nil {
		t.Fatal(err, f.log)
	}
	const size, pieces = 50_000, 100
	go func() {
		piece := strings.Repeat("x", size)
		for range pieces {
			fmt.Fprintf(c, "%x\r\n%s\r\n", size, piece)
		}
		io.WriteString(c, "0\r\nX-Forwarded-For: 10.0.0.1\r\nT: end\r\n\r\n")
	}()
	body, err := io.ReadAll(std.Body)
	if err != nil || len(body) != size*pieces || std.Trailer.Get("T") != "endtrailers" {
		t.Error(len(body), err, std.Trailer, f.log)
	}
}

// TestHTTP2Chain: what an upstream of HTTP/1.1 says comes through a server of this kind that is
// asked by HTTP/2 as it was said, in all forms.
func TestHTTP2Chain(t *testing.T) { modes.Run(t, testHTTP2Chain, modes.Direct, modes.HTTP2) }

func testHTTP2Chain(t *testing.T, m modes.Mode) {
	for _, tt := range []struct{ method, answer, want string }{
		{"GET", hello, "200 hello [5] []"},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "200  [5] []"},
		{"GET", "HTTP/1.1 204 No Content\r\n\r\n", "204  [] []"},
		{"GET", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", "304  [] []"},
		{"POST", "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
			"404 abc [3] []"},
		{"GET",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n3\r\nabc\r\n0\r\nA: " +
				"b\r\n\r\n", "200 abc [] [b]"},
		{"GET", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + hello, "103 200 hello [5] []"},
		{"GET", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 50<<10) + "\r\nContent-Length: 1\r\n\r\nx",
			"200 x [1] []"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("x", 200_000),
			"200 cut"},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n30d40\r\n" +
			strings.Repeat("x", 200_000), "200 cut"},
	} {
		o := start(t, func(p *originConn) { p.request(); p.say("%s", tt.answer) })
		inner := serve(t, modes.HTTP2, "/", []string{o.addr}, nil)
		f := serve(t, m, "/", []string{"h2c://" + inner.Addr}, nil)
		c := f.Dial()
		c.Send(tt.method + " / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
		got := ""
		for {
			std, err := http.ReadResponse(c.R, &http.Request{Method: tt.method})
			if err != nil {
				got += err.Error()
				break
			}
			got += fmt.Sprint(std.StatusCode, " ")
			if std.StatusCode < 200 {
				continue
			}
			body, err := io.ReadAll(std.Body)
			if err != nil {
				got += "cut"
			} else {
				got += fmt.Sprint(string(body), " ", std.Header["Content-Length"], " ", std.Trailer["A"])
			}
			break
		}
		c.Close()
		if got != tt.want {
			t.Errorf("%s %.60q: %q, want %q; log %s", tt.method, tt.answer, got, tt.want, f.log)
		}
	}
}

// answersBare2 answers each request with a head and content in one write, and allocates nothing.
func answersBare2(p *originConn) {
	hello2(p)
	head := http2.AppendStatus(nil, 200)
	head = http2.AppendField(head, "server", "x")
	head = http2.AppendField(head, "content-type", "text/plain")
	head = http2.AppendLength(head, 13)
	out := append(http2.AppendHeader(nil, http2.Headers, http2.EndHeaders, 0, len(head)), head...)
	data := len(out)
	out = append(http2.AppendHeader(out, http2.Data, http2.EndStream, 0, 13), "Hello, world!"...)
	in := make([]byte, http2.FrameHeaderLen)
	for {
		if _, err := io.ReadFull(p.r, in); err != nil {
			return
		}
		h := http2.ParseHeader(in)
		_, _ = p.r.Discard(int(h.Length))
		if h.Type == http2.Headers {
			copy(out[5:], in[5:])
			copy(out[data+5:], in[5:])
			_, _ = p.Write(out)
		}
	}
}

// TestHTTP2Cost: what a request on a connection that is there allocates, and how often epoll is
// asked.
func TestHTTP2Cost(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled,
		"short reads and writes cost more, and so does the race detector")
	o := start(t, answersBare2)
	f := serve(t, modes.Direct, "/", []string{o.addr}, version2)
	var before, after loop.Stats
	if g := f.get("/"); g.body != "Hello, world!" {
		t.Fatal(g, f.log)
	}
	f.Settled("counted", func(l *loop.Loop) bool { before = l.Stats(); return true })
	allocs := f.Allocs(usual)
	f.Settled("counted", func(l *loop.Loop) bool { after = l.Stats(); return true })
	if ctls := after.Ctls - before.Ctls; allocs > 2 || ctls > 2 {
		t.Errorf("%v allocations for a request, %d calls of epoll_ctl for all", allocs, ctls)
	}
}

// BenchmarkHTTP2 is BenchmarkKept with an upstream of HTTP/2.
func BenchmarkHTTP2(b *testing.B) {
	o := start(b, answersBare2)
	f := serve(b, modes.Direct, "/", []string{o.addr}, version2)
	c := f.Dial()
	request, buf := []byte(usual), make([]byte, 4<<10)
	b.ReportAllocs()
	for b.Loop() {
		c.Write(request)
		if _, err := c.Conn.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// TestHTTP2TrailersOnly: an answer that is a head alone stays one for a client of HTTP/2, as
// clients of gRPC need it, also while the client's body has not ended.
func TestHTTP2TrailersOnly(t *testing.T) {
	o := start(t, func(p *originConn) {
		hello2(p)
		for id := await2(p, http2.Headers); id != 0; id = await2(p, http2.Headers) {
			head := http2.AppendField(http2.AppendStatus(nil, 200), "grpc-status", "5")
			_, _ = p.Write(http2.AppendBlock(nil, id, http2.EndStream, head, http2.DefaultFrameSize))
		}
	})
	for _, buffered := range []bool{true, false} {
		f := serve(t, modes.HTTP2, "/", []string{o.addr}, func(s *proxy.Settings) {
			version2(s)
			s.RequestBuffering = buffered
		})
		c := must.Get(net.Dial("tcp", f.Addr))(t)
		_ = c.SetDeadline(time.Now().Add(wait.Patience))
		head := http2.AppendRequest([]byte{http2.NoTable},
			[]byte("POST /a HTTP/1.1\r\nHost: b\r\nTE: trailers\r\n\r\n"), false)
		flags := uint8(0)
		if buffered {
			flags = http2.EndStream
		}
		_, _ = c.Write(http2.AppendBlock(
			http2.AppendHeader([]byte(http2.Preface), http2.SettingsFrame, 0, 0, 0),
			1, flags, head, http2.DefaultFrameSize))
		for {
			var in [http2.FrameHeaderLen]byte
			if _, err := io.ReadFull(c, in[:]); err != nil {
				t.Fatal(err, f.log)
			}
			h := http2.ParseHeader(in[:])
			payload := make([]byte, h.Length)
			_, _ = io.ReadFull(c, payload)
			if h.Type == http2.Headers {
				if h.Flags&http2.EndStream == 0 || !strings.Contains(string(payload), "grpc-status") {
					t.Errorf("buffered %t: %+v %q", buffered, h, payload)
				}
				break
			}
		}
		c.Close()
	}
}

// TestHTTP2Stop: a stop ends connections with their last requests, and at once those that have
// none.
func TestHTTP2Stop(t *testing.T) {
	begun, goOn := make(chan bool), make(chan bool)
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			begun <- true
			<-goOn
		}
		io.WriteString(w, "hello")
	}, nil)
	for _, held := range []bool{false, true} {
		f := serve(t, modes.Direct, "/", []string{o.addr}, version2)
		if g := f.get("/"); g.body != "hello" {
			t.Error(g)
		}
		answer, stopped := make(chan got, 1), make(chan bool)
		if held {
			go func() { answer <- f.get("/held") }()
			<-begun
		}
		go func() { f.Stop(2 * wait.Patience); close(stopped) }()
		if held {
			wait.Until(t, "the listener is closed", func() bool {
				c, err := net.Dial("tcp", f.Addr)
				if err == nil {
					c.Close()
				}
				return err != nil
			})
			goOn <- true
			if g := <-answer; g.body != "hello" {
				t.Error(g)
			}
		}
		<-stopped
	}
	wait.Until(t, "no connection is open", func() bool { return o.open.Load() == 0 })
}
