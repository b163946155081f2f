package loopback

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// Fill writes to the connections of this process to an address, at which nobody reads, until no
// more can be written. Nothing else may write to them meanwhile. The connections must be there.
func Fill(t testing.TB, to string) {
	t.Helper()
	address := netip.MustParseAddrPort(to)
	filled := 0
	for fd := range 4096 {
		peer, err := unix.Getpeername(fd)
		in4, ok := peer.(*unix.SockaddrInet4)
		if err != nil || !ok || netip.AddrPortFrom(netip.AddrFrom4(in4.Addr),
			uint16(in4.Port)) != address {
			continue
		}
		filled++
		// which the kernel enlarges no more
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10)
		for room := 1; room > 0; {
			_, err := unix.SendmsgN(fd, make([]byte, 4<<10), nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			switch {
			case err == unix.EAGAIN: // what is under way may make room at the other end
				room, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 100)
				if err == unix.EINTR {
					room = 1
				}
			case err != nil && err != unix.EINTR:
				t.Fatal("write to ", to, ": ", err)
			}
		}
	}
	if filled == 0 {
		t.Fatal("there is no connection to ", to)
	}
}
