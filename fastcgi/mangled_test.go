package fastcgi_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
)

// TestMangled: a response that is cut at any byte is never taken for a complete one, and one with any byte flipped, or
// given a value that is as wrong as can be, is answered somehow.
func TestMangled(t *testing.T) {
	head := "Status: 200 OK\r\n" + okHead
	whole := fcgitest.Header(1, 7, 1, 4, 4) + "warn" + "\x00\x00\x00\x00" +
		fcgitest.Header(1, 6, 1, len(head)+5, 3) + head + "hello" + "\x00\x00\x00" +
		fcgitest.Header(1, 6, 1, 0, 0) + fcgitest.Header(1, 3, 1, 8, 0) + strings.Repeat("\x00", 8)
	var next atomic.Pointer[string]
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		c.Raw(*next.Load())
		c.Close()
	})
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.ReadTimeout = 10 * time.Second })
	ask := func(stream string) got {
		next.Store(&stream)
		return p.get("/x.php")
	}
	for n := range len(whole) {
		if g := ask(whole[:n]); g.status == 200 && g.err == nil {
			t.Errorf("cut at %d of %d: %d %q", n, len(whole), g.status, g.body)
		}
	}
	if g := ask(whole); g.status != 200 || g.body != "hello" || g.err != nil {
		t.Error(g)
	}
	for n := range len(whole) {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			b := []byte(whole)
			b[n] ^= flip
			if g := ask(string(b)); g.status == 0 && g.err == nil || g.status == 500 {
				t.Errorf("byte %d flipped by %x: %d %q, %v", n, flip, g.status, g.body, g.err)
			}
		}
	}
}
