package conn_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// TestLockHeldOverAWrite: a client that does not read holds up those that want the same
// loop.Mutex until its time is over, and no others.
func TestLockHeldOverAWrite(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		var mu loop.Mutex
		asked := make(chan string, 2)
		piece := strings.Repeat("x", 40<<10)
		s := start(t, m, conn.Config{Limits: conn.Limits{WriteTimeout: time.Minute, MinRate: -1},
			Handler: func(req *conn.Request, resp *conn.Response) int {
				if req.Path() == "/free" {
					return hello(req, resp)
				}
				asked <- req.Path()
				if err := mu.Lock(req.Thread, -1); err != nil {
					return resp.Error(503, err)
				}
				defer mu.Unlock()
				if req.Path() == "/large" {
					for {
						if _, err := resp.WriteString(piece); err != nil {
							return 0
						}
					}
				}
				return hello(req, resp)
			}})
		slow := s.DialSmall()
		slow.Send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
		<-asked
		next := s.Dial()
		next.Send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
		<-asked
		if a := s.Request("GET /free", nil, ""); a.StatusCode != 200 {
			t.Error(a.Status)
		}
		answered := make(chan int, 1)
		go func() { answered <- next.Answer("GET").StatusCode }()
		// With forced short writes the socket is not full at once, so that a write succeeds after the
		// first wait.
		for status := 0; status == 0; s.Skip(2 * time.Minute) {
			select {
			case status = <-answered:
				if status != 200 {
					t.Error(status)
				}
			default:
			}
		}
		slow.Reset()
	})
}
