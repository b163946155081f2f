package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
)

// Client is a connection that keeps what it has buffered from one answer to the next.
type Client struct {
	net.Conn
	R *bufio.Reader // of Conn
	T testing.TB
}

// NewClient is the client of a connection that the test has made, and closes, itself. Its buffer is
// small, for tests that count the memory of the process.
func NewClient(t testing.TB, c net.Conn) *Client {
	return &Client{c, bufio.NewReaderSize(c, 512), t}
}

// Dial connects until the test ends, with TLS where the mode says so. Where the mode is HTTP/2, the
// client still writes and reads in the form of HTTP/1.1: see over2.
func (s *Server) Dial() *Client {
	s.T.Helper()
	return s.DialBy(new(net.Dialer))
}

// DialSmall is Dial with a receive buffer of a few KiB. It is for clients that read little or
// nothing: with less than SlowReader, small segments can shrink the window for good to less than
// half of what it was at first. Then the kernel of the sender waits for its timer of 200 ms before
// each segment, and sends some 10 KB in a second.
func (s *Server) DialSmall() *Client {
	s.T.Helper()
	return s.DialBuffer(4 << 10)
}

// SlowReader is a receive buffer for clients that read much, but not at first.
const SlowReader = 32 << 10

// DialBuffer is Dial with a receive buffer of that many bytes, set before the handshake announces a
// window.
func (s *Server) DialBuffer(size int) *Client {
	s.T.Helper()
	return s.DialBy(&net.Dialer{Control: func(_, _ string, rc syscall.RawConn) (err error) {
		cerr := rc.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, size)
		})
		return errors.Join(cerr, err)
	}})
}

// DialBy is Dial by way of d.
func (s *Server) DialBy(d *net.Dialer) *Client {
	s.T.Helper()
	c, err := d.Dial(s.Mode.Network(), s.Addr)
	if err != nil {
		s.T.Fatal(err)
	}
	if s.Mode.TLS {
		cfg := &tls.Config{InsecureSkipVerify: true}
		if s.Mode.HTTP2 {
			cfg.NextProtos = []string{"h2"}
		}
		c = tls.Client(c, cfg)
	}
	s.T.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(wait.Patience))
	if s.Mode.HTTP2 {
		c = newOver2(s.T, c)
		_ = c.SetDeadline(time.Now().Add(wait.Patience))
	}
	return NewClient(s.T, c)
}

// Exchange sends raw bytes and returns all that comes until the server closes.
func (s *Server) Exchange(raw string) string {
	s.T.Helper()
	c := s.Dial()
	defer c.Close()
	Send(s.T, c, raw)
	return Rest(s.T, c)
}

// Request sends one request, given as its request line and further header lines, with Host and
// "Connection: close" added, and an optional body. Nothing may come behind the answer.
func (s *Server) Request(line string, fields []string, body string) Answer {
	s.T.Helper()
	c := s.Dial()
	defer c.Close()
	head := append([]string{line + " HTTP/1.1", "Host: test.example", "Connection: close"},
		fields...)
	method, _, _ := strings.Cut(line, " ")
	answer := c.Do(method, strings.Join(head, "\r\n")+"\r\n\r\n"+body)
	c.Ends()
	return answer
}

// Send sends raw bytes.
func (c *Client) Send(raw string) {
	c.T.Helper()
	Send(c.T, c, raw)
}

// Do sends raw and reads one answer to a request of that method.
func (c *Client) Do(method, raw string) Answer {
	c.T.Helper()
	c.Send(raw)
	return c.Answer(method)
}

// Answer reads one answer to a request of that method.
func (c *Client) Answer(method string) Answer {
	c.T.Helper()
	return Answers(c.T, c.R, method)[0]
}

// Ends reads the connection's orderly end.
func (c *Client) Ends() {
	c.T.Helper()
	if got := Rest(c.T, c.R); got != "" {
		c.T.Fatalf("instead of the end: %q", Clip(got))
	}
}

// CloseWrite ends the sending half, of plain and TLS connections alike.
func (c *Client) CloseWrite() {
	c.T.Helper()
	if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		c.T.Fatal(err)
	}
}

// TCP is the connection below TLS and HTTP/2, if there is that.
func (c *Client) TCP() *net.TCPConn {
	below := c.Conn
	for {
		over, ok := below.(interface{ NetConn() net.Conn })
		if !ok {
			return below.(*net.TCPConn)
		}
		below = over.NetConn()
	}
}

// Reset closes the connection with a RST.
func (c *Client) Reset() {
	c.T.Helper()
	tcp := c.TCP()
	if err := tcp.SetLinger(0); err != nil && !errors.Is(err, net.ErrClosed) {
		c.T.Fatal(err)
	}
	tcp.Close()
}

// Answer is a response with its body, which is read.
type Answer struct {
	*http.Response
	Text string
}

// Answers reads the responses to requests of these methods. What is behind them stays in r only if
// r is a *bufio.Reader.
func Answers(t testing.TB, r io.Reader, methods ...string) (all []Answer) {
	t.Helper()
	br, ok := r.(*bufio.Reader)
	if !ok {
		br = bufio.NewReader(r)
	}
	for _, method := range methods {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("response %d: %v", len(all)+1, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("body of response %d, after %d bytes: %v", len(all)+1, len(body), err)
		}
		all = append(all, Answer{resp, string(body)})
	}
	return all
}

// Parse takes raw for nothing but the responses to requests of these methods.
func Parse(t testing.TB, raw string, methods ...string) []Answer {
	t.Helper()
	r := bufio.NewReader(strings.NewReader(raw))
	all := Answers(t, r, methods...)
	if left, _ := io.ReadAll(r); len(left) > 0 {
		t.Fatalf("after %d answers there is still %q", len(all), Clip(string(left)))
	}
	return all
}

// Send writes raw and fails the test if it cannot.
func Send(t testing.TB, w io.Writer, raw string) {
	t.Helper()
	if _, err := io.WriteString(w, raw); err != nil {
		t.Fatalf("write: %v", err)
	}
}

// Rest reads to the end, which must be an orderly one.
func Rest(t testing.TB, r io.Reader) string {
	t.Helper()
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("after %q: %v", Clip(string(got)), err)
	}
	return string(got)
}

// Clip keeps failure messages readable.
func Clip(s string) string {
	if len(s) > 300 {
		return s[:200] + " ... " + s[len(s)-80:]
	}
	return s
}

// Allocs returns how many allocations the process makes for one request of a keep-alive connection.
// Answers to raw must have the same number of bytes every time. With the race detector the test
// ends here: a sync.Pool then drops at random what it should keep.
func (s *Server) Allocs(raw string) float64 {
	s.T.Helper()
	if race.Enabled {
		s.T.Skip("sync.Pool drops things at random under the race detector")
	}
	c := s.Dial()
	request := []byte(raw)
	// How long the answer is, is known when its body has been read: nothing may be behind it.
	var wire bytes.Buffer
	c.R = bufio.NewReader(io.TeeReader(c.Conn, &wire))
	method, _, _ := strings.Cut(raw, " ")
	c.Do(method, raw)
	answer := wire.Bytes()
	return testing.AllocsPerRun(500, func() {
		if _, err := c.Write(request); err != nil {
			s.T.Fatal(err)
		}
		if _, err := io.ReadFull(c, answer); err != nil {
			s.T.Fatal(err)
		}
	})
}
