package conn_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/nginx"
)

// behindNginx starts an nginx in front of the site, which streams request bodies and keeps one
// connection for all clients, and returns what connects to it.
func behindNginx(s *site) func() net.Conn {
	t := s.T
	t.Helper()
	dir := nginx.Start(t, strings.ReplaceAll(`
	upstream site { server SITE max_fails=0; keepalive 1; }
	server {
		listen unix:DIR/socket;
		client_max_body_size 0;
		proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host a;
		proxy_request_buffering off; proxy_next_upstream off;
		location / { proxy_pass http://site; }
	}
`, "SITE", s.Addr), "socket")
	return func() net.Conn {
		c := must.Get(net.Dial("unix", filepath.Join(dir, "socket")))(t)
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
}

// TestUnreadBodiesBehindNginx: what one client sends must not spoil the answer to another whose
// request comes over the same connection next.
func TestUnreadBodiesBehindNginx(t *testing.T) {
	t.Parallel()
	waiting := func(h conn.Handler) conn.Handler {
		return func(req *conn.Request, w *conn.Response) int {
			// nginx keeps the connection only if it has sent the whole body by then
			_ = req.Sleep(5 * time.Millisecond)
			return h(req, w)
		}
	}
	s := start(t, direct, conn.Config{Handler: byPath(map[string]conn.Handler{
		"/whole": waiting(hello),
		"/reader": waiting(func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(strings.NewReader("Hello, world!"), 13)
			return 200
		}),
		"/stream": waiting(func(_ *conn.Request, w *conn.Response) int {
			_, _ = w.Write(make([]byte, 40<<10))
			return 200
		}),
		"/other": hello,
	})})
	dial := behindNginx(s)
	ask := func(path, body string) int {
		c := dial()
		defer c.Close()
		send(t, c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+body)
		resp := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	body := noise()[:300_000]
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
	chunked := "Transfer-Encoding: chunked\r\n\r\n" + chunks(body, 9999)
	for round := range 30 {
		for _, path := range []string{"/whole", "/reader", "/stream"} {
			for _, body := range []string{length, chunked} {
				if status := ask(path, body); status != 200 {
					t.Errorf("round %d, %s, %.20q: %d", round, path, body, status)
				}
				if status := ask("/other", "Content-Length: 0\r\n\r\n"); status != 200 {
					t.Errorf("round %d, behind %s, %.20q: %d", round, path, body, status)
				}
			}
		}
	}
}
