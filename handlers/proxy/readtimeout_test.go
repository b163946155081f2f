package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http2"
)

// nearly is less than read_timeout, and more than body_timeout.
const nearly = 50 * time.Second

func unbuffered(s *proxy.Settings) {
	s.RequestBuffering, s.ResponseBuffering = false, 0
	s.IdleTimeout = time.Hour // the clock is put forward
}

// TestTwoWay: once an upstream has begun its answer, a client that says nothing is no fault, as
// long as the upstream speaks. When both say nothing, read_timeout ends the request, and the log
// says so.
func TestTwoWay(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		ticks := make(chan bool)
		t.Run("HTTP/1.1", func(t *testing.T) {
			o := start(t, func(p *originConn) {
				p.head()
				p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
				go func() { // it takes what the client says
					_, _ = io.Copy(io.Discard, p.r)
					p.Close()
				}()
				for range ticks {
					p.say("1\r\nx\r\n")
				}
			})
			testTwoWay(t, m, o.addr, ticks, unbuffered)
		})
		ticks = make(chan bool)
		t.Run("HTTP/2", func(t *testing.T) {
			o := start2(t, func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				go io.Copy(io.Discard, r.Body)
				for range ticks {
					_, _ = io.WriteString(w, "x")
					_ = http.NewResponseController(w).Flush()
				}
			}, nil)
			testTwoWay(t, m, o.addr, ticks, func(s *proxy.Settings) {
				version2(s)
				unbuffered(s)
			})
		})
	})
}

func testTwoWay(t *testing.T, m modes.Mode, addr string, ticks chan bool,
	change func(*proxy.Settings)) {
	f := serve(t, m, "/", []string{addr}, change)
	defer close(ticks)
	c := f.Dial()
	defer c.Close()
	c.Send("POST /talk HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	answer := must.Get(http.ReadResponse(bufio.NewReader(c.Conn), nil))(t)
	said := func() error {
		ticks <- true
		_, err := io.ReadFull(answer.Body, make([]byte, 1))
		return err
	}
	for i := range 4 {
		if i > 0 {
			f.Skip(nearly)
		}
		if err := said(); err != nil {
			t.Fatalf("after %v: %v %s%s", time.Duration(i)*nearly, err, f.log, f.Log)
		}
	}
	f.Skip(nearly + 20*time.Second)
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("a whole answer")
	}
	if log := f.log.String(); !strings.Contains(log, "read_timeout (1m0s)") {
		t.Error(log)
	}
}

// frames2 is a client of HTTP/2 that sends what it likes.
type frames2 struct {
	net.Conn
	t *testing.T
}

// until waits for a frame of one of two types.
func (c frames2) until(a, b http2.Type) http2.Type {
	c.t.Helper()
	for {
		var head [http2.FrameHeaderLen]byte
		must.Get(io.ReadFull(c, head[:]))(c.t)
		h := http2.ParseHeader(head[:])
		must.Get(io.CopyN(io.Discard, c, int64(h.Length)))(c.t)
		if h.Type == a || h.Type == b {
			return h.Type
		}
	}
}

func ping(ack uint8) []byte {
	return append(http2.AppendHeader(nil, http2.Ping, ack, 0, 8), "12345678"...)
}

// TestTwoWayPings: keep-alive pings are traffic, whether the client sends them or the upstream.
func TestTwoWayPings(t *testing.T) {
	for _, by := range []string{"client", "upstream"} {
		t.Run(by, func(t *testing.T) {
			do := make(chan []byte) // what the upstream writes
			saw := make(chan bool)  // it has seen an answer to its ping, or has answered one
			defer close(do)
			script := func(p *originConn) { // HTTP/1.1 has no pings, so none come from the upstream
				p.head()
				p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
				for b := range do {
					_, _ = p.Write(b)
				}
			}
			data := []byte("1\r\nx\r\n")
			if by == "upstream" {
				script = func(p *originConn) {
					hello2(p)
					id := await2(p, http2.Headers)
					_, _ = p.Write(head2(id))
					go func() {
						for {
							var head [http2.FrameHeaderLen]byte
							if _, err := io.ReadFull(p.r, head[:]); err != nil {
								return
							}
							h := http2.ParseHeader(head[:])
							_, _ = p.r.Discard(int(h.Length))
							if h.Type != http2.Ping {
								continue
							}
							if h.Flags&http2.Ack == 0 {
								_, _ = p.Write(append(http2.AppendHeader(nil, http2.Ping, http2.Ack, 0, 8),
									"lwango\x00c"...))
							}
							saw <- true
						}
					}()
					for b := range do {
						_, _ = p.Write(b)
					}
				}
				data = data2(0, 1, "x")
			}
			o := start(t, script)
			f := serve(t, modes.HTTP2, "/", []string{o.addr}, func(s *proxy.Settings) {
				if by == "upstream" {
					version2(s)
				}
				unbuffered(s)
			})
			c := frames2{must.Dial(t, "tcp", f.Addr), t}
			var block []byte
			for _, text := range []string{":method", "POST", ":scheme", "http", ":path", "/", ":authority",
				"a"} {
				if strings.HasPrefix(text, ":") {
					block = append(block, 0)
				}
				block = append(append(block, byte(len(text))), text...)
			}
			must.Get(fmt.Fprintf(c, "%s%s%s%s", http2.Preface,
				http2.AppendHeader(nil, http2.SettingsFrame, 0, 0, 0),
				http2.AppendHeader(nil, http2.Headers, http2.EndHeaders, 1, len(block)), block))(t)
			if c.until(http2.Headers, http2.RSTStream) != http2.Headers {
				t.Fatal("reset")
			}
			for i := range 3 {
				f.Skip(nearly)
				if by == "client" {
					must.Get(c.Write(ping(0)))(t)
					if c.until(http2.Ping, http2.RSTStream) != http2.Ping {
						t.Fatal("reset ", f.log, f.Log)
					}
					continue
				}
				if i == 0 {
					<-saw // the server asks whether the upstream is there
				}
				do <- ping(0)
				<-saw
			}
			do <- data
			if c.until(http2.Data, http2.RSTStream) != http2.Data {
				t.Fatal("reset ", f.log, f.Log)
			}
		})
	}
}
