package fastcgi_test

import (
	"bufio"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/server"
)

// TestLoops: several loops share slots, queue and kept connections, and wake each other's
// requests. Clients that leave while they wait do not take a slot with them.
func TestLoops(t *testing.T) {
	const loops, clients, rounds, most = 3, 4, 30, 2
	for _, keep := range []bool{false, true} {
		var seen atomic.Int32
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
			n := int32(c.Beside())
			for old := seen.Load(); n > old && !seen.CompareAndSwap(old, n); old = seen.Load() {
			}
			for {
				c.Answer(okHead + "hello")
			}
		})
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
			s.KeepConn, s.MaxConns = keep, most
		})
		servers := []*server.Server{p.Server}
		for len(servers) < loops {
			servers = append(servers, module.Start(t, modes.Direct, "/", p.handler))
		}
		var all sync.WaitGroup
		for i, s := range servers {
			for range clients {
				all.Go(func() {
					c := s.Dial()
					r := bufio.NewReader(c)
					for range rounds {
						fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
						if g := read(r, "GET"); g.body != "hello" || g.err != nil {
							t.Errorf("loop %d: %d %v", i, g.status, g.err)
							return
						}
					}
				})
			}
			all.Go(func() {
				for range rounds {
					c := s.Dial()
					fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
					c.Close()
				}
			})
		}
		all.Wait()
		for range most { // all slots are there
			if g := p.get("/x.php"); g.body != "hello" {
				t.Error(g)
			}
		}
		if n := seen.Load(); n < 1 || n > most {
			t.Error(n, " connections at once")
		}
	}
}
