package loop_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

func TestAccept(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		fd, err := loop.Listen("tcp", "127.0.0.1:0", true)
		if err != nil {
			t.Fatal(err)
		}
		addr := loop.LocalAddr(fd).String()
		const n = 200
		got := 0
		if _, err = l.Accept(fd, func(fd int, remote netip.AddrPort) {
			if !remote.Addr().IsLoopback() || remote.Port() == 0 {
				t.Errorf("remote %v", remote)
			}
			unix.Close(fd)
			if got++; got == n {
				l.Stop(time.Minute)
			}
		}); err != nil {
			t.Fatal(err)
		}
		wait := start(t, l)
		for range n {
			c := must.Get(net.Dial("tcp", addr))(t)
			c.Close()
		}
		wait()
		if got != n {
			t.Errorf("%d accepted", got)
		}
	})
}

func TestAcceptGoesOnAfterDescriptorsRanOut(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		fd := must.Get(loop.Listen("tcp", "127.0.0.1:0", false))(t)
		addr := loop.LocalAddr(fd).String()
		accepted := make(chan int, 1)
		must.Get(l.Accept(fd, func(fd int, _ netip.AddrPort) { accepted <- fd }))(t)
		c, err := net.Dial("tcp", addr) // waits in the kernel's queue
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var old unix.Rlimit
		must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
		must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: old.Max}))
		ticks, stopTicks := make(chan struct{}), false
		l.Go(func(th *loop.Thread) { // goes on meanwhile
			for i := 0; !stopTicks; i++ {
				_ = th.Sleep(time.Millisecond)
				if i == 100 {
					close(ticks)
				}
			}
		})
		wait := start(t, l)
		<-ticks
		var waits int64
		on(t, l, func() { waits = l.Stats().Waits })
		if waits > 1000 {
			t.Errorf("%d returns of epoll_wait in 100 ms: the listener spins", waits)
		}
		must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
		select {
		case fd := <-accepted:
			unix.Close(fd)
		case <-time.After(30 * time.Second):
			t.Error("not accepted once there were descriptors again")
		}
		on(t, l, func() { stopTicks = true })
		l.Stop(time.Second)
		wait()
	})
}

func TestListenErrors(t *testing.T) {
	fd := must.Get(loop.Listen("tcp", "127.0.0.1:0", false))(t)
	defer unix.Close(fd)
	for _, row := range []struct{ network, address, want string }{
		{"tcp", loop.LocalAddr(fd).String(), "address already in use"},
		{"tcp", "127.0.0.1", "want host:port"},
		{"tcp", "127.0.0.1:http", `port "http": want 0 to 65535`},
		{"tcp", "127.0.0.1:65536", "want 0 to 65535"},
		{"tcp", "example.org:80", "want an IP address or *"},
		{"tcp", "[::1%nosuch]:0", "no such network interface"},
		{"udp", "127.0.0.1:0", "network must be tcp or unix"},
		{"unix", "/nonexistent/dir/sock", "no such file or directory"},
	} {
		if _, err := loop.Listen(row.network, row.address, false); err == nil ||
			!strings.Contains(err.Error(), row.want) {
			t.Errorf("Listen(%q, %q): %v, want %q in it", row.network, row.address, err, row.want)
		}
	}
}
