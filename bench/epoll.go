package main

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newEpoll also sets the thread's timer slack to the least: by default the kernel rounds sleeps up by 50 µs, which
// would send requests late.
func newEpoll() (int, error) {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	return unix.EpollCreate1(unix.EPOLL_CLOEXEC)
}

func dial(addr string) (int, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return -1, err
	}
	if !to.Addr().Is4() {
		return -1, &net.AddrError{Err: "not an IPv4 address", Addr: addr}
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func addRead(epoll, fd int, id int32) error {
	return unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: id})
}

// spinBelow is the wait that is spent asking again and again: going to sleep and waking up takes about as long.
const spinBelow = 20 * time.Microsecond

// epollWait waits to the nanosecond (epoll_pwait2, Linux 5.11), which epoll_wait's milliseconds would not do.
func epollWait(epoll int, events []unix.EpollEvent, wait time.Duration) (int, error) {
	if wait < spinBelow {
		wait = 0
	}
	timeout := unix.NsecToTimespec(int64(wait))
	var n uintptr
	var errno syscall.Errno
	if wait == 0 { // cannot sleep: spare Go's scheduler the notice
		n, _, errno = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])),
			uintptr(len(events)), uintptr(unsafe.Pointer(&timeout)), 0, 0)
	} else {
		n, _, errno = unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])),
			uintptr(len(events)), uintptr(unsafe.Pointer(&timeout)), 0, 0)
	}
	switch errno {
	case 0:
		return int(n), nil
	case unix.EINTR:
		return 0, nil
	}
	return 0, errno
}

func writeAll(fd int, p []byte) error {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if errno != 0 {
		return errno
	}
	if int(n) != len(p) {
		return io.ErrShortWrite
	}
	return nil
}

// readSome gives 0 without an error when there is nothing to read. An end of input is an error: no server may close.
func readSome(fd int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, nil
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, errors.New("the server closed a connection")
	}
	return int(n), nil
}
