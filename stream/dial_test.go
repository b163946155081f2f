package stream_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

// names returns a resolver that knows the given addresses. Other names do not exist.
func names(table map[string][]string) *net.Resolver {
	answer := func(query []byte) []byte {
		name, rest := "", query[12:]
		for n := int(rest[0]); n > 0; n = int(rest[0]) {
			name += string(rest[1:1+n]) + "."
			rest = rest[1+n:]
		}
		kind := binary.BigEndian.Uint16(rest[1:])
		addrs := table[strings.TrimSuffix(name, ".")]
		reply := append([]byte(nil), query[:2]...)
		reply = append(reply, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0) // an answer with one question
		if len(addrs) == 0 {
			reply[3] |= 3 // there is no such name
		}
		reply = append(reply, query[12:len(query)-len(rest)+5]...)
		for _, a := range addrs {
			ip := netip.MustParseAddr(a)
			if want := map[bool]uint16{true: 1, false: 28}[ip.Is4()]; want != kind {
				continue
			}
			reply[7]++
			reply = append(reply,
				0xC0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 60, 0, byte(len(ip.AsSlice())))
			reply = append(reply, ip.AsSlice()...)
		}
		return reply
	}
	return &net.Resolver{PreferGo: true, Dial: func(
		context.Context, string, string,
	) (net.Conn, error) {
		client, server := net.Pipe() // a stream: each message begins with its length
		go func() {
			defer server.Close()
			for {
				query := make([]byte, 2)
				if _, err := io.ReadFull(server, query); err != nil {
					return
				}
				query = make([]byte, binary.BigEndian.Uint16(query))
				if _, err := io.ReadFull(server, query); err != nil {
					return
				}
				reply := answer(query)
				_, _ = server.Write(append(
					binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
			}
		}()
		return client, nil
	}}
}

// noAnswer makes a resolver that gives no answer until it is told to give up. A test must not share
// one resolver between several look-ups of a name at a time: they would be one look-up.
func noAnswer() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(
		ctx context.Context, _, _ string,
	) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
}

// deaf listens at an address with its queue full: a client that connects has to wait. free accepts
// one client.
func deaf(t *testing.T, network, address string) (free func()) {
	t.Helper()
	free, err := tryDeaf(t, network, address)
	must.Do(t, err)
	return free
}

func tryDeaf(t *testing.T, network, address string) (free func(), err error) {
	t.Helper()
	fd, err := loop.Listen(network, address, false)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { unix.Close(fd) })
	must.Do(t, unix.Listen(fd, 0))
	c, err := net.Dial(network, address)
	must.Do(t, err)
	t.Cleanup(func() { c.Close() })
	return func() {
		n, _, err := unix.Accept(fd)
		must.Do(t, err)
		unix.Close(n)
	}, nil
}

// deafBeside returns a port where 127.0.0.4 listens and 127.0.0.2 is deaf. A port that the kernel
// chose because it is free at one address can be in use at the other; then it chooses again.
func deafBeside(t *testing.T) (port string) {
	t.Helper()
	for {
		port = listening(t, "127.0.0.4")
		_, err := tryDeaf(t, "tcp", "127.0.0.2:"+port)
		if !errors.Is(err, unix.EADDRINUSE) {
			must.Do(t, err)
			return port
		}
	}
}

// listening is an address and its port.
func listening(t *testing.T, ip string) (port string) {
	t.Helper()
	ln, err := net.Listen("tcp", ip+":0")
	must.Do(t, err)
	t.Cleanup(func() { ln.Close() })
	_, port, _ = net.SplitHostPort(ln.Addr().String())
	return port
}

func openDescriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	return len(entries)
}

