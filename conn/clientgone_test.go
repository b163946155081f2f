package conn_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// TestWriteFindsClientGone: the loop may be too busy to hear from the kernel that the client has
// left, so that a write finds it first. The context's cause is the same.
func TestWriteFindsClientGone(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, closed := make(chan context.Context, 1), make(chan struct{})
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			entered <- req.Context()
			<-closed // the loop stands still
			for end := time.Now().Add(20 * time.Second); ; {
				resp.WriteString("answer") // to which the client's side replies with a reset
				if err := resp.Flush(); err != nil {
					break
				}
				if time.Now().After(end) {
					t.Error("writes do not fail")
					break
				}
			}
			return 200
		}})
		c := s.Dial()
		send(t, c, get)
		ctx := <-entered
		c.Close()
		close(closed)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, loop.ErrClientGone) {
			t.Errorf("cause %v", cause)
		}
		s.Idle()
	}, plain, direct)
}
