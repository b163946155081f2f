package conn_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestStopOfIdleConnections: a stop does not linger on connections that are idle, also if they
// have had a request, and whether or not their clients close their ends.
func TestStopOfIdleConnections(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		least := wait.Patience
		for range 5 {
			s := start(t, m, conn.Config{Handler: hello})
			for _, raw := range []string{get, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
				""} {
				if c := s.Dial(); raw != "" {
					c.Do("GET", raw)
				}
			}
			s.Settle()
			began := time.Now()
			s.Stop(wait.Patience)
			least = min(least, time.Since(began))
		}
		if least >= 400*time.Millisecond && !race.Enabled { // a lingering close takes 500
			t.Errorf("the shortest of five stops has taken %v", least)
		}
	}, plain, direct, overTLS)
}