// TestDialTriesAddressesInOrder: 127.0.0.2 does not answer, 127.0.0.3 refuses, 127.0.0.4 listens.
func TestDialTriesAddressesInOrder(t *testing.T) {
	port := deafBeside(t)
	resolver := names(map[string][]string{
		"good.test":    {"127.0.0.4"},
		"refused.test": {"127.0.0.3", "127.0.0.4"},
		"slow.test":    {"127.0.0.2", "127.0.0.4", "127.0.0.2"},
		"mixed.test":   {"127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.3", "127.0.0.4"},
		"silent.test":  {"127.0.0.2", "127.0.0.2"},
		"closed.test":  {"127.0.0.3", "127.0.0.5"},
		"both.test":    {"127.0.0.2", "127.0.0.3"},
		"sixth.test":   {"::1", "127.0.0.4"}, // ::1 refuses, if there is IPv6 at all
	})
	const quick, never = 10 * time.Millisecond, time.Hour
	tests := []struct {
		network, host string
		delay         time.Duration
		want          error // nil: 127.0.0.4
		least         time.Duration
	}{
		{"tcp", "good.test", never, nil, 0},
		{"tcp", "refused.test", never, nil, 0},
		{"tcp", "refused.test", -1, nil, 0},
		{"tcp", "slow.test", 50 * time.Millisecond, nil, 50 * time.Millisecond},
		{"tcp", "mixed.test", quick, nil, 2 * quick},
		{"tcp", "silent.test", quick, loop.ErrDeadlineExceeded, 250 * time.Millisecond},
		{"tcp", "silent.test", -1, loop.ErrDeadlineExceeded, 250 * time.Millisecond},
		{"tcp", "closed.test", quick, syscall.ECONNREFUSED, 0},
		{"tcp", "closed.test", -1, syscall.ECONNREFUSED, 0},
		{"tcp", "both.test", quick, loop.ErrDeadlineExceeded, 250 * time.Millisecond},
		{"tcp", "sixth.test", never, nil, 0},
		{"tcp4", "sixth.test", never, nil, 0},
		{"tcp", "127.0.0.4", never, nil, 0},
		{"tcp4", "::ffff:127.0.0.4", never, nil, 0},
		{"tcp", "127.0.0.2", never, loop.ErrDeadlineExceeded, 250 * time.Millisecond},
		{"tcp", "127.0.0.3", never, syscall.ECONNREFUSED, 0},
		{"tcp", "unanswered.test", never, loop.ErrDeadlineExceeded, 250 * time.Millisecond},
	}
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		for _, test := range tests {
			l.Go(func(th *loop.Thread) {
				what := fmt.Sprintf("%s %s after %v", test.network, test.host, test.delay)
				d := stream.Dialer{
					Timeout: 20 * time.Second, FallbackDelay: test.delay, Resolver: resolver,
				}
				if test.host == "unanswered.test" {
					d.Resolver = noAnswer()
				}
				if test.want == loop.ErrDeadlineExceeded {
					d.Timeout = test.least
				}
				began := time.Now()
				s, err := d.Dial(th, test.network, net.JoinHostPort(test.host, port))
				if took := time.Since(began); took < test.least {
					t.Errorf("%s: after %v, want %v", what, took, test.least)
				}
				if test.want == nil {
					if err != nil {
						t.Errorf("%s: %v", what, err)
						return
					}
					nodelay, err := unix.GetsockoptInt(
						stream.FD(s), unix.IPPROTO_TCP, unix.TCP_NODELAY)
					if got := s.RemoteAddr().String(); got != "127.0.0.4:"+port ||
						nodelay != 1 || err != nil {
						t.Errorf("%s: connected to %s, TCP_NODELAY %d, %v", what, got, nodelay, err)
					}
					_ = s.Close()
					return
				}
				var detail *net.OpError
				if !errors.Is(err, test.want) || !errors.As(err, &detail) || detail.Op != "dial" ||
					detail.Timeout() != (test.want == loop.ErrDeadlineExceeded) {
					t.Errorf("%s: %v, want %v", what, err, test.want)
				}
			})
		}
		before := openDescriptors(t)
		l.Go(func(th *loop.Thread) {
			for l.Threads() > 1 {
				_ = th.Sleep(time.Millisecond)
			}
			// A look-up that nobody waits for any more may still have a socket. The loop is held.
			wait.Until(t, "its descriptors closed", func() bool { return openDescriptors(t) <= before })
		})
	})
}

func TestDialRefusesWhatMakesNoSense(t *testing.T) {
	resolver := names(map[string][]string{"six.test": {"::1"}})
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		for _, test := range []struct{ network, address, want string }{
			{"udp", "127.0.0.1:1", "dial udp: unknown network udp"},
			{"tcp", "127.0.0.1", "dial tcp: address 127.0.0.1: missing port in address"},
			{"tcp", "127.0.0.1:99999", "dial tcp: address 99999: invalid port"},
			{"tcp", "127.0.0.1:no-such-service",
				"dial tcp: lookup tcp/no-such-service: unknown port"},
			{"tcp4", "[::1]:1", "dial tcp4: address ::1: no suitable address"},
			{"tcp6", "127.0.0.1:1", "dial tcp6: address 127.0.0.1: no suitable address"},
			{"tcp", "none.test:1", "dial tcp: lookup none.test"},
			{"tcp4", "six.test:1", "dial tcp4: lookup six.test"},
			{"tcp", "127.0.0.1:telnet", "dial tcp 127.0.0.1:23: connect: connection refused"},
			{"unix", "/no/such/socket",
				"dial unix /no/such/socket: connect: no such file or directory"},
			{"unix", strings.Repeat("x", 200), "dial unix xxx"},
		} {
			l.Go(func(th *loop.Thread) {
				d := stream.Dialer{Resolver: resolver}
				_, err := d.Dial(th, test.network, test.address)
				var detail *net.OpError
				if err == nil || !strings.HasPrefix(err.Error(), test.want) ||
					!errors.As(err, &detail) {
					t.Errorf("%s %s: %v, want %s", test.network, test.address, err, test.want)
				}
				var noName *net.DNSError
				if strings.HasPrefix(test.address, "none") &&
					(!errors.As(err, &noName) || !noName.IsNotFound) {
					t.Errorf("%v is no DNSError", err)
				}
			})
		}
	})
}

