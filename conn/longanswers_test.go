package conn_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/stream"
)

// counted is a long body of which all instances count together what was taken of them.
type counted struct{ taken *atomic.Int64 }

func (c counted) Read(p []byte) (int, error) {
	c.taken.Add(int64(len(p)))
	return len(p), nil
}

// A request that comes behind a crowd of requests for long answers waits while each of them begins,
// and not until they are out.
func TestSmallRequestBehindLongAnswers(t *testing.T) {
	const crowd, size, atMost = 200, 1 << 20, stream.TurnBudget
	var taken atomic.Int64
	free := make(chan struct{})
	blocked := make(chan struct{})
	before := make(chan int64, 1)
	s := server.Start(t, modes.Direct, conn.Config{
		Handler: func(req *conn.Request, resp *conn.Response) int {
			switch req.Path() {
			case "/block":
				close(blocked)
				<-free
			case "/small":
				before <- taken.Load()
			default:
				resp.SetBodyReader(io.NopCloser(counted{&taken}), size)
			}
			return http.StatusOK
		},
		Limits: conn.Limits{WriteTimeout: time.Hour, MinRate: -1}})
	var clients []*server.Client
	for range crowd {
		clients = append(clients, s.Dial())
	}
	small, block := s.Dial(), s.Dial()
	s.Settle()
	block.Send("GET /block HTTP/1.1\r\nHost: a\r\n\r\n")
	<-blocked // now the loop finds the others at once, in this order
	for _, c := range clients {
		c.Send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	small.Send("GET /small HTTP/1.1\r\nHost: a\r\n\r\n")
	close(free)
	if n := <-before; n > crowd*atMost {
		t.Errorf("%d KiB of each of the long answers went first, want at most %d", n/crowd>>10,
			atMost>>10)
	}
	s.Stop(0)
}
