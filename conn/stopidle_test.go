package conn_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestStopOfIdleConnections: a stop does not linger on connections that are idle, also if they
// have had a request, and whether or not their clients close their ends.
func TestStopOfIdleConnections(t *testing.T) {
	defer conn.SetLingerTime(wait.Patience, wait.Patience)()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello})
		for _, raw := range []string{get, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
			""} {
			if c := s.Dial(); raw != "" {
				c.Do("GET", raw)
			}
		}
		s.Settle()
		began := time.Now()
		s.Stop(2 * wait.Patience)
		if took := time.Since(began); took >= wait.Patience {
			t.Errorf("the stop has taken %v", took)
		}
	}, plain, direct, overTLS)
}