// TestDialByName dials names of hosts and services as this machine knows them, and an address
// without a host.
func TestDialByName(t *testing.T) {
	port := listening(t, "127.0.0.1")
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			for _, host := range []string{"localhost", "127.0.0.1", "", "0.0.0.0"} {
				s, err := stream.Dial(th, 10*time.Second, "tcp4", host+":"+port)
				if err != nil {
					t.Errorf("%q: %v", host, err)
					continue
				}
				_ = s.Close()
			}
		})
	})
}

// TestLookUpHoldsNobodyUp: the resolver answers only when another thread of the loop has run.
func TestLookUpHoldsNobodyUp(t *testing.T) {
	port := listening(t, "127.0.0.1")
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		asked, answer := new(loop.Promise[int]), make(chan struct{})
		resolver := names(map[string][]string{"name.test": {"127.0.0.1"}})
		dial := resolver.Dial
		resolver.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			asked.Resolve(0)
			<-answer
			return dial(ctx, network, address)
		}
		l.Go(func(th *loop.Thread) {
			d := stream.Dialer{Resolver: resolver}
			s, err := d.Dial(th, "tcp", "name.test:"+port)
			if err != nil {
				t.Error(err)
				return
			}
			_ = s.Close()
		})
		l.Go(func(th *loop.Thread) {
			_, _ = asked.Await(th, -1)
			close(answer)
		})
	})
}

// TestDialEndsWithItsThread: the client leaves, or the thread is canceled or killed, in each of the
// ways in which a Dial waits. No descriptor is left, and no look-up goes on: the package's check
// for goroutines would see it.
func TestDialEndsWithItsThread(t *testing.T) {
	port := deafBeside(t)
	path := filepath.Join(t.TempDir(), "socket")
	deaf(t, "unix", path)
	resolver := names(map[string][]string{"silent.test": {"127.0.0.2", "127.0.0.2", "127.0.0.2"}})
	for _, target := range []string{
		"tcp silent.test:" + port, "tcp unanswered.test:" + port, "unix " + path,
	} {
		network, address, _ := strings.Cut(target, " ")
		dial := func(th *loop.Thread) error {
			d := stream.Dialer{FallbackDelay: time.Millisecond, Resolver: resolver}
			if strings.Contains(address, "unanswered") {
				d.Resolver = noAnswer()
			}
			_, err := d.Dial(th, network, address)
			return err
		}
		onLoop(t, func(t *testing.T, l *loop.Loop) {
			// A look-up that nothing waits for any more may have a file of the system open. It is
			// not on the loop, which may therefore be held until then.
			noneLeft := func(what string, before int) {
				t.Helper()
				wait.Until(t, what+": its descriptors closed", func() bool {
					return openDescriptors(t) <= before // one of an earlier look-up may have counted
				})
			}
			var dialing, ended loop.Promise[int]
			before := 0
			srv, err := stream.StartServer(l, "tcp", "127.0.0.1:0", -1, func(
				th *loop.Thread, s *stream.Conn,
			) error {
				before = openDescriptors(t)
				dialing.Resolve(0)
				wants(t, target+": client left", dial(th), loop.ErrClientGone, "dial")
				noneLeft(target+": client left", before-1) // without the client's own
				ended.Resolve(0)
				return io.EOF
			})
			must.Do(t, err)
			l.Go(func(th *loop.Thread) {
				c, err := stream.Dial(th, -1, "tcp", srv.Addr().String())
				must.Do(t, err)
				_, _ = c.Write([]byte("x"))
				_, _ = dialing.Await(th, -1)
				_ = th.Sleep(5 * time.Millisecond) // several attempts are under way
				_ = c.Close()
				_, _ = ended.Await(th, -1)
				_ = srv.Close()

				th.Go(func(th *loop.Thread) error {
					wants(t, target+": canceled", dial(th), loop.ErrCanceled, "dial")
					return nil
				})
				_ = th.Sleep(5 * time.Millisecond)
				th.Cancel()
				_ = th.Join()

				before = openDescriptors(t)
				l.Go(func(th *loop.Thread) {
					defer func() { noneLeft(target+": killed", before) }()
					_ = dial(th)
					t.Error("a killed thread goes on")
				})
				_ = th.Sleep(5 * time.Millisecond)
				l.Stop(0)
			})
		})
	}
}

