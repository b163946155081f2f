package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
)

// anonymous returns the bytes of the process's own memory.
func anonymous(t *testing.T, s *program.Server) (n int) {
	status := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID())))(t))
	for line := range strings.Lines(status) {
		if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &n); err == nil {
			return n << 10
		}
	}
	t.Fatal("there is no RssAnon")
	return 0
}

// An idle member takes little, in rooms of ten: 0.9 kB in use, and what Go has not collected after
// a burst of joins.
func TestMemory(t *testing.T) {
	const first, many, most = 100, 2900, 4000
	s := program.Start(t, "-per-address", "0")
	var all []net.Conn
	var joined sync.WaitGroup
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	join := func(n int) {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, byte(1+n/500))}}
		c := must.Get(from.Dial("tcp", s.Address))(t)
		all = append(all, c)
		fmt.Fprintf(c, "GET /ws-chat?room=room%d&name=Person%d HTTP/1.1\r\nHost: x\r\n"+
			"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", n/10, n)
		must.Do(t, c.SetReadDeadline(time.Now().Add(patience)))
		joined.Add(1)
		go func() {
			got, b := "", make([]byte, 4096)
			for !strings.Contains(got, `"presence"`) {
				n, err := c.Read(b)
				if got += string(b[:n]); err != nil {
					t.Errorf("%v after %q", err, got)
					break
				}
			}
			joined.Done()
			_, _ = io.Copy(io.Discard, c)
		}()
	}
	for n := range first {
		join(n)
	}
	joined.Wait()
	before := anonymous(t, s)
	for n := range many {
		join(first + n)
	}
	joined.Wait()
	each := (anonymous(t, s) - before) / many
	if t.Logf("%d bytes each", each); each > most {
		t.Errorf("a member takes %d bytes, at most %d are allowed", each, most)
	}
}
