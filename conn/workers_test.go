package conn_test

import (
	"context"
	"sync"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestWorkersInTurn: a client whose functions have all workers, and wait for as many again, holds
// up the function of another client by one of them.
func TestWorkersInTurn(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		var mu sync.Mutex
		var begun []string // the addresses of the clients
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(begun)
		}
		end := make(chan struct{})
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			client := req.RemoteAddr().Addr().String()
			err := req.Await(-1, func(context.Context) error {
				mu.Lock()
				begun = append(begun, client)
				mu.Unlock()
				<-end
				return nil
			})
			if err != nil {
				return resp.Error(503, err)
			}
			return hello(req, resp)
		}})
		crowd := func(n int) {
			for range n {
				send(t, by(t, s.Addr, "127.0.0.2"), get)
			}
		}
		crowd(loop.DefaultWorkers)
		wait.Until(t, "all workers are busy", func() bool { return count() == loop.DefaultWorkers })
		crowd(loop.DefaultWorkers)
		s.Settle()
		other := server.NewClient(t, by(t, s.Addr, "127.0.0.3"))
		other.Send(get)
		s.Settle()
		for i := range 2 { // places become free: the first of the crowd has its turn, and then the other
			end <- struct{}{}
			wait.Until(t, "one more has begun", func() bool {
				return count() == loop.DefaultWorkers+1+i
			})
		}
		if n := loop.DefaultWorkers; begun[n] != "127.0.0.2" || begun[n+1] != "127.0.0.3" {
			t.Errorf("the turns were of %v", begun[n:])
		}
		close(end)
		if a := other.Answer("GET"); a.StatusCode != 200 {
			t.Error(a.Status)
		}
	}, direct)
}
