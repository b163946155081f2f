package fastcgi_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
)

// TestServerFails: an application that says no head counts as one that fails, and one that is
// overloaded not as one that works.
func TestServerFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script func(c *fcgitest.Conn, n int32)
		met    int32
	}{
		"no head": {func(c *fcgitest.Conn, _ int32) {
			c.Stderr("PHP message")
			c.Stdout("no field\r\n\r\n")
			c.End()
		}, 3},
		"overloaded in between": {func(c *fcgitest.Conn, n int32) {
			if n%2 == 0 {
				c.EndStatus(0, 2)
			}
		}, 5},
	} {
		var met atomic.Int32
		bad := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
			c.Read()
			tt.script(c, met.Add(1))
			c.Close()
		})
		good := fcgitest.Start(t, "unix", answers("hello"))
		p := serve(t, []string{bad.Address, good.Address}, func(s *fastcgi.Settings) {
			s.FailTimeout = time.Hour
		})
		for range 40 {
			p.get("/x.php")
		}
		if n := met.Load(); n != tt.met {
			t.Errorf("%s: %d requests have met it, want %d", name, n, tt.met)
		}
	}
}
