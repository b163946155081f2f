package conn_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestStopAnswersWhatHasCome: a server that leaves answers all requests that have come, says with
// the last one that the connection ends, and then ends it. An idle connection stays until then.
func TestStopAnswersWhatHasCome(t *testing.T) {
	t.Parallel()
	config := conn.Config{Handler: hello}
	s := start(t, plain, config)
	c := must.Dial(t, "tcp", s.Addr)
	_ = c.SetDeadline(time.Now().Add(wait.Patience))
	r := bufio.NewReader(c)
	ask := func(n int, last bool) {
		t.Helper()
		must.Get(io.WriteString(c, strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", n)))(t)
		for i := range n {
			resp := must.Get(http.ReadResponse(r, nil))(t)
			must.Get(io.Copy(io.Discard, resp.Body))(t)
			if want := last && i == n-1; resp.StatusCode != 200 || resp.Close != want {
				t.Errorf("answer %d: status %d, close %v, want 200, %v", i+1, resp.StatusCode, resp.Close, want)
			}
		}
	}
	ask(1, false)
	config.Leaving = true
	s.Configure(config)
	n := 3
	if invariants.Enabled { // which divides reads: the server would not know of the other requests yet
		n = 1
	}
	ask(n, true)
	if b, err := r.ReadByte(); err != io.EOF {
		t.Errorf("%q, %v, want the end", b, err)
	}
}
