package conn_test

import (
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
)

// badCloser panics in Close, as often as it is called.
type badCloser struct{ io.Reader }

func (badCloser) Close() error { panic("close") }

// TestNothingPassesToTheNextClient: whatever a request leaves behind when it ends badly, the next
// one on the same coroutine sees only itself.
func TestNothingPassesToTheNextClient(t *testing.T) {
	bad := map[string]conn.Handler{
		"deferred use after a panic": func(req *conn.Request, resp *conn.Response) int {
			req.Defer(func() {
				_ = req.Target() + req.Header().Get("X-Secret")
				resp.Header().Set("X-Left", "secret")
				_, _ = resp.WriteString("secret")
			})
			resp.SetBodyReader(readerFunc(func([]byte) (int, error) { panic("source") }), 10)
			return 200
		},
		"deferred write after the end": func(req *conn.Request, resp *conn.Response) int {
			req.Defer(func() {
				if _, err := resp.WriteString("secret"); err != conn.ErrComplete {
					t.Errorf("write after the end: %v", err)
				}
				_ = resp.Flush()
			})
			return hello(req, resp)
		},
		"panic in Close": func(req *conn.Request, resp *conn.Response) int {
			resp.SetBodyReader(badCloser{strings.NewReader("0123456789")}, 10)
			return 200
		},
	}
	run(t, func(t *testing.T, m mode) {
		for name, h := range bad {
			s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
				if strings.HasPrefix(req.Path(), "/bad") {
					return h(req, resp)
				}
				resp.WriteString(req.Target() + req.Header().Get("X-Secret") + req.Host() +
					req.RawQuery())
				return 200
			}})
			if name != "deferred write after the end" {
				s.Panics.Expect()
			}
			for range 3 {
				c := s.Dial()
				_, _ = io.WriteString(c,
					"GET /bad/secret/secret/secret?secret HTTP/1.1\r\nHost: secret\r\nX-Secret: "+
						"secret\r\nConnection: close\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: secret\r\n\r\n")
				got, _ := io.ReadAll(c)
				if strings.Contains(string(got), "secret") {
					t.Errorf("%s: in its own answer: %q", name, got)
				}
				got = []byte(s.Exchange("GET / HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n"))
				if a := answers(t, strings.NewReader(string(got)), "GET")[0]; a.Text != "/b" ||
					strings.Contains(string(got), "secret") {
					t.Errorf("%s: the next client gets %q", name, got)
				}
			}
			s.Stop(0)
		}
	})
}
