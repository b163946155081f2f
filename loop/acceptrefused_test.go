package loop_test

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestAcceptRefused: accept4 fails each time with an error that passes as a rule. The loop goes on
// and does not spin. It is done in another process, for which the call is refused.
func TestAcceptRefused(t *testing.T) {
	const variable = "LWANGO_ACCEPT_REFUSED"
	if os.Getenv(variable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestAcceptRefused$", "-test.timeout=20s")
		cmd.Env = append(os.Environ(), variable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	refuse.Refuse(unix.EPERM, unix.SYS_ACCEPT4)
	run(t, func(t *testing.T, l *loop.Loop) {
		var fds [2]int
		for i := range fds {
			var err error
			if fds[i], err = loop.Listen("tcp", "127.0.0.1:0", false); err != nil {
				t.Fatal(err)
			}
			must.Dial(t, "tcp", loop.LocalAddr(fds[i]).String()) // waits in the kernel's queue
		}
		must.Get(l.Accept(fds[0],
			func(int, netip.AddrPort) { t.Error("accepted") }))(t)
		var d loop.Shared
		must.Do(t, l.Layer().Register(&d, fds[1]))
		var waits int64
		l.Go(func(th *loop.Thread) {
			if _, _, err := new(loop.Acceptor).Accept(th, &d.Descriptor); err != net.ErrClosed {
				t.Errorf("Accept: %v", err)
			}
			l.Layer().CloseDescriptor(&d.Descriptor)
		})
		l.Go(func(th *loop.Thread) {
			for range 100 {
				_ = th.Sleep(time.Millisecond)
			}
			waits = l.Stats().Waits
			l.Stop(time.Second)
		})
		mustRun(t, l)
		if waits > 1000 {
			t.Errorf("%d returns of epoll_wait in 100 ms: the listener spins", waits)
		}
	})
}
