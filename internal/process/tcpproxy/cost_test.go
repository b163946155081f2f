package tcpproxy_test

import (
	"net"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
	"golang.org/x/sys/unix"
)

// TestIdleIsCheap: an idle connection, both sides and what the clients and upstreams of the test
// have, takes less than 3 KiB, after bytes have gone both ways.
func TestIdleIsCheap(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector has memory of its own")
	const n = 1000
	ln := must.Listen(t)
	s := serve(t, "[[stream]]\nLISTEN\nmax_connections = 2000\nmax_connections_per_address = -1\n"+
		"[[stream.route]]\naddress = '"+ln.Addr().String()+"'\n")
	at := must.Get(net.ResolveTCPAddr("tcp", s.at))(t)
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
		s.settle()
		return leak.InUse()
	}
	open := func(n int) {
		for range n {
			fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
			fds = append(fds, fd)
			must.Do(t, unix.Connect(fd, &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())}))
			up, _, err := unix.Accept(int(accept.Fd()))
			must.Do(t, err)
			fds = append(fds, up)
			b := make([]byte, 4)
			for _, p := range [][2]int{{fd, up}, {up, fd}} {
				must.Get(unix.Write(p[0], b))(t)
				must.Get(unix.Read(p[1], b))(t)
			}
		}
	}
	open(10)
	before := measure()
	open(n)
	each := (measure() - before) / n
	t.Logf("%d bytes", each)
	if each > 3<<10 {
		t.Errorf("%d bytes each, want 3 KiB", each)
	}
	wait.Until(t, "all", func() bool { return s.counts().Open == n+10 })
}

// TestWaitingIsCheap: a connection that waits for a place, and has sent a little that is kept for
// its upstream, takes less than 20 KiB, both sides of it, its coroutine among that.
func TestWaitingIsCheap(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector has memory of its own")
	const n = 300
	s := serve(t, one+"'"+upstream(t, echo("."))+
		"'\nmax_conns = 1\n[[stream.route]]\nsni = 'x.example'\naddress = '127.0.0.1:1'")
	has := s.dial()
	says(t, has, "x")
	wants(t, has, ".x")
	s.settle()
	before := leak.InUse()
	for range n {
		says(t, s.dial(), "x")
	}
	wait.Until(t, "all wait", func() bool { return s.waiting() == n })
	s.settle()
	each := (leak.InUse() - before) / n
	t.Logf("%d bytes", each)
	if each > 20<<10 {
		t.Errorf("%d bytes each, want 20 KiB", each)
	}
}
