package tcpproxy_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"golang.org/x/sys/unix"
)

// refusing returns an address at which nothing listens.
func refusing(t *testing.T) string {
	ln := must.Listen(t)
	ln.Close()
	return ln.Addr().String()
}

// TestRefused: another address takes the place of one that refuses; without one the client is
// closed.
func TestRefused(t *testing.T) {
	t.Parallel()
	bad, good := refusing(t), upstream(t, echo("good"))
	s := serve(t, one+"['"+bad+"', '"+good+"']")
	for range 4 {
		wants(t, s.dial(), "good")
	}
	s = serve(t, one+"'"+bad+"'")
	wantsEnd(t, s.dial(), "")
	if line := s.log(1)[0]; result(line) != "upstream failed" || !strings.Contains(line, bad) {
		t.Error(line)
	}
	if n := s.counts(); n.Failed != 1 || n.Open != 0 {
		t.Errorf("counts: %+v", n)
	}
}

// TestHangsAtAccept: connect_timeout ends the wait for an upstream whose queue is full, and leads
// to another one.
func TestHangsAtAccept(t *testing.T) {
	t.Parallel()
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	must.Do(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must.Do(t, unix.Listen(fd, 0))
	sa := must.Get(unix.Getsockname(fd))(t).(*unix.SockaddrInet4)
	at := fmt.Sprintf("127.0.0.1:%d", sa.Port)
	dial(t, at)
	wait.Until(t, "a full queue", func() bool { // one more than its length is 0 (tcp(7), TCP_INFO)
		return must.Get(unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO))(t).Unacked > 0
	})
	s := serve(t, one+"['"+at+"', '"+upstream(t, echo("good"))+" backup']\nconnect_timeout = '1h'")
	c := s.dial()
	wait.Until(t, "the connection", func() bool { return s.counts().Open == 1 })
	s.loops.Skip(31 * time.Minute) // half of connect_timeout
	wants(t, c, "good")
}

// TestUpstreamResets: the client gets what the upstream has said, and then a reset: it must not
// take that for all there is. So does one that has ended its half.
func TestUpstreamResets(t *testing.T) {
	t.Parallel()
	const size = 8 << 20 // more than the kernels have room for
	for _, half := range []bool{false, true} {
		for _, words := range []int{0, 10, size} {
			said, reset := make(chan struct{}), make(chan struct{})
			s := serve(t, one+"'"+upstream(t, func(c *net.TCPConn) {
				wants(t, c, "x")
				<-said
				if n, err := c.Write(make([]byte, words)); err != nil {
					t.Errorf("%d of %d, %v", n, words, err)
				}
				for sysUnsent(c) > 0 { // else its kernel drops them at the reset
					time.Sleep(time.Millisecond)
				}
				_ = c.SetLinger(0)
				c.Close()
				close(reset)
			})+"'")
			c := s.dial()
			says(t, c, "x")
			if half {
				must.Do(t, c.CloseWrite())
			}
			close(said)
			if words < size {
				<-reset
				s.settle()
			}
			n, err := io.Copy(io.Discard, c)
			if n != int64(words) || !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("half %v: got %d bytes of %d, %v", half, n, words, err)
			}
			if got := result(s.log(1)[0]); got != "upstream failed" {
				t.Error(got)
			}
		}
	}
}

// sysUnsent returns how many bytes the kernel holds for the peer.
func sysUnsent(c *net.TCPConn) (n int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n = sysio.Unsent(int(fd)) })
	return n
}

// TestLateByte: what a client sends to an upstream that has closed in order is lost to nobody.
func TestLateByte(t *testing.T) {
	t.Parallel()
	s := serve(t, one+"'"+upstream(t, func(c *net.TCPConn) { says(t, c, "bye") })+"'")
	c := s.dial()
	wantsEnd(t, c, "bye")
	says(t, c, "x") // draws a reset
	s.settle()
	must.Do(t, c.CloseWrite())
	if got := result(s.log(1)[0]); got != "complete" {
		t.Error(got)
	}
}

// TestUpstreamFull: an upstream that has said all and closed does not take the answer from a client
// that still sends.
func TestUpstreamFull(t *testing.T) {
	t.Parallel()
	const size = 200 << 10
	s := serve(t, one+"'"+upstream(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 10))
		_, _ = c.Write(make([]byte, size)) // and closes with input unread
	})+"'")
	c := s.dial()
	go func() {
		for {
			if _, err := c.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	}()
	n, err := io.Copy(io.Discard, c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	// The upstream's kernel may have dropped the rest at its reset; that is its own doing.
	t.Logf("%d bytes, %v", n, err)
	c.Close()
	wait.Until(t, "the end", func() bool { return s.counts().Open == 0 })
}

// TestClientLeaves: at each stage, nothing is left of the connection, and the upstream learns of
// it.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	at, came := silence(t)
	s := serve(t, one+"'"+at+"'")
	for _, leave := range []func(c *net.TCPConn){
		func(c *net.TCPConn) { c.Close() },
		func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
		func(c *net.TCPConn) { says(t, c, "x"); _ = c.SetLinger(0); c.Close() },
	} {
		c := s.dial()
		up := <-came
		leave(c)
		_, err := io.ReadAll(up)
		if err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		up.Close()
		wait.Until(t, "the end", func() bool { return s.counts().Open == 0 })
	}
}

// TestNoDescriptors: a client for whose upstream there is no descriptor is closed, and the next one
// is served when there are some. It must not run beside others.
func TestNoDescriptors(t *testing.T) {
	s := serve(t, one+"'"+upstream(t, echo("."))+"'")
	wants(t, s.dial(), ".")
	s.settle()
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		0))(t)
	defer unix.Close(fd)
	at := must.Get(net.ResolveTCPAddr("tcp", s.at))(t)
	free := leak.Exhaust(t)
	err := unix.Connect(fd, &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())})
	if err != nil && err != unix.EINPROGRESS {
		t.Error(err)
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if _, err := unix.Poll(fds, 20_000); err != nil || fds[0].Revents == 0 {
		t.Errorf("not closed: %v", err)
	}
	free()
	wants(t, s.dial(), ".")
}
