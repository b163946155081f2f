package stream

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// Dialer makes connections. The zero value is ready for use.
type Dialer struct {
	// Timeout limits the whole Dial, the look-up of the name included; 0 or negative: only the
	// kernel's limits.
	Timeout time.Duration

	// FallbackDelay is how long Dial tries one address of a name alone, before it tries the next
	// one at the same time (RFC 8305, section 5); 0: 250 ms; negative: until the first one has
	// failed.
	FallbackDelay time.Duration

	// Resolver looks names up; nil: net.DefaultResolver.
	Resolver *net.Resolver

	// Source is this machine's address in TCP connections; the zero Addr: the kernel chooses it.
	// Connections to different servers may share a port (IP_BIND_ADDRESS_NO_PORT, ip(7)).
	Source netip.Addr
}

// Dial is Dialer.Dial within d; negative: without limit.
func Dial(t *loop.Thread, d time.Duration, network, address string) (*Conn, error) {
	if d == 0 {
		d = 1 // for a Dialer, 0 is no limit
	}
	by := Dialer{Timeout: d}
	return by.Dial(t, network, address)
}

// Dial connects to an address: network "tcp", "tcp4" or "tcp6" with host:port, or "unix" with a
// path. t is the calling thread. The resolver looks up names of hosts and services off the loop.
// Dial tries a host's addresses in the resolver's order, the two families by turns, with staggered
// starts; the first that connects wins (RFC 8305).
//
// The error is a *net.OpError. It holds the error of the first address that failed, a
// *net.DNSError, loop.ErrDeadlineExceeded, loop.ErrClientGone or loop.ErrCanceled. However Dial
// ends, it leaves no descriptor behind but the stream's.
func (d *Dialer) Dial(t *loop.Thread, network, address string) (*Conn, error) {
	l := t.Loop()
	l.Layer().Check()
	a := attempts{Dialer: d, thread: t, network: network}
	if d.Timeout > 0 {
		a.deadline = instantOf(l, time.Now().Add(d.Timeout))
	}
	var s *Conn
	var addr net.Addr
	var err error
	switch network {
	case "unix":
		if s, err = a.dialUnix(address); err != nil {
			addr = &net.UnixAddr{Net: network, Name: address}
		}
	case "tcp", "tcp4", "tcp6":
		var addrs []netip.AddrPort
		if addrs, err = a.resolve(address); err == nil {
			addr = net.TCPAddrFromAddrPort(addrs[0])
			s, err = a.dialTCP(addrs)
		}
	default:
		err = net.UnknownNetworkError(network)
	}
	if err == nil {
		return s, nil
	}
	if _, ok := err.(*net.OpError); ok { // an attempt's, with the address
		return nil, err
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: addr, Err: err}
}

// attempts is the state of one Dial.
type attempts struct {
	*Dialer
	thread  *loop.Thread
	network string
	Limit
	running  []attempt
	next     *loop.Timer // when to try another address; nil: when no attempt is running
	firstErr error       // the error of the first attempt that failed
}

// attempt is an attempt to connect to one address.
type attempt struct {
	stream   *Conn
	writable *loop.Readiness
}

func (a *attempts) dialTCP(addrs []netip.AddrPort) (*Conn, error) {
	defer a.closeAll() // also when the thread is killed
	for {
		if len(addrs) > 0 && (len(a.running) == 0 || a.next.Ready()) {
			to := addrs[0]
			if addrs = addrs[1:]; len(addrs) > 0 {
				a.next = a.nextAfter()
			} else {
				a.next = nil
			}
			a.start(to)
			continue
		}
		if len(a.running) == 0 {
			return nil, a.firstErr
		}
		left, err := a.Left(a.thread.Loop())
		if err != nil {
			return nil, err
		}
		sources := make([]loop.Source, 0, 4)
		for _, r := range a.running {
			sources = append(sources, r.writable)
		}
		i, err := a.thread.AwaitAny(left, append(sources, a.next)...)
		if err != nil {
			return nil, err
		}
		if i == len(a.running) {
			continue // it is time for the next one
		}
		s := a.running[i].stream
		a.running = slices.Delete(a.running, i, i+1)
		if err = s.connected(); err == nil {
			return s, nil
		}
		_ = s.Close()
		a.failed(s.remote, err)
	}
}