func TestDialUnixWaitsForRoom(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		path := filepath.Join(t.TempDir(), "socket")
		free := deaf(t, "unix", path)
		l.Go(func(th *loop.Thread) {
			_, err := stream.Dial(th, 20*time.Millisecond, "unix", path)
			wants(t, "no room", err, loop.ErrDeadlineExceeded, "dial")
			th.Go(func(th *loop.Thread) error {
				_ = th.Sleep(5 * time.Millisecond)
				free()
				return nil
			})
			s, err := stream.Dial(th, 20*time.Second, "unix", path)
			if err != nil {
				t.Error(err)
				return
			}
			if got := s.RemoteAddr().String(); got != path {
				t.Errorf("connected to %s", got)
			}
			_ = s.Close()
		})
	})
}

func TestDialWithoutDescriptors(t *testing.T) {
	port := listening(t, "127.0.0.1")
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			before := openDescriptors(t)
			restore := noDescriptors(t)
			_, err := stream.Dial(th, -1, "tcp", "127.0.0.1:"+port)
			_, unixErr := stream.Dial(th, -1, "unix", "/no/matter")
			restore()
			wants(t, "tcp", err, syscall.EMFILE, "dial")
			wants(t, "unix", unixErr, syscall.EMFILE, "dial")
			// A look-up that nobody waits for any more may still have a socket. The loop is held.
			wait.Until(t, "its descriptors closed", func() bool { return openDescriptors(t) <= before })
		})
	})
}

// TestDialWaitsQuietly: the loop is not kept busy by attempts that wait, nor by an upstream that
// has closed or reset a connection from which no thread reads.
func TestDialWaitsQuietly(t *testing.T) {
	port := deafBeside(t)
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		quiet := func(th *loop.Thread, what string) {
			before := l.Stats().Waits
			_ = th.Sleep(50 * time.Millisecond)
			if n := l.Stats().Waits - before; n > 10 && !invariants.Enabled {
				t.Errorf("%s: %d turns of the loop", what, n)
			}
		}
		l.Go(func(th *loop.Thread) {
			for _, reset := range []bool{false, true} {
				x, y := sockets(t, "tcp")
				up, err := stream.New(l, x)
				must.Do(t, err)
				_, _ = unix.Write(y, []byte("unread"))
				if reset {
					must.Do(t, unix.SetsockoptLinger(
						y, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
				}
				unix.Close(y)
				quiet(th, fmt.Sprint("upstream gone, reset ", reset))
				_, err = io.ReadAll(up)
				if errors.Is(err, syscall.ECONNRESET) != reset {
					t.Errorf("reset %v: %v", reset, err)
				}
				quiet(th, fmt.Sprint("upstream read, reset ", reset))
				_ = up.Close()
			}
			th.Go(func(th *loop.Thread) error {
				_, _ = stream.Dial(th, 200*time.Millisecond, "tcp", "127.0.0.2:"+port)
				return nil
			})
			th.Yield()
			quiet(th, "dialing")
			_ = th.Join()
		})
	})
}

func TestFamiliesTakeTurns(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"1.1.1.1", "1.1.1.1"},
		{"1.1.1.1 1.1.1.2", "1.1.1.1 1.1.1.2"},
		{"::1 ::2 ::3 1.1.1.1 1.1.1.2", "::1 1.1.1.1 ::2 1.1.1.2 ::3"},
		{"1.1.1.1 ::1 ::2 1.1.1.2", "1.1.1.1 ::1 1.1.1.2 ::2"},
		{"::ffff:1.1.1.1 1.1.1.2 ::1", "::ffff:1.1.1.1 ::1 1.1.1.2"},
	} {
		var ips []netip.Addr
		for _, s := range strings.Fields(test.in) {
			ips = append(ips, netip.MustParseAddr(s))
		}
		var got []string
		for _, ip := range stream.ByTurns(ips) {
			got = append(got, ip.String())
		}
		if !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%s: %s, want %s", test.in, got, test.want)
		}
	}
}
