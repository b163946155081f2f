package websocket_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestDialBesideEcho: many handshakes of TLS do not hold up the loop. Each of them waits, where
// the certificate is to be verified, until another connection of the loop has had its echo.
func TestDialBesideEcho(t *testing.T) {
	modes.Run(t, func(t *testing.T, m mode) {
		dials := 100
		if race.Enabled { // a handshake takes many times as long
			dials = 20
		}
		ends := make(chan error, dials+1)
		// The last one of them may get to its end long after it has begun.
		s := server.Start(t, m, conn.Config{Handler: styled(m, ending(&websocket.Upgrader{}, ends)),
			Limits: conn.Limits{HeaderTimeout: 2 * wait.Patience}})
		loops.Run(t, func(th *loop.Thread) {
			var echoes atomic.Int32
			insecure := websocket.Dialer{TLS: &tls.Config{InsecureSkipVerify: true}}
			c, _, err := insecure.Dial(th, wait.Patience, "wss://"+s.Addr)
			if err != nil {
				t.Error(err)
				return
			}
			echo := make(chan struct{}, dials)
			d := websocket.Dialer{TLS: &tls.Config{InsecureSkipVerify: true,
				VerifyConnection: func(tls.ConnectionState) error {
					at := echoes.Load()
					echo <- struct{}{}
					for start := time.Now(); echoes.Load() == at; time.Sleep(time.Millisecond) {
						if time.Since(start) > wait.Patience/4 {
							return errors.New("the loop does nothing else")
						}
					}
					return nil
				}}}
			for range dials {
				th.Go(func(th *loop.Thread) error {
					c, _, err := d.Dial(th, wait.Patience, "wss://"+s.Addr)
					if err != nil {
						t.Error(err)
						return nil
					}
					must.Do(t, c.WriteMessage(websocket.Text, []byte("hello")))
					if _, p, err := c.ReadMessage(); string(p) != "hello" {
						t.Errorf("%q, %v", p, err)
					}
					must.Do(t, c.Close(4000, ""))
					return nil
				})
			}
			asked := loop.FromChan(echo)
			for range dials {
				if _, err := th.AwaitAny(wait.Patience, asked); err != nil {
					t.Error(err)
					return
				}
				asked.Value()
				must.Do(t, c.WriteMessage(websocket.Text, []byte("beside")))
				if _, p, err := c.ReadMessage(); string(p) != "beside" {
					t.Errorf("%q, %v", p, err)
					return
				}
				echoes.Add(1)
			}
			must.Do(t, c.Close(4000, ""))
		})
		for range dials + 1 {
			if got := code(t, ends); got != 4000 {
				t.Errorf("ended with %d", got)
			}
		}
		s.Idle()
	}, overTLS)
}

// TestDialStalls: servers of TLS that do not let Dial come to an end, or not well. Dial gives up at
// its limit, whatever they have sent before.
func TestDialStalls(t *testing.T) {
	config := &tls.Config{Certificates: []tls.Certificate{certs.New(t).Issue(time.Hour, "127.0.0.1")}}
	secure := func(then func(end <-chan struct{})) func(c net.Conn, end <-chan struct{}) {
		return func(c net.Conn, end <-chan struct{}) {
			over := tls.Server(c, config)
			if over.Handshake() == nil {
				then(end)
			}
		}
	}
	for _, row := range []struct {
		name  string
		d     websocket.Dialer
		serve func(c net.Conn, end <-chan struct{})
		why   string // "": the limit
	}{
		{"silent", websocket.Dialer{},
			func(c net.Conn, _ <-chan struct{}) { _, _ = io.Copy(io.Discard, c) }, ""},
		{"half a hello", websocket.Dialer{}, func(c net.Conn, _ <-chan struct{}) {
			_, _ = io.WriteString(c, "\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03")
			_, _ = io.Copy(io.Discard, c)
		}, ""},
		{"a byte now and then", websocket.Dialer{}, func(c net.Conn, _ <-chan struct{}) {
			hello := "\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03" + strings.Repeat("\x00", 1<<14)
			for i := 0; i < len(hello); i++ {
				if _, err := io.WriteString(c, hello[i:i+1]); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}, ""},
		{"silent after the handshake", websocket.Dialer{}, func(c net.Conn, _ <-chan struct{}) {
			_, _ = io.Copy(io.Discard, tls.Server(c, config))
		}, ""},
		{"reads no request", websocket.Dialer{Header: http.Header{"X": {strings.Repeat("x", 8<<20)}}},
			secure(func(end <-chan struct{}) { <-end }), ""},
		{"leaves", websocket.Dialer{}, func(net.Conn, <-chan struct{}) {}, "tls handshake"},
		{"speaks no TLS", websocket.Dialer{}, func(c net.Conn, _ <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}, "first record does not look like a TLS handshake"},
		{"panics here", websocket.Dialer{TLS: &tls.Config{InsecureSkipVerify: true,
			VerifyConnection: func(tls.ConnectionState) error { panic("in vain") }}},
			secure(func(<-chan struct{}) {}), "in vain"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			served := make(chan struct{})
			end := make(chan struct{})
			go func() {
				defer close(served)
				c, err := ln.Accept()
				if err != nil {
					return
				}
				row.serve(c, end)
				c.Close()
			}()
			if row.d.TLS == nil {
				row.d.TLS = &tls.Config{InsecureSkipVerify: true}
			}
			loops.Run(t, func(th *loop.Thread) {
				limit := wait.Patience
				if row.why == "" {
					limit = 60 * time.Millisecond
				}
				start := time.Now()
				_, _, err := row.d.Dial(th, limit, "wss://"+ln.Addr().String())
				if took := time.Since(start); took > limit+4*time.Second { // 5 s are crypto/tls's for an alert
					t.Errorf("took %v", took)
				}
				if row.why == "" && !errors.Is(err, loop.ErrDeadlineExceeded) ||
					err == nil || !strings.Contains(err.Error(), row.why) {
					t.Errorf("%v, want %q", err, row.why)
				}
			})
			close(end)
			ln.Close()
			<-served
		})
	}
}
