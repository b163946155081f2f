package conn_test

import (
	"context"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
)

// TestFunctionOutlivesTheConnection: what a function off the loop does to its request after the
// connection has ended reaches no other client, although that may have the same descriptor.
func TestFunctionOutlivesTheConnection(t *testing.T) {
	uses := map[string]func(req *conn.Request, resp *conn.Response) error{
		"write": func(_ *conn.Request, resp *conn.Response) error {
			_, err := resp.WriteString(strings.Repeat("x", 64<<10))
			return err
		},
		"flush":  func(_ *conn.Request, resp *conn.Response) error { return resp.Flush() },
		"inform": func(_ *conn.Request, resp *conn.Response) error { return resp.Inform(103, nil) },
		"hijack": func(_ *conn.Request, resp *conn.Response) error {
			_, _, err := resp.Hijack()
			return err
		},
		"read": func(req *conn.Request, _ *conn.Response) error {
			_, err := io.ReadAll(req.Body())
			return err
		},
		"discard": func(req *conn.Request, _ *conn.Response) error { return req.Body().AwaitInput() },
		"duplex": func(req *conn.Request, resp *conn.Response) error {
			d := req.Layer().Duplex()
			_, _ = resp.WriteString(strings.Repeat("x", 64<<10))
			return d.End()
		},
	}
	run(t, func(t *testing.T, m mode) {
		for name, use := range uses {
			t.Run(name, func(t *testing.T) {
				release, done := make(chan struct{}), make(chan error, 1)
				s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
					if req.Path() != "/early" {
						return resp.Text(200, req.Path())
					}
					f := func(context.Context) (err error) {
						defer func() {
							if p := recover(); p != nil {
								err = os.ErrInvalid
							}
							done <- err
						}()
						<-release
						return use(req, resp)
					}
					_ = req.Await(time.Millisecond, f)
					runtime.Goexit()
					return 0
				}})
				c := s.Dial()
				send(t, c, "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nbody")
				_, _ = io.ReadAll(c.R)
				c.Close()
				s.Idle()
				var others []*client
				for range 8 {
					others = append(others, s.Dial())
				}
				s.Settle()
				for _, c := range others {
					c.Send("GET /other HTTP")
				}
				close(release)
				err := <-done
				if err == nil && name != "inform" {
					t.Error("no error")
				}
				for _, c := range others {
					if a := c.Do("GET", "/1.1\r\nHost: a\r\n\r\n"); a.Text != "/other" {
						t.Errorf("another client: %d %q", a.StatusCode, clip(a.Text))
					}
				}
			})
		}
	}, plain, direct, overTLS)
}
