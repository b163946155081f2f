package proxy_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"golang.org/x/sys/unix"
)

// TestIdleTunnelIsCheap: an idle WebSocket, both sides of it, takes less than 3 KiB after bytes
// have gone both ways, and no coroutine.
func TestIdleTunnelIsCheap(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector has memory of its own")
	const n = 1000
	ln := must.Listen(t)
	f := serve(t, modes.Direct, "/", []string{ln.Addr().String()}, nil)
	at := must.Get(net.ResolveTCPAddr("tcp", f.Addr))(t)
	accept := must.Get(ln.(*net.TCPListener).File())(t)
	defer accept.Close()
	must.Do(t, unix.SetNonblock(int(accept.Fd()), false))
	fds := make([]int, 0, 2*n)
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	measure := func() int64 {
		f.Settle()
		return leak.InUse()
	}
	b := make([]byte, 4096)
	says := func(from, to int, text, end string) {
		must.Get(unix.Write(from, []byte(text)))(t)
		for got := ""; !strings.HasSuffix(got, end); {
			k := must.Get(unix.Read(to, b))(t)
			if k == 0 {
				t.Fatal(io.ErrUnexpectedEOF, got)
			}
			got += string(b[:k])
		}
	}
	open := func(n int) {
		for range n {
			fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
			fds = append(fds, fd)
			must.Do(t, unix.Connect(fd, &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())}))
			must.Get(unix.Write(fd, []byte(asksUpgrade)))(t)
			up, _, err := unix.Accept(int(accept.Fd()))
			must.Do(t, err)
			fds = append(fds, up)
			says(fd, up, "", "\r\n\r\n")
			says(up, fd, "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "\r\n\r\n")
			says(fd, up, "\x81\x84abcdabcd", "abcd")
			says(up, fd, "\x81\x04abcd", "abcd")
		}
	}
	open(10)
	before := measure()
	open(n)
	each := (measure() - before) / n
	t.Log(fmt.Sprint(each, " bytes"))
	if each > 3<<10 {
		t.Errorf("%d bytes each, want 3 KiB", each)
	}
}
