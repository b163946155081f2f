package proxy_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// layered is serve behind a cache.
func layered(t testing.TB, m modes.Mode, addresses []string, change func(*proxy.Settings)) *front {
	t.Helper()
	store := must.Get(cache.Open(cache.Options{Memory: 16 << 20}))(t)
	t.Cleanup(store.Close)
	f := serve(t, m, "/", addresses, change)
	layer := must.Get(cache.New(store, cache.Settings{}, handlers.Env{}))(t)
	f.handler = layer(f.handler)
	f.Server = module.Start(t, m, "/", f.handler)
	return f
}

const endStream = http2.EndStream

// head2 is the head of an answer that may be kept, without the end of the stream.
func head2(id uint32, more ...byte) []byte {
	block := append([]byte{0x88, 0, 13}, "cache-control"...)
	block = append(append(block, 10), "max-age=60"...)
	block = append(block, more...)
	return append(http2.AppendHeader(nil, http2.Headers, http2.EndHeaders, id, len(block)), block...)
}

func data2(flags uint8, id uint32, content string) []byte {
	return append(http2.AppendHeader(nil, http2.Data, flags, id, len(content)), content...)
}

// TestEnds: what the end of a connection says of an answer. One that was cut is never kept, and its
// client can tell, if anybody can. One of which nobody can tell goes on without a Content-Length,
// and is not kept.
func TestEnds(t *testing.T) {
	modes.Run(t, testEnds, modes.Direct, modes.HTTP2)
}

func testEnds(t *testing.T, m modes.Mode) {
	const (
		whole   = "whole"
		cut     = "cut"
		doubted = "doubted"
		unkept  = "unkept" // its client has all before the end is missed
	)
	http1 := func(head, body string) func(*originConn) {
		return func(p *originConn) {
			if p.request() != nil {
				p.say("%s\r\nCache-Control: max-age=60\r\n\r\n%s", head, body)
			}
		}
	}
	http2 := func(frames ...func(id uint32) []byte) func(*originConn) {
		return func(p *originConn) {
			hello2(p)
			id := await2(p, http2.Headers)
			if id == 0 {
				return
			}
			for _, f := range frames {
				_, _ = p.Write(f(id))
			}
			_ = p.Conn.(interface{ CloseWrite() error }).CloseWrite()
			await2(p, http2.PushPromise) // until the client has closed
		}
	}
	head := func(id uint32) []byte { return head2(id) }
	sized := func(id uint32) []byte {
		return head2(id, append([]byte("\x00\x0econtent-length\x02"), "10"...)...)
	}
	half := func(id uint32) []byte { return data2(0, id, "hello") }
	last := func(id uint32) []byte { return data2(endStream, id, "hello") }
	ca := certs.New(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.Issue(time.Hour, "app.test")},
		NextProtos: []string{"h2", "http/1.1"}}
	// secured has a script speak TLS, and end the connection with close_notify or without.
	secured := func(notify bool, script func(*originConn)) func(*originConn) {
		return func(p *originConn) {
			c := tls.Server(p.Conn, config)
			over := net.Conn(c)
			if !notify {
				over = &silent{c, p.Conn}
			}
			script(&originConn{over, bufio.NewReader(c), p.o})
			if notify {
				c.Close()
			}
		}
	}
	for name, tt := range map[string]struct {
		script func(*originConn)
		http2  bool
		tls    bool
		want   string
	}{
		"length": {script: http1("HTTP/1.1 200 OK\r\nContent-Length: 10", "hellohello"),
			want: whole},
		"short": {script: http1("HTTP/1.1 200 OK\r\nContent-Length: 10", "hello"),
			want: cut},
		"chunks": {script: http1("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
			"a\r\nhellohello\r\n0\r\n\r\n"), want: whole},
		"no last chunk": {script: http1("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
			"a\r\nhellohello\r\n"), want: cut},
		"1.0": {script: http1("HTTP/1.0 200 OK", "hellohello"), want: doubted},
		"close": {script: http1("HTTP/1.1 200 OK\r\nConnection: close", "hellohello"),
			want: doubted},
		"close, nothing": {script: http1("HTTP/1.1 200 OK\r\nConnection: close", ""),
			want: doubted},
		"close, long": {script: http1("HTTP/1.1 200 OK\r\nConnection: close",
			strings.Repeat("hello", 100_000)), want: doubted},
		"TLS, close_notify": {script: secured(true,
			http1("HTTP/1.1 200 OK\r\nConnection: close", "hellohello")), tls: true, want: doubted},
		"TLS, FIN": {script: secured(false,
			http1("HTTP/1.1 200 OK\r\nConnection: close", "hellohello")), tls: true, want: cut},
		"TLS, 1.0, FIN": {script: secured(false, http1("HTTP/1.0 200 OK", "hellohello")),
			tls: true, want: cut},
		"TLS, length, FIN": {script: secured(false,
			http1("HTTP/1.1 200 OK\r\nContent-Length: 10", "hellohello")), tls: true, want: whole},
		"HTTP/2":         {script: http2(head, half, last), http2: true, want: whole},
		"HTTP/2, head":   {script: http2(head), http2: true, want: cut},
		"HTTP/2, FIN":    {script: http2(head, half), http2: true, want: cut},
		"HTTP/2, half":   {script: http2(sized, half), http2: true, want: cut},
		"HTTP/2, no end": {script: http2(sized, half, half), http2: true, want: unkept},
		"HTTP/2, TLS": {script: secured(false, http2(head, half, last)), http2: true,
			tls: true, want: whole},
		"HTTP/2, TLS, FIN": {script: secured(false, http2(head, half)), http2: true, tls: true,
			want: cut},
		"HTTP/2, TLS, orderly": {script: secured(true, http2(head, half)), http2: true, tls: true,
			want: cut},
		"HTTP/2, TLS, half, FIN": {script: secured(false, http2(sized, half)), http2: true, tls: true,
			want: cut},
		"HTTP/2, TLS, half, said": {script: secured(true, http2(sized, half)), http2: true, tls: true,
			want: cut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := start(t, tt.script)
			change := func(s *proxy.Settings) {
				if tt.http2 {
					version2(s)
				}
				s.TLS.Insecure = tt.tls
				s.Retry = []string{}
			}
			address := o.addr
			if tt.tls {
				address = "https://" + address
			}
			plain, cached := serve(t, m, "/", []string{address}, change), layered(t, m, []string{address},
				change)
			for _, f := range []*front{plain, cached, cached} {
				asked := o.accepted.Load()
				g := f.get("/")
				got := whole
				switch {
				case g.err != nil, g.status == http.StatusBadGateway:
					got = cut
				case g.header.Get("Content-Length") == "":
					got = doubted
				}
				// The framing of an answer whose length was not said is the server's: it is in order.
				if got != tt.want && tt.want != unkept &&
					!(tt.want == whole && got == doubted && g.body == "hellohello") {
					t.Errorf("%s: %d %q %v %v", got, g.status, g.body[:min(len(g.body), 20)], g.header, g.err)
				}
				if tt.want == doubted && !strings.HasSuffix(g.body, "hello") && name != "close, nothing" {
					t.Errorf("%q", g.body)
				}
				if hit := strings.Contains(g.header.Get("Cache-Status"), "; hit"); hit && tt.want != whole ||
					!hit && (tt.want == whole || tt.want == doubted) && o.accepted.Load() == asked {
					t.Error("kept: ", g.header)
				}
			}
			if tt.want == cut && !strings.Contains(fmt.Sprint(plain.log, cached.log), "error=") {
				t.Error("nothing in the log")
			}
		})
	}
}

