package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/wait"
)

func TestMain(m *testing.M) { program.Main(m, main) }

const patience = wait.Patience

// upstream is a server that the test plays itself.
type upstream struct{ net.Listener }

func listen(t *testing.T, network, address string) upstream {
	t.Helper()
	ln := must.Get(net.Listen(network, address))(t)
	t.Cleanup(func() { ln.Close() })
	return upstream{ln}
}

// flag is its address as -upstream takes it.
func (u upstream) flag() string {
	if u.Addr().Network() == "unix" {
		return "unix:" + u.Addr().String()
	}
	return u.Addr().String()
}

// accept waits for the sample to connect.
func (u upstream) accept(t *testing.T) net.Conn {
	t.Helper()
	c, err := u.Accept()
	return patient(t, c, err)
}

func dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, address)
	return patient(t, c, err)
}

func patient(t *testing.T, c net.Conn, err error) net.Conn {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	must.Do(t, c.SetDeadline(time.Now().Add(patience)))
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	must.Get(io.WriteString(c, text))(t)
}

// reset closes a connection so that the peer sees it broken.
func reset(t *testing.T, c net.Conn) {
	t.Helper()
	must.Do(t, c.(*net.TCPConn).SetLinger(0))
	c.Close()
}

// client is a connection to the sample.
type client struct {
	net.Conn
	in *bufio.Reader
}

func connect(t *testing.T, network, address string) *client {
	t.Helper()
	c := dial(t, network, address)
	return &client{c, bufio.NewReader(c)}
}

func (c *client) request(t *testing.T) {
	t.Helper()
	send(t, c,
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
}

func (c *client) response(t *testing.T) *http.Response {
	t.Helper()
	resp := must.Get(http.ReadResponse(c.in, nil))(t)
	return resp
}

// expect reads as much as it wants, and no more.
func expect(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("got %.100q, %v, want %.100q", got[:n], err, want)
	}
}

// expectEnd: the answer is complete.
func expectEnd(t *testing.T, r io.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Fatalf("got %q, %v, want the end", rest, err)
	}
}

// expectClosed: the sample has closed its connection to the upstream.
func expectClosed(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the upstream's connection is still open")
	}
}

// Each piece is sent only when the client has the one before. So the sample keeps nothing back, and
// passes on the end.
func TestPieces(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
			}
			u := listen(t, network, address)
			c := connect(t, "tcp", program.Start(t, "-upstream", u.flag()).Address)
			for range 2 { // on one connection
				c.request(t)
				up := u.accept(t)
				send(t, up, "the first")
				resp := c.response(t)
				if resp.StatusCode != 200 || resp.ContentLength != -1 {
					t.Errorf("got %s, %d bytes", resp.Status, resp.ContentLength)
				}
				expect(t, resp.Body, "the first")
				for _, piece := range []string{"second", "3", strings.Repeat("large", 100_000),
					"last"} {
					sent := make(chan error, 1)
					go func() { // the large one does not fit into the sockets' buffers
						_, err := io.WriteString(up, piece)
						sent <- err
					}()
					expect(t, resp.Body, piece)
					must.Do(t, <-sent)
				}
				up.Close()
				expectEnd(t, resp.Body)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, address := range []string{refuse.Address(t), "unix:/none", "nowhere"} {
		c := connect(t, "tcp", program.Start(t, "-upstream", address).Address)
		for range 2 {
			c.request(t)
			resp := c.response(t)
			if resp.StatusCode != 502 {
				t.Errorf("%s: got %s", address, resp.Status)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
		}
	}
}

// The client does not take a part for the whole: it gets what there was, and no end.
func TestUpstreamResets(t *testing.T) {
	u := listen(t, "tcp", "127.0.0.1:0")
	c := connect(t, "tcp", program.Start(t, "-upstream", u.flag()).Address)
	c.request(t)
	up := u.accept(t)
	send(t, up, "a part")
	resp := c.response(t)
	expect(t, resp.Body, "a part")
	reset(t, up)
	if rest, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || len(rest) > 0 {
		t.Errorf("got %q, %v", rest, err)
	}
}

// The upstream learns at once that the client does not want the rest, in whichever way it has left.
func TestClientLeaves(t *testing.T) {
	leave := map[string]func(t *testing.T, c *client){
		"FIN":   func(t *testing.T, c *client) { c.Close() },
		"half":  func(t *testing.T, c *client) { _ = c.Conn.(*net.TCPConn).CloseWrite() },
		"reset": func(t *testing.T, c *client) { reset(t, c.Conn) },
	}
	for how, leave := range leave {
		t.Run(how, func(t *testing.T) {
			u := listen(t, "tcp", "127.0.0.1:0")
			c := connect(t, "tcp", program.Start(t, "-upstream", u.flag()).Address)
			c.request(t)
			up := u.accept(t)
			send(t, up, "a part")
			expect(t, c.response(t).Body, "a part")
			leave(t, c)
			expectClosed(t, up)
		})
	}
}

// idle checks that the sample uses no processor while it has nothing to do.
func idle(t *testing.T, s *program.Server) {
	t.Helper()
	const while = 500 * time.Millisecond
	before := s.CPU(t)
	time.Sleep(while)
	if used := s.CPU(t) - before; used > while/10 {
		t.Errorf("used %v of the processor in %v", used, while)
	}
}

// The end of an upstream is a lasting condition; the loop must not act on it again and again.
func TestUpstreamEndDoesNotSpin(t *testing.T) {
	t.Run("half closed", func(t *testing.T) {
		u := listen(t, "tcp", "127.0.0.1:0")
		s := program.Start(t, "-upstream", u.flag())
		c := connect(t, "tcp", s.Address)
		c.request(t)
		up := u.accept(t)
		must.Do(t, up.(*net.TCPConn).CloseWrite())
		expectEnd(t, c.response(t).Body)
		idle(t, s)
		expectClosed(t, up)
	})

	// Here the sample cannot read to the end, because the client does not read.
	t.Run("client does not read", func(t *testing.T) {
		dir := t.TempDir()
		u := listen(t, "unix", filepath.Join(dir, "u"))
		s := program.Start(t, "-upstream", u.flag(), "-l", "unix:"+filepath.Join(dir, "s"))
		c := connect(t, "unix", filepath.Join(dir, "s"))
		c.request(t)
		up := u.accept(t)
		// Of UNIX sockets it is the receiver that holds what was sent: when nothing more fits in,
		// all buffers on the way are full, and the upstream can go.
		must.Do(t, up.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
		body := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
		sent, err := up.Write(body)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("sent %d bytes: %v", sent, err)
		}
		up.Close()
		idle(t, s)
		resp := c.response(t)
		expect(t, resp.Body, string(body[:sent]))
		expectEnd(t, resp.Body)
	})
}

// A request may take longer than a connection may be idle.
func TestSlowUpstream(t *testing.T) {
	config := program.Configure(t, t.TempDir(), "keep_alive_timeout = \"100ms\"\n")
	u := listen(t, "tcp", "127.0.0.1:0")
	s := program.Start(t, "-upstream", u.flag(), "-c", config)
	c := connect(t, "tcp", s.Address)
	c.request(t)
	up := u.accept(t)
	send(t, up, "one")
	resp := c.response(t)
	expect(t, resp.Body, "one")
	idle(t, s)
	send(t, up, "two")
	expect(t, resp.Body, "two")
	up.Close()
	expectEnd(t, resp.Body)
}

func TestNoUpstream(t *testing.T) { program.Fails(t, nil, 2, "-upstream is missing") }
