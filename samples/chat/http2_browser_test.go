package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/program"
)

// TestBrowserHTTP2: over TLS the page, its parts, and the chat itself are streams of one
// connection.
func TestBrowserHTTP2(t *testing.T) {
	t.Parallel()
	a := certs.New(t)
	cert, key := a.Files(a.Issue(time.Hour, "127.0.0.1"))
	log := filepath.Join(t.TempDir(), "access.log")
	config := program.Configure(t, t.TempDir(), fmt.Sprintf(
		"[[listener]]\naddress = \"127.0.0.1:0\"\ntls = { cert = %q, key = %q }\n[access_log]\npath = "+
			"%q\nformat = \"json\"\n", cert, key, log))
	s := program.StartConfigured(t, config)
	line := startProxy(t, s.Address)
	address := "https://" + line.Addr().String()
	ann, bob := open(t, 1200, 800), open(t, 390, 800)
	ann.join(address, "garden", "Ann")
	bob.join(address, "garden", "Bob")
	for _, w := range []*tab{ann, bob} {
		w.until(`$("count").textContent === "2"`)
		w.until(`["navigation", "resource"].every((type) =>
			performance.getEntriesByType(type).every((e) => e.nextHopProtocol === "h2"))`)
	}
	ann.begin("Hello")
	bob.until(`$("typing").textContent === "Ann is typing"`)
	ann.say(" Bob")
	bob.sees("Hello Bob")
	bob.say("Hello Ann")
	ann.sees("Hello Ann")
	ann.do(chromedp.Reload())
	ann.state("open")
	ann.sees("Hello Bob")
	ann.say("I am back")
	bob.sees("I am back")
	if code := s.End(t, syscall.SIGTERM); code != 0 { // the lines of sockets are written when they end
		t.Errorf("exit code %d", code)
	}
	text, err := os.ReadFile(log)
	sockets := slices.DeleteFunc(strings.Split(string(text), "\n"), func(l string) bool {
		return !strings.Contains(l, "/ws-chat")
	})
	if len(sockets) != 3 || err != nil {
		t.Errorf("%q, %v", sockets, err)
	}
	for _, l := range sockets {
		if !strings.Contains(l, "HTTP/2.0") {
			t.Error(l)
		}
	}
	// A browser may open a second connection before it knows that the first speaks HTTP/2. Each
	// window has its own.
	if n := line.count(); n > 4 {
		t.Errorf("%d connections", n)
	}
}