// silent ends a connection of TLS with a FIN alone.
type silent struct {
	*tls.Conn
	below net.Conn
}

func (b *silent) CloseWrite() error { return b.below.(*net.TCPConn).CloseWrite() }

func (b *silent) Close() error { return b.below.Close() }

// lines is an access log that keeps what its entries say of an answer.
type lines struct{ entries chan string }

func (l lines) LogRequest(_ *loop.Loop, e *conn.AccessEntry) bool {
	l.entries <- fmt.Sprintf("%d upstream %q first %t cache %v", e.Status, e.Upstream,
		e.UpstreamFirst > 0, e.Cache)
	return true
}

func (lines) HasRoom(*loop.Loop, conn.Share) bool { return true }

// TestBrokenOff: an upstream breaks off behind any part of its answer, at once or in pieces. As
// long as the client has no byte it gets 502, and the access log says what it has got, and from
// where.
func TestBrokenOff(t *testing.T) {
	modes.Run(t, testBrokenOff, modes.Direct, modes.HTTP2)
}

func testBrokenOff(t *testing.T, m modes.Mode) {
	const head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 100000\r\n\r\n"
	for name, pieces := range map[string][]string{
		"nothing":        {""},
		"half a head":    {head[:20]},
		"head":           {head},
		"body":           {head + "hello"},
		"head, body":     {head, "hello"},
		"much":           {head + strings.Repeat("x", 60_000)},
		"nothing, reset": {"", "reset"},
		"head, reset":    {head, "reset"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := start(t, func(p *originConn) {
				if p.request() == nil {
					return
				}
				for _, s := range pieces {
					if s == "reset" {
						p.reset()
						return
					}
					p.say("%s", s)
				}
			})
			change := func(s *proxy.Settings) { s.Retry = []string{} }
			for cached, f := range map[bool]*front{
				false: serve(t, m, "/", []string{o.addr}, change),
				true:  layered(t, m, []string{o.addr}, change),
			} {
				log := lines{make(chan string, 100)}
				f.Server = server.Start(t, m, conn.Config{Handler: f.handler, AccessLog: log})
				for range 30 {
					g := f.get("/")
					line := <-log.entries
					want := fmt.Sprintf("upstream %q", o.addr)
					use := fmt.Sprint("cache ", conn.CacheMiss)
					switch {
					case g.status == http.StatusBadGateway && g.err == nil && strings.HasPrefix(line, "502 "):
					case g.status == http.StatusOK && g.err != nil && strings.HasPrefix(line, "200 ") &&
						len(pieces[0]) > 50:
					default:
						t.Errorf("cached %t: %d, %d bytes, %v, log %s", cached, g.status, len(g.body), g.err, line)
					}
					if !strings.Contains(line, want) || cached && !strings.HasSuffix(line, use) {
						t.Errorf("cached %t: log %s", cached, line)
					}
				}
			}
		})
	}
}
