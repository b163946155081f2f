package stream_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestTLSOverStreams: client and server are two threads of one loop.
func TestTLSOverStreams(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		onLoop(t, func(t *testing.T, l *loop.Loop) {
			a, b := pair(t, l, "tcp")
			data := chacha(3 << 20)
			l.Go(func(*loop.Thread) {
				s := tls.Server(a, serverTLS())
				defer s.Close()
				if n, err := io.Copy(s, s); n != int64(len(data)) || err != nil {
					t.Errorf("server: %d bytes, %v", n, err)
				}
			})
			l.Go(func(th *loop.Thread) {
				c := tls.Client(b, &tls.Config{InsecureSkipVerify: true, MaxVersion: version})
				defer c.Close()
				must.Do(t, c.SetDeadline(time.Now().Add(20*time.Second)))
				must.Do(t, c.Handshake())
				// One thread owns both directions of a tls.Conn.
				for rest := data; len(rest) > 0; {
					n := min(len(rest), 40_000)
					_, err := c.Write(rest[:n])
					must.Do(t, err)
					got := make([]byte, n)
					if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, rest[:n]) {
						t.Errorf("got other than sent, %v", err)
						return
					}
					rest = rest[n:]
				}
				must.Do(t, c.CloseWrite())
				if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
					t.Errorf("the end: %q, %v", rest, err)
				}
			})
		})
	}
}

// TestTLSInTryMode: after ErrWouldBlock crypto/tls can be asked again and again, even in the middle
// of a record, and a deadline is not the end either. So a thread can wait for a message or for
// something else.
func TestTLSInTryMode(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		a, b := pair(t, l, "tcp")
		x, y := pair(t, l, "tcp") // x and y pass on a byte at a time
		for _, way := range [][2]*stream.Conn{{b, x}, {x, b}} {
			l.Go(func(th *loop.Thread) {
				buf := make([]byte, 1)
				for {
					if _, err := way[0].Read(buf); err != nil {
						_ = way[1].CloseWrite()
						return
					}
					_, _ = way[1].Write(buf)
					th.Yield()
				}
			})
		}
		l.Go(func(th *loop.Thread) {
			s := tls.Server(a, serverTLS())
			defer s.Close()
			must.Do(t, s.Handshake())
			a.SetNoWait(true)
			readable, tick := a.Readable(), th.After(0)
			got, waits, ticks := []byte(nil), 0, 0
			buf := make([]byte, 100)
			for {
				n, err := s.Read(buf)
				got = append(got, buf[:n]...)
				if errors.Is(err, stream.ErrWouldBlock) {
					i, err := th.AwaitAny(time.Minute, readable, tick)
					if err != nil {
						t.Error(err)
						return
					}
					if waits++; i == 1 {
						ticks++
						tick.Reset(time.Millisecond)
					}
					continue
				}
				if err != nil {
					if string(got) != strings.Repeat("message", 20) || err != io.EOF {
						t.Errorf("got %q, %v", got, err)
					}
					if waits < 20 || ticks == 0 {
						t.Errorf("waited %d times, %d of them for the timer", waits, ticks)
					}
					return
				}
			}
		})
		l.Go(func(th *loop.Thread) {
			c := tls.Client(y, &tls.Config{InsecureSkipVerify: true})
			must.Do(t, c.SetReadDeadline(time.Time{}))
			must.Do(t, c.Handshake())
			_ = c.SetReadDeadline(time.Now())
			if _, err := c.Read(make([]byte, 1)); !isTimeout(err) {
				t.Errorf("deadline: %v", err)
			}
			_ = c.SetReadDeadline(time.Time{})
			for range 20 {
				_, err := io.WriteString(c, "message")
				must.Do(t, err)
			}
			must.Do(t, c.CloseWrite())
			if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
				t.Errorf("the end: %q, %v", rest, err)
			}
			_ = c.Close()
			_ = x.Close()
			_ = b.Close()
		})
	})
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// TestHTTPOverStreams: a client of package net/http asks a server of package net/http, plain and
// over TLS.
func TestHTTPOverStreams(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})
	plainServer, tlsServer := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plainServer.Close()
	defer tlsServer.Close()
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		for _, server := range []*httptest.Server{plainServer, tlsServer} {
			l.Go(func(th *loop.Thread) {
				s, err := stream.Dial(th, 10*time.Second, "tcp", server.Listener.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				var c net.Conn = s
				if server.TLS != nil {
					c = tls.Client(s, &tls.Config{InsecureSkipVerify: true})
				}
				br := bufio.NewReader(c)
				for _, n := range []int{0, 10, 300_000} {
					body := chacha(n)
					req, err := http.NewRequest("POST", server.URL, bytes.NewReader(body))
					must.Do(t, err)
					must.Do(t, req.Write(c))
					resp, err := http.ReadResponse(br, req)
					if err != nil {
						t.Error(err)
						return
					}
					got, err := io.ReadAll(resp.Body)
					if resp.StatusCode != 200 || err != nil || !bytes.Equal(got, body) {
						t.Errorf("%s with %d bytes, %v", resp.Status, len(got), err)
					}
				}
			})
		}
	})
}

// TestServeHTTPOverStreams: an ordinary client sends requests to a handler that parses them with
// package net/http.
func TestServeHTTPOverStreams(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		addr := "127.0.0.1:0"
		loops.Start(t, m, quiet, func(l *loop.Loop) {
			srv, err := stream.StartServer(l, "tcp", addr, time.Minute, func(
				_ *loop.Thread, s *stream.Conn,
			) error {
				var c net.Conn = s
				if m.TLS {
					c = tls.Server(s, serverTLS())
				}
				for br := bufio.NewReader(c); ; {
					req, err := http.ReadRequest(br)
					if err != nil {
						return err
					}
					body, err := io.ReadAll(req.Body)
					if err != nil {
						return err
					}
					resp := http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1,
						ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}
					if err := resp.Write(c); err != nil {
						return err
					}
				}
			})
			must.Do(t, err)
			addr = srv.Addr().String()
		})
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer transport.CloseIdleConnections()
		scheme := map[bool]string{false: "http://", true: "https://"}[m.TLS]
		for _, n := range []int{0, 10, 300_000} {
			body := chacha(n)
			resp, err := (&http.Client{Transport: transport}).Post(
				scheme+addr, "", bytes.NewReader(body))
			must.Do(t, err)
			got, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != 200 || err != nil || !bytes.Equal(got, body) {
				t.Errorf("%s with %d bytes, %v", resp.Status, len(got), err)
			}
		}
	})
}
