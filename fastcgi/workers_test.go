package fastcgi_test

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/wait"
)

// busy returns how many workers of a pool are at work, including the one that answers this.
func busy(t *testing.T, p *proxy) string {
	t.Helper()
	g := p.get("/fpm-status")
	m := regexp.MustCompile(`(?m)^active processes:\s+(\d+)$`).FindStringSubmatch(g.body)
	if m == nil {
		t.Fatal("no status: ", g)
	}
	return m[1]
}

// status is a route to a pool's status page.
func status(t *testing.T, f *fpm) *proxy {
	return serve(t, []string{f.Address},
		func(s *fastcgi.Settings) { s.SplitPath = []string{"fpm-status"} })
}

// TestWorkersAreFree: no worker of PHP-FPM waits for the rest of a chunked upload, or of a body
// that its script does not read. The next request on a kept connection is not taken for more of
// that body.
func TestWorkersAreFree(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		f := startFPM(t, "unix")
		watch := status(t, f)
		p := serveFiles(t, "/", []string{f.Address}, scripts, func(s *fastcgi.Settings) {
			s.KeepConn, s.ReadTimeout = keep, 10*time.Second
		})
		for range 8 {
			for _, n := range []int{0, 1, 1000, 100000} {
				body := strings.Repeat("x", n)
				chunks := "0\r\n\r\n"
				if n > 0 {
					chunks = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n, body)
				}
				for _, g := range []got{
					p.request("POST /hello.php", []string{"Transfer-Encoding: chunked"}, chunks),
					p.request("GET /hello.php", []string{"Transfer-Encoding: chunked"}, chunks),
					p.request("GET /hello.php", nil, body),
					p.get("/hello.php"),
				} {
					if g.body != "Hello, world!" || g.err != nil {
						t.Fatal(keep, n, g)
					}
				}
			}
		}
		wait.Until(t, "all workers are free", func() bool { return busy(t, watch) == "1" })
	}
}

// TestWorkerDies: if a worker is killed in the middle of its response, that is cut, and the service
// goes on.
func TestWorkerDies(t *testing.T) {
	t.Parallel()
	f := startFPM(t, "unix", "request_terminate_timeout = 3s")
	p := serveFiles(t, "/", []string{f.Address}, map[string]string{
		"hello.php": scripts["hello.php"],
		"begun.php": `<?php echo "begun"; flush(); sleep(20);`,
		"mute.php":  `<?php sleep(20);`,
	}, func(s *fastcgi.Settings) { s.ReadTimeout = time.Minute })
	begun := make(chan got, 1)
	go func() { begun <- p.get("/begun.php") }()
	if g := p.request("POST /mute.php", nil, ""); g.status != 502 {
		t.Error("before its response: ", g)
	}
	if g := <-begun; g.status != 200 || g.body != "begun" || g.err == nil {
		t.Error("in the middle: ", g)
	}
	if g := p.get("/hello.php"); g.body != "Hello, world!" {
		t.Error("afterwards: ", g)
	}
}

// TestOldClients: HTTP/1.0, whose responses end with the connection.
func TestOldClients(t *testing.T) {
	f := startFPM(t, "unix")
	p := serveFiles(t, "/", []string{f.Address}, scripts,
		func(s *fastcgi.Settings) { s.ReadTimeout = 10 * time.Second })
	for target, n := range map[string]int{"/hello.php": 13, "/big.php?n=300000": 300000} {
		c := p.Dial()
		fmt.Fprintf(c, "GET %s HTTP/1.0\r\n\r\n", target)
		b, err := io.ReadAll(c)
		head, body, ok := strings.Cut(string(b), "\r\n\r\n")
		if err != nil || !ok || len(body) != n || !strings.HasPrefix(head, "HTTP/1.1 200 ") ||
			strings.Contains(head, "chunked") {
			t.Errorf("%s: %d bytes, %v, %q", target, len(body), err, head)
		}
	}
}

// TestOverTLS: PHP is told of TLS, and HEAD has the header that GET would have.
func TestOverTLS(t *testing.T) {
	f := startFPM(t, "unix")
	r := new(handlers.Registry)
	fastcgi.Register(r)
	p := route(t, r, "/", []string{f.Address}, scripts,
		func(s *fastcgi.Settings) { s.ReadTimeout = 10 * time.Second })
	p.Server = module.Start(t, modes.OverTLS, "/", p.handler)
	g := p.get("/server.php")
	for _, want := range []string{"HTTPS=on", "REQUEST_SCHEME=https", "HTTP_HOST=test.example"} {
		if !strings.Contains(g.body, want+"\n") {
			t.Errorf("no %s in %s", want, g.body)
		}
	}
	c := p.Dial()
	in := bufio.NewReader(c)
	for range 2 { // nothing of a body is in front of the second
		fmt.Fprintf(c, "HEAD /server.php HTTP/1.1\r\nHost: a\r\n\r\n")
		if g := read(in, "HEAD"); g.status != 200 ||
			g.header.Get("Content-Type") != "text/plain;charset=UTF-8" {
			t.Error(g)
		}
	}
}
