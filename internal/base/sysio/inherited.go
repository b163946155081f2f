//go:build linux && !386 && !arm && !mips && !mipsle

package sysio

import "golang.org/x/sys/unix"

// SetInherited sets the options that sockets inherit which are accepted at fd, a listening socket:
// that is free, where a call for each connection is not. The kernel rightly refuses them for a
// socket that is not TCP, whose peer cannot vanish.
//
//   - TCP_NODELAY: what is sent is gathered already.
//   - SO_KEEPALIVE: a client whose machine or network is gone sends no FIN, and a handler that
//     waits and sends nothing would never learn of it. After a minute of silence the kernel asks,
//     each 15 s, and the fourth question without an answer ends the connection with ETIMEDOUT,
//     after two minutes. Go's servers ask after 15 s; that wakes a phone four times as often, for
//     the sake of connections whose end is not urgent. Times that the socket has already are left,
//     such as those of a systemd.socket(5).
func SetInherited(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE); err != nil || on != 0 {
		return
	}
	for _, o := range []struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 60}, // in seconds
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 4},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
	} {
		if unix.SetsockoptInt(fd, o.level, o.name, o.value) != nil {
			return
		}
	}
}
