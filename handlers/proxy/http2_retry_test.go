package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/wire/http2"
)

// TestHTTP2Cut: an upstream that closes each connection gets each request twice at most, though
// requests share the new connections, too.
func TestHTTP2Cut(t *testing.T) {
	const many = 10
	var connections, all atomic.Int32
	o := startAt(t, "tcp", "127.0.0.1:0", func(p *originConn) {
		hello2(p)
		left := many
		switch connections.Add(1) {
		case 1: // one is answered, so that the connection is a kept one
			_, _ = p.Write(answer2(await2(p, http2.Headers)))
		case 2:
		default:
			left = 1
		}
		for range left {
			if await2(p, http2.Headers) == 0 {
				return
			}
			all.Add(1)
		}
	})
	f := serve(t, modes.Direct, "/", []string{o.addr}, version2)
	if g := f.get("/"); g.status != 200 {
		t.Error(g)
	}
	var clients sync.WaitGroup
	for i := range many {
		clients.Go(func() {
			if g := f.get(fmt.Sprint("/", i)); g.status != 502 {
				t.Error(g)
			}
		})
	}
	clients.Wait()
	if c, n := connections.Load(), all.Load(); c > 2 || n > 2*many {
		t.Errorf("%d connections, %d requests", c, n)
	}
}

// TestHTTP2RefusedLate: an answer that has begun is not taken for none.
func TestHTTP2RefusedLate(t *testing.T) {
	var asked atomic.Int32
	o := startAt(t, "unix", t.TempDir()+"/s", func(p *originConn) {
		hello2(p)
		for id := await2(p, http2.Headers); id != 0; id = await2(p, http2.Headers) {
			asked.Add(1)
			_, _ = p.Write(append(http2.AppendHeader(nil, http2.Headers, http2.EndHeaders, id, 1), 0x88))
			_, _ = io.WriteString(p, string(http2.AppendHeader(nil, http2.Data, 0, id, 5))+"hello")
			_, _ = p.Write(http2.AppendReset(nil, id, http2.RefusedStream))
		}
	})
	f := serve(t, modes.Direct, "/", []string{o.addr}, version2)
	if g := f.get("/"); asked.Load() != 1 || g.err == nil && g.status == 200 {
		t.Error(asked.Load(), g)
	}
}

// TestHTTP2Burst: the first requests of all wait until the upstream has said how many it takes.
func TestHTTP2Burst(t *testing.T) {
	const many, each = 24, 4
	var there sync.WaitGroup
	there.Add(many)
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		there.Done()
		there.Wait() // until all are there
		io.WriteString(w, "hello")
	}, func(s *http.Server) { s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: each} })
	f := serve(t, modes.Direct, "/", []string{o.addr}, version2)
	var clients sync.WaitGroup
	for i := range many {
		clients.Go(func() {
			if g := f.get(fmt.Sprint("/", i)); g.body != "hello" {
				there.Done()
				t.Error(g, f.log)
			}
		})
	}
	clients.Wait()
	if n := o.accepted.Load(); n != many/each {
		t.Error(n, " connections")
	}
}

// TestHTTP2NoStreams: an upstream that takes no request at all, or speaks no HTTP/2, is not asked
// for ever.
func TestHTTP2NoStreams(t *testing.T) {
	none := http2.AppendHeader(nil, http2.SettingsFrame, 0, 0, 6)
	none = http2.AppendSetting(none, http2.MaxConcurrentStreams, 0)
	for says, want := range map[string]string{
		string(none):                       "takes no request",
		"HTTP/1.1 400 Bad Request\r\n\r\n": "does not speak HTTP/2",
		"":                                 "has closed the connection",
	} {
		var refused atomic.Int32
		o := startAt(t, "tcp", "127.0.0.1:0", func(p *originConn) {
			refused.Add(1)
			_, _ = p.r.Discard(len(http2.Preface))
			_, _ = io.WriteString(p, says)
			if says != "" {
				_, _ = io.Copy(io.Discard, p.r)
			}
		})
		f := serve(t, modes.Direct, "/", []string{o.addr}, version2)
		g, log := f.get("/"), f.log.String()
		said := strings.Contains(log, want)
		if says == "" { // what is written after that fails, before or after the end is seen
			said = said || strings.Contains(log, "broken pipe") || strings.Contains(log, "reset by peer")
		}
		if g.status != 502 || refused.Load() != 1 || !said {
			t.Error(want, g.status, refused.Load(), log)
		}
	}
}

// TestHTTP2LongUpload: the frames with which net/http's server takes a long upload, in small
// pieces, are no flood.
func TestHTTP2LongUpload(t *testing.T) {
	const size = 20 << 20
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		n, buf := 0, make([]byte, 4<<10)
		for {
			more, err := r.Body.Read(buf)
			if n += more; err != nil {
				break
			}
		}
		fmt.Fprint(w, n)
	}, nil)
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
		version2(s)
		s.RequestBuffering = false
	})
	g := f.ask("PUT /", fmt.Sprint("Content-Length: ", size, "\r\n"), strings.Repeat("x", size))
	if g.body != fmt.Sprint(size) {
		t.Error(g, f.log)
	}
}

// fails2 are fails by HTTP/2.
var fails2 = map[string]func(*originConn){
	"cut":     func(p *originConn) { hello2(p); await2(p, http2.Headers) },
	"timeout": func(p *originConn) { hello2(p); await2(p, http2.Headers); p.drain() },
	"404":     status2(404),
	"500":     status2(500),
	"502":     status2(502),
	"503":     status2(503),
	"504":     status2(504),
}

// status2 answers each request with that status alone.
func status2(status int) func(*originConn) {
	return func(p *originConn) {
		hello2(p)
		for id := await2(p, http2.Headers); id != 0; id = await2(p, http2.Headers) {
			_, _ = p.Write(http2.AppendBlock(nil, id, http2.EndStream, http2.AppendStatus(nil, status),
				http2.DefaultFrameSize))
		}
	}
}

// bare2 is bare by HTTP/2, for requests that end with their first frame of content, if they have
// any.
func bare2(p *originConn) {
	hello2(p)
	var in [http2.FrameHeaderLen]byte
	for _, err := io.ReadFull(p.r, in[:]); err == nil; _, err = io.ReadFull(p.r, in[:]) {
		h := http2.ParseHeader(in[:])
		payload := make([]byte, h.Length)
		_, _ = io.ReadFull(p.r, payload)
		if h.Flags&http2.EndStream == 0 || h.Type != http2.Headers && h.Type != http2.Data {
			continue
		}
		body := "hello"
		if h.Type == http2.Data {
			body += string(payload)
		}
		out := http2.AppendBlock(nil, h.Stream, 0, http2.AppendStatus(nil, 200), http2.DefaultFrameSize)
		_, _ = p.Write(append(http2.AppendHeader(out, http2.Data, http2.EndStream, h.Stream, len(body)),
			body...))
	}
}
