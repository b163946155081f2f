package conn_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// pieces is a net.Conn that keeps what is written while it holds, for Next to send in pieces.
type pieces struct {
	net.Conn
	holds bool
	held  bytes.Buffer
}

func (p *pieces) Write(b []byte) (int, error) {
	if p.holds {
		return p.held.Write(b)
	}
	return p.Conn.Write(b)
}

// Next sends the next n bytes of what was held, and reports whether there were any.
func (p *pieces) Next(n int) bool {
	b := p.held.Next(n)
	if len(b) > 0 {
		_, _ = p.Conn.Write(b)
	}
	return len(b) > 0
}

// dialPieces is dial2 in plain text or over TLS, whose connection can send in pieces.
func dialPieces(t *testing.T, s *site) (*raw2, *pieces) {
	p := &pieces{Conn: must.Dial(t, "tcp", s.Addr)}
	r := &raw2{t: t, Conn: p, out: []byte(http2.Preface)}
	if s.Mode.TLS {
		c := tls.Client(p, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		must.Do(t, c.Handshake())
		r.Conn = c
	}
	r.frame(http2.SettingsFrame, 0, 0, "")
	return r, p
}

// TestHTTP2FrameByteByByte: a frame, or a record of TLS, that comes byte by byte has header_timeout
// in all, unless requests are under way; and its connection gives way to a newcomer.
func TestHTTP2FrameByteByByte(t *testing.T) {
	t.Parallel()
	run2(t, func(t *testing.T, m mode) {
		s := start(t, m,
			conn.Config{Handler: hello,
				Limits: conn.Limits{HeaderTimeout: 10 * time.Second, KeepAliveTimeout: time.Minute,
					MaxConnections: 2}})
		r, p := dialPieces(t, s)
		if got := get1(r, m).until(http2.Headers); got != "HEADERS 1 200" {
			t.Fatal(got)
		}
		p.holds = true
		r.frame(http2.Ping, 0, 0, "12345678").flush()
		for range 4 {
			p.Next(1)
			s.Settle()
			s.Skip(4 * time.Second)
		}
		s.Settled("the connection has ended", func(*loop.Loop) bool { return s.Active() == 0 })

		for range 2 {
			r, p := dialPieces(t, s)
			if got := get1(r, m).until(http2.Headers); got != "HEADERS 1 200" {
				t.Fatal(got)
			}
			p.holds = true
			r.frame(http2.Ping, 0, 0, "12345678").flush()
			for range 2 {
				p.Next(1)
				s.Settle()
			}
		}
		r, _ = dialPieces(t, s)
		if got := get1(r, m).until(http2.Headers); got != "HEADERS 1 200" {
			t.Errorf("a newcomer gets %s", got)
		}
	})
}

// TestHTTP2SlowFrame: content that comes steadily is not cut, however long a frame takes.
func TestHTTP2SlowFrame(t *testing.T) {
	t.Parallel()
	const silence = wait.Patience
	run2(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Limits: conn.Limits{BodyTimeout: silence, MinRate: -1},
			Handler: func(req *conn.Request, w *conn.Response) int {
				n, err := io.Copy(io.Discard, req.Body())
				if n != 16<<10 || err != nil {
					return 400
				}
				return 200
			}})
		r, p := dialPieces(t, s)
		r.head(1, 0, ":method", "POST", ":scheme", scheme(m), ":path", "/", ":authority", "a").flush()
		p.holds = true
		r.frame(http2.Data, http2.EndStream, 1, strings.Repeat("x", 16<<10)).flush()
		for p.Next(600) {
			s.Settle()
			s.Skip(silence / 4)
		}
		if got := r.until(http2.Headers, http2.RSTStream, http2.GoAway); got != "HEADERS 1 200" {
			t.Error(got)
		}
	})
}

func scheme(m mode) string {
	if m.TLS {
		return "https"
	}
	return "http"
}

func get1(r *raw2, m mode) *raw2 {
	return r.head(1, http2.EndStream, ":method", "GET", ":scheme", scheme(m), ":path", "/",
		":authority", "a").flush()
}
