package conn_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/stream"
)

// within fails the test if what began then did not end after at least least and well before a
// minute. The loop counts from the beginning of its turn, which is a little earlier than what the
// client saw.
func within(t *testing.T, what string, began time.Time, least time.Duration) {
	t.Helper()
	if d := time.Since(began); d < least-10*time.Millisecond || d > 8*time.Second {
		t.Errorf("%s after %v, want %v", what, d, least)
	}
}

// drip sends raw byte by byte until a write fails or raw is used up.
func drip(c net.Conn, raw string, every time.Duration) {
	for i := range len(raw) {
		if _, err := io.WriteString(c, raw[i:i+1]); err != nil {
			return
		}
		time.Sleep(every)
	}
}

// dialPatiently returns a connection for which limit begins with its next byte. A client of a busy
// machine may take longer than that to connect and to shake hands.
func dialPatiently(s *site, limit time.Duration) *client {
	s.T.Helper()
	cfg := conn.Config{Handler: hello, Logger: logtext.Quiet,
		Limits: conn.Limits{HeaderTimeout: wait.Patience, KeepAliveTimeout: wait.Patience}}
	s.Configure(cfg)
	c := s.Dial()
	if tc, ok := c.Conn.(*tls.Conn); ok {
		must.Do(s.T, tc.Handshake())
	}
	s.Settle()
	cfg.HeaderTimeout = limit
	s.Configure(cfg)
	return c
}

func TestSlowHead(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{})
		for _, before := range []string{"", get} {
			c := dialPatiently(s, limit)
			if before != "" {
				c.Do("GET", before)
			}
			for range 3 { // it is never idle for long
				send(t, c, "GET /a")
				s.Skip(limit * 3 / 10)
			}
			send(t, c, "a")
			s.Settle()
			if n := s.Active(); n != 1 {
				t.Errorf("%d connections before the limit", n)
			}
			s.Skip(limit * 2 / 10)
			if a := c.Answer("GET"); a.StatusCode != 408 || !a.Close {
				t.Errorf("%v", a.Response)
			}
			c.Ends()
			c.Close()
			s.Idle()
		}
		// With a body's first bytes in the same segment the head was complete, and the limit is not
		// the body's.
		c := dialPatiently(s, limit)
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1")
		s.Skip(limit * 3 / 2)
		c.Do("POST", "2")
	}, plain, direct, overTLS)
}

// dripping is a net.Conn whose writes, once it was told so, go out byte by byte.
type dripping struct {
	net.Conn
	every time.Duration
}

func (d *dripping) Write(p []byte) (int, error) {
	if d.every == 0 {
		return d.Conn.Write(p)
	}
	drip(d.Conn, string(p), d.every)
	return len(p), nil
}

// TestSlowRecords: a TLS record that drips in gives no plaintext for a long time, and is a slow
// head or body all the same, and not an idle client.
func TestSlowRecords(t *testing.T) {
	defer conn.SetGraceOfRate(60 * time.Millisecond)()
	const limit = 600 * time.Millisecond
	run(t, func(t *testing.T, m mode) {
		for what, cfg := range map[string]conn.Config{
			"head": {Limits: conn.Limits{HeaderTimeout: wait.Patience, KeepAliveTimeout: wait.Patience},
				Handler: hello},
			"body": {Limits: conn.Limits{MinRate: 1 << 30}, Handler: echoes["/collect"]},
		} {
			s := start(t, m, cfg)
			raw := must.Get(net.Dial("tcp", s.Addr))(t)
			slow := &dripping{Conn: raw}
			c := tls.Client(slow, &tls.Config{InsecureSkipVerify: true})
			_ = c.SetDeadline(time.Now().Add(wait.Patience))
			must.Do(t, c.Handshake())
			began := time.Now()
			if what == "body" {
				send(t, c, post+"Content-Length: 1000\r\n\r\n")
			} else { // not before: a handshake may take longer on a busy machine
				s.Settle()
				cfg.HeaderTimeout, cfg.Logger = limit, logtext.Quiet
				s.Configure(cfg)
			}
			written := make(chan struct{})
			go func() {
				slow.every = limit / 30
				_, _ = io.WriteString(c, strings.Repeat("a", 1000))
				close(written)
			}()
			if a := parse(t, rest(t, c), "POST")[0]; a.StatusCode != 408 {
				t.Errorf("%s: %s", what, a.Status)
			}
			within(t, "slow "+what, began, 60*time.Millisecond)
			raw.Close()
			<-written
			s.Idle()
		}
	}, overTLS)
}

func TestSilentClientsAreClosedSilently(t *testing.T) {
	t.Parallel()
	const limit, never = 3 * wait.Patience, 1000 * time.Hour
	run(t, func(t *testing.T, m mode) {
		skip := func(s *site) {
			t.Helper()
			wait.Until(t, "closed", func() bool {
				s.Skip(limit) // once more if the client's kernel has not acknowledged all of an answer
				return s.Active() == 0
			})
		}
		s := start(t, m,
			conn.Config{Handler: hello, Limits: conn.Limits{HeaderTimeout: limit, KeepAliveTimeout: never}})
		c := s.Dial()
		if m.TLS { // not even a handshake
			c.Close()
			s.Idle()
			raw := must.Dial(t, "tcp", s.Addr)
			send(t, raw, "\x16\x03\x01")
			// A handshake waits for its slot and for a goroutine before it reads, and unread bytes would
			// make the close a reset.
			wait.Until(t, "the bytes are read", func() bool { return !unread(t, raw) })
			skip(s)
			if got := rest(t, raw); got != "" {
				t.Errorf("%q", got)
			}
		} else {
			skip(s)
			c.Ends()
		}

		s = start(t, m,
			conn.Config{Handler: hello, Limits: conn.Limits{HeaderTimeout: never, KeepAliveTimeout: limit}})
		c = s.Dial()
		c.Do("GET", get)
		skip(s)
		if _, err := c.R.ReadByte(); err != io.EOF &&
			!(m.TLS && errors.Is(err, io.ErrUnexpectedEOF)) {
			t.Errorf("idle connection: %v", err)
		}
	}, plain, direct, overTLS)
}

