package conn_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestClientVanishes: a client whose machine is gone sends neither FIN nor reset. A handler that
// sends nothing learns of it all the same, since the kernel asks the client's. The test leaves it
// to the server that the kernel asks, and only lets it do so sooner.
func TestClientVanishes(t *testing.T) {
	t.Parallel()
	atOnce(t, func(t *testing.T, m mode) {
		for name, until := range map[string]func(req *conn.Request, resp *conn.Response) error{
			"await": func(req *conn.Request, _ *conn.Response) error {
				_, err := req.AwaitAny(-1, new(loop.Promise[int]))
				return err
			},
			"event stream": func(req *conn.Request, resp *conn.Response) error {
				resp.Header().Set("Content-Type", "text/event-stream")
				if err := resp.Flush(); err != nil {
					return err
				}
				return req.Sleep(1 << 60)
			},
			"hijacked": func(req *conn.Request, resp *conn.Response) error {
				s, _, err := resp.Hijack()
				if err != nil {
					return err
				}
				defer s.Close()
				_, err = s.Read(make([]byte, 1))
				return err
			},
		} {
			if m.HTTP2 && name == "hijacked" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				entered, left := make(chan struct{}), make(chan error, 1)
				s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
					close(entered)
					left <- until(req, resp)
					return 200
				}})
				var raw syscall.RawConn
				c := s.DialBy(&net.Dialer{Control: func(_, _ string, rc syscall.RawConn) error {
					raw = rc
					return nil
				}})
				send(t, c, get)
				<-entered
				s.Settle()
				fd := acceptedFrom(c)
				// Bytes that nobody acknowledges are sent again and again instead.
				wait.Until(t, "all is acknowledged", func() bool { return sysio.Unsent(fd) == 0 })
				for option, got := range hurryProbes(fd) {
					want := map[string]int{"keepalive": 1, "idle": 60, "interval": 15, "count": 4}[option]
					if got != want {
						t.Errorf("%s of the accepted socket: %d, want %d", option, got, want)
					}
				}
				if t.Failed() {
					return // nothing would end the wait
				}
				must.Do(t, raw.Control(deafen))
				err := <-left
				if name == "hijacked" && !errors.Is(err, unix.ETIMEDOUT) ||
					name != "hijacked" && !errors.Is(err, loop.ErrClientGone) {
					t.Errorf("the wait has ended with %v", err)
				}
				s.Idle()
			})
		}
	}, direct, overTLS, modes.HTTP2)
}

// acceptedFrom returns the descriptor at which this process has accepted a client of its own; -1:
// none.
func acceptedFrom(c net.Conn) int {
	client := c.LocalAddr().(*net.TCPAddr).AddrPort() // of IPv4
	for fd := range 4096 {
		if sysio.PeerAddr(fd) == client {
			return fd
		}
	}
	return -1
}

// hurryProbes makes the kernel ask a second after the last segment, once, if it asks at all. It
// returns what was set before.
func hurryProbes(fd int) map[string]int {
	before := map[string]int{}
	for name, o := range map[string][3]int{
		"keepalive": {unix.SOL_SOCKET, unix.SO_KEEPALIVE, -1},
		"idle":      {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 1},
		"interval":  {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 1},
		"count":     {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 1},
	} {
		before[name], _ = unix.GetsockoptInt(fd, o[0], o[1])
		if o[2] > 0 {
			_ = unix.SetsockoptInt(fd, o[0], o[1], o[2])
		}
	}
	return before
}

// deafen lets no segment reach a socket any more, so that it answers none.
func deafen(fd uintptr) {
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K} // 0 bytes of it pass
	_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: 1, Filter: &drop})
}
