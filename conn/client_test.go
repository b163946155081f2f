package conn_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// settle returns when the loops have acted on everything that had reached their sockets before the call: a first
// turn may have been past its events already, a second one is not.
func (s *site) settle() {
	s.t.Helper()
	for range 2 {
		for _, l := range s.loops {
			done := make(chan struct{})
			if err := l.Post(func() { close(done) }); err != nil {
				s.t.Fatal(err)
			}
			<-done
		}
	}
}

// settled waits until cond, called on the first loop, is true.
func (s *site) settled(what string, cond func(l *loop.Loop) bool) {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		ok := false
		s.on(func(l *loop.Loop) { ok = cond(l) })
		if ok {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// idle waits until no connection is left.
func (s *site) idle() {
	s.t.Helper()
	s.settle() // until then, some may not have been accepted
	s.settled("no connection left", func(*loop.Loop) bool { return s.server.Active() == 0 })
}

// send writes raw and fails the test if it cannot.
func send(t testing.TB, w io.Writer, raw string) {
	t.Helper()
	if _, err := io.WriteString(w, raw); err != nil {
		t.Fatalf("write: %v", err)
	}
}

// rest reads to the end, which must be an orderly one.
func rest(t testing.TB, r io.Reader) string {
	t.Helper()
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("after %q: %v", clip(string(got)), err)
	}
	return string(got)
}

// parse takes raw for nothing but the responses to requests of these methods.
func parse(t testing.TB, raw string, methods ...string) []answer {
	t.Helper()
	r := bufio.NewReader(strings.NewReader(raw))
	all := answers(t, r, methods...)
	if left, _ := io.ReadAll(r); len(left) > 0 {
		t.Fatalf("after %d answers there is still %q", len(all), clip(string(left)))
	}
	return all
}

// client is a connection that keeps what it has buffered from one answer to the next.
type client struct {
	net.Conn
	t  testing.TB
	br *bufio.Reader
}

func (s *site) client() *client {
	s.t.Helper()
	c := s.dial()
	return &client{c, s.t, bufio.NewReader(c)}
}

// do sends raw and reads one answer to a request of that method.
func (c *client) do(method, raw string) answer {
	c.t.Helper()
	send(c.t, c, raw)
	return c.answer(method)
}

func (c *client) answer(method string) answer {
	c.t.Helper()
	return answers(c.t, c.br, method)[0]
}

// ends reads the connection's orderly end.
func (c *client) ends() {
	c.t.Helper()
	if got := rest(c.t, c.br); got != "" {
		c.t.Fatalf("instead of the end: %q", clip(got))
	}
}

// closeWrite ends the sending half, of plain and TLS connections alike.
func (c *client) closeWrite() {
	c.t.Helper()
	if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
}

// tcp is the connection below TLS, if there is that.
func (c *client) tcp() *net.TCPConn {
	if tls, ok := c.Conn.(*tls.Conn); ok {
		return tls.NetConn().(*net.TCPConn)
	}
	return c.Conn.(*net.TCPConn)
}

// reset closes the connection with a RST.
func (c *client) reset() {
	c.t.Helper()
	tcp := c.tcp()
	if err := tcp.SetLinger(0); err != nil {
		c.t.Fatal(err)
	}
	tcp.Close()
}

// dialSmall connects with a receive buffer of a few KiB, set before the handshake announces a window.
func (s *site) dialSmall() *client {
	s.t.Helper()
	d := net.Dialer{Control: func(_, _ string, rc syscall.RawConn) (err error) {
		cerr := rc.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10)
		})
		return errors.Join(cerr, err)
	}}
	c, err := d.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return &client{c, s.t, bufio.NewReader(c)}
}

// dialSmallTLS is dialSmall, over TLS if the mode is.
func (s *site) dialSmallTLS() *client {
	s.t.Helper()
	c := s.dialSmall()
	if s.m.TLS {
		c.Conn = tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true})
		c.br.Reset(c.Conn)
	}
	return c
}

// paths records which requests reach the handler.
type paths struct {
	mu  sync.Mutex
	all []string
}

func (p *paths) add(path string) {
	p.mu.Lock()
	p.all = append(p.all, path)
	p.mu.Unlock()
}

// take returns what came since the last call.
func (p *paths) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := strings.Join(p.all, " ")
	p.all = nil
	return got
}

// byPath makes a handler of one for each path; others are 404.
func byPath(m map[string]conn.Handler) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		if h := m[req.Path()]; h != nil {
			return h(req, resp)
		}
		return http.StatusNotFound
	}
}

// clip keeps failure messages readable.
func clip(s string) string {
	if len(s) > 300 {
		return s[:200] + " ... " + s[len(s)-80:]
	}
	return s
}
