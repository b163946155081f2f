package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestBodiesAsNginx: requests with bodies of several sizes, sent in one piece, by a length and in
// chunks, of which one fits into a buffer with the head and another does not. Each body goes with
// its request, also where the upstream answers before it has the body.
func TestBodiesAsNginx(t *testing.T) {
	repeats := func(p *originConn) {
		for req := p.request(); req != nil && req.URL.Path != last; req = p.request() {
			body, _ := io.ReadAll(req.Body)
			p.say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	}
	early := func(p *originConn) {
		for req, err := http.ReadRequest(p.r); err == nil &&
			req.URL.Path != last; req, err = http.ReadRequest(p.r) {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nTEST")
			_, _ = io.Copy(io.Discard, req.Body)
		}
	}
	const digits = "0123456789"
	for _, buffered := range []bool{true, false} {
		for _, chunked := range []bool{true, false} {
			for name, script := range map[string]func(*originConn){"repeats": repeats, "early": early} {
				for _, times := range [][]int{{1, 128, 512, 2}, {128, 512, 1, 2}, {0, 4096, 0, 1}} {
					t.Run(fmt.Sprint(name, " buffered ", buffered, " chunked ", chunked, " ", times),
						func(t *testing.T) {
							t.Parallel()
							o := start(t, script)
							f := serve(t, modes.Direct, "/", []string{o.addr},
								func(s *proxy.Settings) { s.RequestBuffering = buffered })
							var all strings.Builder
							for _, n := range times {
								body := strings.Repeat(digits, n)
								all.WriteString("PUT / HTTP/1.1\r\nHost: a\r\n")
								switch {
								case !chunked:
									fmt.Fprintf(&all, "Content-Length: %d\r\n\r\n%s", len(body), body)
								case n == 0:
									all.WriteString("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
								default:
									fmt.Fprintf(&all, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body),
										body)
								}
							}
							c := f.Dial()
							defer c.Close()
							go io.WriteString(c, all.String())
							for i, n := range times {
								want := strings.Repeat(digits, n)
								if name == "early" {
									want = "TEST"
								}
								if g := read(c.R, "PUT"); g.status != 200 || g.body != want {
									t.Fatalf("request %d: %d, %d bytes, %v", i, g.status, len(g.body), g.err)
								}
							}
						})
				}
			}
		}
	}
}
