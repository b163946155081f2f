package stream_test

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { leak.Main(m) }

type mode = modes.Mode

var run, serverTLS, chacha = modes.Run, modes.ServerTLS, modes.Noise

var plain, direct, several = modes.Plain, modes.Direct, modes.Several

// quiet is for package loops, which watches it.
var quiet = slog.New(slog.DiscardHandler)

// onLoop runs the same test with each handoff: f starts threads, and the loop runs until they have
// ended.
func onLoop(t *testing.T, f func(t *testing.T, l *loop.Loop)) {
	t.Helper()
	for _, m := range []mode{plain, direct} {
		t.Run(m.Name, func(t *testing.T) {
			l := must.Get(loop.New(loop.Options{Handoff: m.Handoff, Logger: logtext.Quiet}))(t)
			f(t, l)
			late := time.AfterFunc(wait.Patience, func() {
				t.Error("the threads do not end")
				l.Stop(0)
			})
			defer late.Stop()
			if err := l.Run(); err != nil {
				t.Error(err)
			}
		})
	}
}

// sockets returns a connected pair, TCP or UNIX.
func sockets(t *testing.T, network string) (a, b int) {
	t.Helper()
	if network == "unix" {
		fds := must.Get(unix.Socketpair(
			unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))(t)
		return fds[0], fds[1]
	}
	ln := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(ln)
	must.Do(t, unix.Bind(ln, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must.Do(t, unix.Listen(ln, 1))
	addr, err := unix.Getsockname(ln)
	must.Do(t, err)
	a, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must.Do(t, err)
	must.Do(t, unix.Connect(a, addr))
	must.Do(t, unix.SetNonblock(a, true))
	b, _, err = unix.Accept4(ln, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	must.Do(t, err)
	must.Do(t, unix.SetsockoptInt(a, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	must.Do(t, unix.SetsockoptInt(b, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	return a, b
}

// pair returns a connection with both ends on the loop.
func pair(t *testing.T, l *loop.Loop, network string) (a, b *stream.Conn) {
	t.Helper()
	x, y := sockets(t, network)
	a, err := stream.New(l, x)
	must.Do(t, err)
	b, err = stream.New(l, y)
	must.Do(t, err)
	return a, b
}

// wants checks that an error is want, inside an *net.OpError of that operation.
func wants(t *testing.T, what string, err, want error, op string) {
	t.Helper()
	var detail *net.OpError
	if !errors.Is(err, want) || !errors.As(err, &detail) || detail.Op != op ||
		detail.Addr == nil && op != "dial" {
		t.Errorf("%s: %v (%T), want %v from %s", what, err, err, want, op)
	}
}

// fill writes until the peer has no more room. TCP may find some more after a while.
func fill(s *stream.Conn) {
	for stuck := 0; stuck < 2; stuck++ {
		_ = s.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		if n, _ := s.Write(make([]byte, 1<<20)); n > 0 {
			stuck = 0
		}
	}
	_ = s.SetWriteDeadline(time.Time{})
}
