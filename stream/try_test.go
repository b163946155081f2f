package stream_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestTrySend: two parts go out in their order, as far as there is room, and without a wait.
func TestTrySend(t *testing.T) {
	size := 16 << 20 // more than two kernels hold
	if invariants.Enabled {
		size = 256 << 10 // writes are short
	}
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		for _, network := range []string{"tcp", "unix"} {
			l.Go(func(th *loop.Thread) {
				a, b := pair(t, l, network)
				if invariants.Enabled { // less has room, whether or not a write is forced to find none
					must.Do(t, unix.SetsockoptInt(a.FD(), unix.SOL_SOCKET, unix.SO_SNDBUF, 32<<10))
					must.Do(t, unix.SetsockoptInt(b.FD(), unix.SOL_SOCKET, unix.SO_RCVBUF, 32<<10))
				}
				head, body := chacha(100), chacha(size)
				want := append(bytes.Clone(head), body...)
				stuck := 0
				for p, q := head, body; len(p)+len(q) > 0; {
					n, err := a.TrySend(p, q)
					if err == stream.ErrWouldBlock {
						if stuck++; stuck == 1 {
							th.Go(func(*loop.Thread) error {
								got := must.Get(io.ReadAll(b))(t)
								if !bytes.Equal(got, want) {
									t.Errorf("%s: got %d bytes, want %d", network, len(got), len(want))
								}
								return nil
							})
						}
						must.Do(t, a.AwaitWrite(-1))
						continue
					}
					must.Do(t, err)
					k := min(n, len(p))
					p, q = p[k:], q[n-k:]
				}
				if stuck == 0 {
					t.Errorf("%s: there was room for all", network)
				}
				must.Do(t, a.CloseWrite())
				_ = th.Join()
				must.Do(t, a.Close())
				_, err := a.TrySend(head, body)
				wants(t, "closed", err, net.ErrClosed, "write")
				_ = b.Close()
			})
		}
	})
}
