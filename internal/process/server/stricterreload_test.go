package server_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// TestStricterListener: when a reload lets a listener ask for more, the connections from before get
// nothing of the new content. Idle ones end, an answer that is under way is the last one, and a
// request that comes later is misdirected. Where it asks for no more, they stay.
func TestStricterListener(t *testing.T) {
	t.Parallel()
	const pair = "tls = {cert = \"a.pem\", key = \"a.key\"}\n"
	for name, row := range map[string]struct {
		before, after string
		stays         bool
	}{
		"tls":       {"", pair, false},
		"client_ca": {pair, pair + "client_ca = \"ca.pem\"\n", false},
		"another client_ca": {pair + "client_ca = \"ca.pem\"\n", pair + "client_ca = \"other.pem\"\n",
			false},
		"min_version": {pair, pair + "min_version = \"1.3\"\n", false},
		"strict_sni":  {pair, pair + "strict_sni = true\n", false},
		"nothing":     {pair + "client_ca = \"ca.pem\"\n", pair + "client_ca = \"ca.pem\"\n", true},
		"less": {pair + "client_ca = \"ca.pem\"\nmin_version = \"1.3\"\nstrict_sni = true\n", pair,
			true},
		"no tls": {pair, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testStricter(t, row.before, row.after, row.stays)
		})
	}
}

// TestStricterHTTP2: an idle connection of HTTP/2 ends, too.
func TestStricterHTTP2(t *testing.T) {
	t.Parallel()
	s := newTLS(t)
	s.put("a", "a.test", time.Hour)
	s.replace("ca.pem", must.Read(t, s.ca.File))
	text := func(more string) string {
		return "keep_alive_timeout = \"1h\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n" +
			"tls = {cert = \"a.pem\", key = \"a.key\"}\n" + more
	}
	src := s.source()
	src.Routes = []handlers.Route{{Prefix: "/",
		Handler: func(_ *conn.Request, resp *conn.Response) int {
			return resp.Text(200, "x")
		}}}
	s.running = serve(t, src, text(""))
	c, err := tls.Dial("tcp", s.at,
		&tls.Config{RootCAs: s.ca.Pool, ServerName: "a.test", NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(wait.Patience))
	ping := append(http2.AppendHeader(nil, http2.Ping, 0, 0, 8), "12345678"...)
	if _, err := c.Write(append(
		http2.AppendHeader([]byte(http2.Preface), http2.SettingsFrame, 0, 0, 0), ping...)); err != nil {
		t.Fatal(err)
	}
	ponged := func() bool {
		head := make([]byte, http2.FrameHeaderLen)
		must.Get(io.ReadFull(c, head))(t)
		h := http2.ParseHeader(head)
		must.Get(io.CopyN(io.Discard, c, int64(h.Length)))(t)
		return h.Type == http2.Ping
	}
	for !ponged() {
	}
	s.reload(text("client_ca = \"ca.pem\"\n"))
	if rest, err := io.ReadAll(c); err != nil || len(rest) < http2.FrameHeaderLen ||
		http2.ParseHeader(rest).Type != http2.GoAway {
		t.Errorf("%q, %v", rest, err)
	}
}

func testStricter(t *testing.T, before, after string, stays bool) {
	s := newTLS(t)
	s.put("a", "a.test", time.Hour)
	for file, from := range map[string]string{"ca.pem": s.ca.File, "other.pem": certs.New(t).File} {
		s.replace(file, must.Read(t, from))
	}
	text := func(keys, body string) string {
		return "threads = 2\n[[listener]]\naddress = \"127.0.0.1:0\"\n" + keys +
			"[headers]\nx-configuration = \"" + body + "\"\n"
	}
	begun, release := make(chan bool, 1), new(loop.Promise[bool])
	src := s.source()
	src.Routes = []handlers.Route{{Prefix: "/",
		Handler: func(req *conn.Request, resp *conn.Response) int {
			if req.Path() == "/wait" {
				begun <- true
				_, _ = release.Await(req.Thread, wait.Patience)
			}
			resp.Header().Set("X-Loop", fmt.Sprintf("%p", req.Loop()))
			return resp.Text(200, "x")
		}}}
	s.running = serve(t, src, text(before, "old"))
	own := s.ca.Issue(time.Hour, "client.test")
	dial := func() *client {
		t.Helper()
		conn := must.Dial(t, "tcp", s.at)
		if before != "" {
			conn = tls.Client(conn, &tls.Config{RootCAs: s.ca.Pool, ServerName: "a.test",
				Certificates: []tls.Certificate{own}})
		}
		c := &client{t: t, Conn: conn, r: bufio.NewReader(conn)}
		c.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
		c.answer(200, "old", false)
		return c
	}
	idle, busy, late := dial(), dial(), dial()
	for late.loop != busy.loop { // one loop reads what was sent first before the rest
		late = dial()
	}
	late.send("GET / HTTP/1.1\r\n") // first: when the other's handler has begun, this has been read
	busy.send("GET /wait HTTP/1.1\r\nHost: a.test\r\n\r\n")
	<-begun
	s.reload(text(after, "new"))
	release.Resolve(true)
	late.send("Host: a.test\r\n\r\n")
	if stays {
		idle.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
		idle.answer(200, "new", false)
		late.answer(200, "", false) // its head had begun
		busy.answer(200, "old", false)
		return
	}
	busy.answer(200, "old", true)
	late.answer(421, "", true)
	for _, c := range []*client{idle, busy, late} {
		c.ends()
	}
}

type client struct {
	t *testing.T
	net.Conn
	r    *bufio.Reader
	loop string // that has the connection
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads an answer: its status, which configuration made it, if it is not "", and whether it
// says that it is the last one.
func (c *client) answer(status int, configuration string, last bool) {
	c.t.Helper()
	got, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, got.Body)
	c.loop = got.Header.Get("X-Loop")
	by := got.Header.Get("X-Configuration")
	if err != nil || got.StatusCode != status || configuration != "" && by != configuration ||
		got.Close != last {
		c.t.Errorf("status %d of the %s configuration, last %v, %v; want %d, %s, %v",
			got.StatusCode, by, got.Close, err, status, configuration, last)
	}
}

func (c *client) ends() {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	if len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Errorf("%q, %v, want the end", rest, err)
	}
}
