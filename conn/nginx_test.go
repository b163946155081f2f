package conn_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
)

// behindNginx starts an nginx in front of the site, which streams request bodies and keeps one
// connection for all clients, and returns what connects to it.
func behindNginx(s *site) func() net.Conn {
	t := s.T
	t.Helper()
	name, err := exec.LookPath("nginx")
	if err != nil {
		name = "/usr/sbin/nginx"
	}
	if _, err := os.Stat(name); err != nil {
		if os.Getenv("LWANGO_CI") != "" {
			t.Fatal("nginx is not installed (Debian: apt-get install nginx-light)")
		}
		t.Skip("nginx is not installed (Debian: apt-get install nginx-light)")
	}
	dir, err := os.MkdirTemp("", "nginx") // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	config := strings.ReplaceAll(`
daemon off; master_process off; pid DIR/pid; error_log DIR/error.log;
events {}
http {
	access_log off;
	client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
	upstream site { server SITE max_fails=0; keepalive 1; }
	server {
		listen unix:DIR/socket;
		client_max_body_size 0;
		proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host a;
		proxy_request_buffering off; proxy_next_upstream off;
		location / { proxy_pass http://site; }
	}
}`, "DIR", dir)
	config = strings.ReplaceAll(config, "SITE", s.Addr)
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "-p", dir, "-c", filepath.Join(dir, "conf"), "-e",
		filepath.Join(dir, "error.log"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Logf("nginx: %s", clip(string(log)))
		}
	})
	dial := func() (net.Conn, error) { return net.Dial("unix", socket) }
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		c, err := dial()
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal("nginx does not listen: ", err)
		}
	}
	return func() net.Conn {
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
}

// TestUnreadBodiesBehindNginx: what one client sends must not spoil the answer to another whose
// request comes over the same connection next.
func TestUnreadBodiesBehindNginx(t *testing.T) {
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
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
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
