package conn

import (
	"net"
	"net/netip"
	"time"

	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// LocalAddr implements net.Conn. Asked for after Close for the first time, it is empty.
func (s *Stream) LocalAddr() net.Addr {
	switch {
	case s.local != nil:
		return s.local
	case s.gone() && s.unix:
		return &net.UnixAddr{Net: "unix"}
	case s.gone():
		return &net.TCPAddr{}
	case s.unix:
		s.local = unixAddr(unix.Getsockname(s.d.FD()))
	default:
		s.local = net.TCPAddrFromAddrPort(loop.LocalAddr(s.d.FD()))
	}
	return s.local
}

// RemoteAddr implements net.Conn.
func (s *Stream) RemoteAddr() net.Addr {
	switch {
	case !s.unix:
		return net.TCPAddrFromAddrPort(s.remote)
	case s.gone():
		return &net.UnixAddr{Net: "unix"}
	}
	return unixAddr(unix.Getpeername(s.d.FD()))
}

func unixAddr(sa unix.Sockaddr, _ error) net.Addr {
	addr := &net.UnixAddr{Net: "unix"}
	if sa, ok := sa.(*unix.SockaddrUnix); ok {
		addr.Name = sa.Name
	}
	return addr
}

func addrOf(network, path string, tcp netip.AddrPort) net.Addr {
	if network == "unix" {
		return &net.UnixAddr{Net: network, Name: path}
	}
	return net.TCPAddrFromAddrPort(tcp)
}

// SetDeadline implements net.Conn.
func (s *Stream) SetDeadline(t time.Time) error {
	return s.setDeadlines(t, &s.readBy, &s.writeBy)
}

// SetReadDeadline implements net.Conn.
func (s *Stream) SetReadDeadline(t time.Time) error { return s.setDeadlines(t, &s.readBy) }

// SetWriteDeadline implements net.Conn.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.setDeadlines(t, &s.writeBy) }

func (s *Stream) setDeadlines(t time.Time, deadlines ...*instant) error {
	s.loop.Check()
	if s.gone() {
		return s.fail("set", net.ErrClosed)
	}
	by := instantOf(t)
	earlier := false
	for _, d := range deadlines {
		earlier = earlier || by.before(*d)
		*d = by
	}
	if earlier {
		s.loop.Rouse(s.d) // a wait that has begun is for the old one; that it ends late is seen when it ends
	}
	return nil
}

// instant is a point in time on the monotonic clock, in a third of a time.Time's size; 0 is none.
type instant int64

var epoch = time.Now()

func instantOf(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	if at := instant(t.Sub(epoch)); at != 0 {
		return at
	}
	return -1
}

func (i instant) set() bool { return i != 0 }

func (i instant) passed() bool { return i != 0 && instant(time.Since(epoch)) >= i }

// before reports that i comes sooner than j; none is the last of all.
func (i instant) before(j instant) bool { return i != 0 && (j == 0 || i < j) }

// after returns how much later than t it is.
func (i instant) after(t time.Time) time.Duration { return time.Duration(i) - t.Sub(epoch) }
