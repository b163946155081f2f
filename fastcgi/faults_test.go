package fastcgi_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestFaults: PHP-FPM is killed, started again and reloaded, and recycles its workers, all under
// load. Requests that were in flight may fail, with 502. No POST runs twice, and afterwards all
// requests succeed.
func TestFaults(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep ", keep), func(t *testing.T) {
			f := startFPM(t, "unix", "pm.max_requests = 20")
			p := serveFiles(t, "/", []string{f.Address}, scripts, func(s *fastcgi.Settings) {
				s.KeepConn, s.ReadTimeout = keep, 10*time.Second
			})
			counted := filepath.Join(p.dir, "counted")
			write(t, p.dir, map[string]string{"count.php": `<?php file_put_contents("` + counted +
				`", file_get_contents("php://input") . "\n", FILE_APPEND | LOCK_EX); echo "ok";`})

			var stop atomic.Bool
			var good, bad atomic.Int64
			var all sync.WaitGroup
			for worker := range 4 {
				all.Go(func() {
					for i := 0; !stop.Load(); i++ {
						g := p.request("POST /count.php", nil, fmt.Sprintf("%d/%d", worker, i))
						if i%2 == 1 {
							g = p.get("/hello.php")
						}
						switch {
						case g.err == nil && g.status == 200:
							good.Add(1)
						case g.err == nil && g.status == 502:
							bad.Add(1)
							time.Sleep(time.Millisecond) // perhaps PHP-FPM does not listen
						default:
							t.Errorf("%d, %v", g.status, g.err)
						}
					}
				})
			}
			more := func() {
				n := good.Load()
				wait.Until(t, "requests are answered", func() bool { return good.Load() > n+50 })
			}
			more() // workers are recycled meanwhile
			if n := bad.Load(); n > 0 && !keep {
				t.Error(n, " failures while workers are recycled")
			}
			f.killAll()
			wait.Until(t, "requests fail", func() bool { return bad.Load() > 0 })
			f.start()
			more()
			_ = f.cmd.Process.Signal(syscall.SIGUSR2)
			more()
			f.signal(syscall.SIGTERM)
			f.start()
			more()
			stop.Store(true)
			all.Wait()
			for range 20 {
				if g := p.get("/hello.php"); g.status != 200 {
					t.Error("afterwards: ", g)
				}
			}
			text := must.Read(t, counted)
			seen := make(map[string]bool)
			for _, line := range strings.Fields(text) {
				if seen[line] {
					t.Error("ran twice: ", line)
				}
				seen[line] = true
			}
			t.Logf("%d answered, %d failed, %d ran", good.Load(), bad.Load(), len(seen))
		})
	}
}