// nextAfter returns the timer that says when to try the next address; nil: when no attempt is
// running.
func (a *attempts) nextAfter() *loop.Timer {
	switch {
	case a.FallbackDelay < 0:
		return nil
	case a.FallbackDelay == 0:
		return a.thread.After(250 * time.Millisecond)
	}
	return a.thread.After(a.FallbackDelay)
}

// start begins to connect to an address.
func (a *attempts) start(to netip.AddrPort) {
	var s *Conn
	fd, err := connectTCP(to, a.Source)
	if err == nil {
		if s, err = open(a.thread.Loop(), fd); err != nil {
			sysio.Close(fd)
		}
	}
	if err != nil {
		a.failed(to, err)
		return
	}
	s.remote = to
	a.running = append(a.running, attempt{s, s.d.Writable()})
}

// failed notes the error of an attempt, and makes the next one begin at once.
func (a *attempts) failed(to netip.AddrPort, err error) {
	if a.next != nil {
		a.next.Reset(0)
	}
	if a.firstErr == nil {
		a.firstErr = &net.OpError{
			Op: "dial", Net: a.network, Addr: net.TCPAddrFromAddrPort(to), Err: err,
		}
	}
}

func (a *attempts) closeAll() {
	for _, r := range a.running {
		_ = r.stream.Close()
	}
}

// connected returns the result of connect(2), once the socket can be written.
func (s *Conn) connected() error {
	errno, err := unix.GetsockoptInt(s.d.FD(), unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if errno != 0 {
		return os.NewSyscallError("connect", unix.Errno(errno))
	}
	if s.remote.Addr().IsLoopback() && loop.LocalAddr(s.d.FD()) == s.remote {
		// No socket listens there, and the kernel has given that port to this socket: it is
		// connected to itself.
		return os.NewSyscallError("connect", unix.ECONNREFUSED)
	}
	return nil
}

func connectTCP(to netip.AddrPort, from netip.Addr) (int, error) {
	family := unix.AF_INET6
	if to.Addr().Is4() {
		family = unix.AF_INET
	}
	sa, err := sysio.Sockaddr(to)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
		unix.IPPROTO_TCP)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("setsockopt", err)
	}
	if from.IsValid() {
		if err := bind(fd, from); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	if err := connect(fd, sa); err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return -1, os.NewSyscallError("connect", err)
	}
	return fd, nil
}

// bind sets the address from which a socket connects.
func bind(fd int, from netip.Addr) error {
	sa, err := sysio.Sockaddr(netip.AddrPortFrom(from, 0))
	if err != nil {
		return err
	}
	sysio.ShareSourcePort(fd)
	return os.NewSyscallError("bind", unix.Bind(fd, sa))
}

// connect is connect(2). If a signal interrupts the call, the kernel goes on connecting.
func connect(fd int, sa unix.Sockaddr) error {
	err := unix.Connect(fd, sa)
	if err == unix.EINTR {
		return unix.EINPROGRESS
	}
	return err
}

// dialUnix connects to a UNIX socket. The kernel does that at once unless the listener's queue is
// full. Then a blocking connect would wait; a non-blocking one fails, and no event says when there
// is room. So dialUnix pauses and tries again.
func (a *attempts) dialUnix(path string) (_ *Conn, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	done := false
	defer func() { // also when the thread is killed
		if !done {
			unix.Close(fd)
		}
	}()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := connect(fd, &unix.SockaddrUnix{Name: path})
		if err == nil {
			break
		}
		if err != unix.EAGAIN {
			return nil, os.NewSyscallError("connect", err)
		}
		left, err := a.Left(a.thread.Loop())
		if err != nil {
			return nil, err
		}
		if left < 0 {
			left = pause
		}
		if err := a.thread.Sleep(min(pause, left)); err != nil {
			return nil, err
		}
	}
	s, err := open(a.thread.Loop(), fd)
	if err != nil {
		return nil, err
	}
	s.unix, done = true, true
	return s, nil
}
