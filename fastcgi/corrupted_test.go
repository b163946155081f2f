package fastcgi_test

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/must"
)

// TestCorruptedResponse: a response that is cut at any byte never looks complete. One with a
// changed byte gets some answer.
func TestCorruptedResponse(t *testing.T) {
	head := "Status: 200 OK\r\n" + okHead
	testMangled(t, fcgitest.Header(1, 7, 1, 4, 4)+"warn"+"\x00\x00\x00\x00"+
		fcgitest.Header(1, 6, 1, len(head)+5, 3)+head+"hello"+"\x00\x00\x00"+
		fcgitest.Header(1, 6, 1, 0, 0)+fcgitest.Header(1, 3, 1, 8, 0)+strings.Repeat("\x00", 8))
}

// TestCorruptedPHPResponse does so with what PHP-FPM has sent.
func TestCorruptedPHPResponse(t *testing.T) {
	f := startFPM(t, "unix")
	relay := must.Get(net.Listen("unix", filepath.Join(filepath.Dir(f.config), "relay")))(t)
	defer relay.Close()
	p := serveFiles(t, "/", []string{"unix:" + relay.Addr().String()}, map[string]string{
		"x.php": `<?php error_log("warn"); header("X-Own: y");
setcookie("a", "b"); echo "hel"; flush(); usleep(20000);
echo "lo"; error_log("last");`,
	}, func(s *fastcgi.Settings) { s.ReadTimeout = 10 * time.Second })
	answered := make(chan got, 1)
	go func() { answered <- p.get("/x.php") }()
	from := must.Get(relay.Accept())(t)
	defer from.Close()
	to := must.Dial(t, "unix", strings.TrimPrefix(f.Address, "unix:"))
	go io.Copy(to, from)
	var whole strings.Builder
	must.Get(io.Copy(io.MultiWriter(from, &whole), to))(t)
	if g := <-answered; g.body != "hello" || g.err != nil {
		t.Fatal(g)
	}
	t.Logf("%d bytes: %q", whole.Len(), whole.String())
	testMangled(t, whole.String())
}

// testMangled cuts and changes a stream with the body "hello" at every byte.
func testMangled(t *testing.T, whole string) {
	var next atomic.Pointer[string]
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		c.Raw(*next.Load())
		c.Close()
	})
	p := serve(t, []string{up.Address},
		func(s *fastcgi.Settings) { s.ReadTimeout = 10 * time.Second })
	ask := func(stream string) got {
		next.Store(&stream)
		return p.get("/x.php")
	}
	if g := ask(whole); g.status != 200 || g.body != "hello" || g.err != nil {
		t.Error(g)
	}
	// The response is complete without what follows END_REQUEST.
	end := strings.LastIndex(whole, fcgitest.Header(1, 3, 1, 8, 0)) + 16
	for n := range end {
		if g := ask(whole[:n]); g.status == 200 && g.err == nil {
			t.Errorf("cut at %d of %d: %d %q", n, len(whole), g.status, g.body)
		}
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