// unread reports whether the other end of c, on this machine, may have bytes that nobody has read
// (proc_net_tcp(5)).
func unread(t *testing.T, c net.Conn) bool {
	t.Helper()
	port := func(a net.Addr) string { return fmt.Sprintf(":%04X", a.(*net.TCPAddr).Port) }
	for line := range strings.Lines(must.Read(t, "/proc/net/tcp")) {
		f := strings.Fields(line) // number, local, remote, state, tx_queue:rx_queue
		if strings.HasSuffix(f[1], port(c.RemoteAddr())) && strings.HasSuffix(f[2], port(c.LocalAddr())) {
			return !strings.HasSuffix(f[4], ":00000000")
		}
	}
	return true // it is not listed yet
}

func TestSlowPeersAreHeldToTheRate(t *testing.T) {
	defer conn.SetGraceOfRate(60 * time.Millisecond)()
	atOnce(t, func(t *testing.T, m mode) {
		got := make(chan error, 1)
		s := start(t, m,
			conn.Config{Limits: conn.Limits{MinRate: 1 << 30}, Handler: byPath(map[string]conn.Handler{
				"/read": func(req *conn.Request, w *conn.Response) int {
					_, err := io.Copy(io.Discard, req.Body())
					got <- err
					return 200
				},
				"/write": func(req *conn.Request, w *conn.Response) int {
					for {
						if _, err := w.Write(noise()); err != nil {
							got <- err
							return 200
						}
					}
				},
			})})
		for _, framing := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
			c := s.Dial()
			began := time.Now()
			send(t, c, "POST /read HTTP/1.1\r\nHost: a\r\n"+framing+"\r\n\r\n")
			// in the second case an extension of a chunk
			go drip(c.Conn, "400;"+strings.Repeat("a", 900), 2*time.Millisecond)
			if a := c.Answer("POST"); a.StatusCode != 408 {
				t.Errorf("%s: %s", framing, a.Status)
			}
			if err := <-got; !errors.Is(err, conn.ErrBodyTimeout) {
				t.Errorf("%s: %v", framing, err)
			}
			within(t, "slow body", began, 60*time.Millisecond)
			c.Close()
		}
		c := s.DialSmall()
		began := time.Now()
		send(t, c, "GET /write HTTP/1.1\r\nHost: a\r\n\r\n")
		for buf := make([]byte, 4096); ; time.Sleep(time.Millisecond) {
			if _, err := c.Conn.Read(buf); err != nil {
				break
			}
		}
		if err := <-got; err == nil {
			t.Error("slow reader: no error")
		}
		within(t, "slow reader", began, 60*time.Millisecond)
		c.Close()
		s.Idle()
	}, plain, direct, overTLS)
}

// TestBurstIsNoCredit: a client that has sent a lot at first, and then next to nothing, is held to
// the rate soon.
func TestBurstIsNoCredit(t *testing.T) {
	const half = 150 * time.Millisecond
	defer conn.SetGraceOfRate(100 * time.Millisecond)()
	defer conn.SetRateWindow(2 * half)()
	atOnce(t, func(t *testing.T, m mode) {
		const rate = 20_000 // by the average over the whole, a megabyte would be good for 50 s
		over := make(chan error, 1)
		s := start(t, m,
			conn.Config{Limits: conn.Limits{MinRate: rate}, Handler: byPath(map[string]conn.Handler{
				"/read": func(req *conn.Request, w *conn.Response) int {
					_, err := io.Copy(io.Discard, req.Body())
					over <- err
					return 200
				},
				"/duplex": func(req *conn.Request, w *conn.Response) int {
					d := req.Layer().Duplex()
					buf := make([]byte, 32<<10)
					for {
						if _, err := req.Body().Read(buf); errors.Is(err, stream.ErrWouldBlock) {
							if err := d.Await(-1, true); err != nil {
								t.Error(err)
							}
						} else if err != nil {
							over <- err
							return 200
						}
					}
				},
			})})
		burst := string(make([]byte, 1<<20))
		for _, path := range []string{"/read", "/duplex"} {
			c := s.Dial()
			send(t, c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n"+
				burst)
			began := time.Now()
			go drip(c.Conn, burst, 2*time.Millisecond)
			if err := <-over; !errors.Is(err, conn.ErrBodyTimeout) {
				t.Errorf("%s: %v", path, err)
			}
			within(t, path+": slow after a burst", began, 100*time.Millisecond)
			c.Close()
		}

		// One that keeps the rate goes on.
		for paused := true; paused; {
			c := s.Dial()
			const piece, pieces = 200_000, 50
			send(t, c, fmt.Sprintf("POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s",
				piece*(1+pieces), burst[:piece]))
			paused = false
			for range pieces {
				began := time.Now()
				time.Sleep(10 * time.Millisecond)
				_, err := io.WriteString(c, burst[:piece])
				// On a busy machine it may not keep the rate.
				if paused = paused || time.Since(began) > half/2; err != nil {
					break
				}
			}
			err := <-over
			if paused = paused && err != nil; err != nil && !paused {
				t.Errorf("20 megabytes a second: %v", err)
			}
			c.Close()
		}
	}, plain, direct, overTLS)
}
