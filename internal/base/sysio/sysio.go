//go:build linux && !386 && !arm && !mips && !mipsle

// Package sysio makes the system calls of the loops' hot path, on non-blocking descriptors, and
// temporary files.
//
// A call that cannot sleep goes to the kernel raw: telling Go's scheduler about it costs as much as
// a short call itself. A call that may wait for a disk (sendfile) or is meant to wait (epoll_wait
// with a timeout) is announced, so that other goroutines get the processor meanwhile. Results are
// plain errno values, 0 for success: the caller makes errors of them where it shows them. Calls are
// repeated after EINTR.
//
//	sysio.go      system calls on sockets and epoll
//	platform.go   a compiler's error on any other platform
//	exhausted.go  the limit of descriptors; errors that say that the machine has no more
//	absent.go     errors that say that there is no such file
//	folder.go     Folder: what lies beneath a folder
//	cached.go     whether a file lies in the page cache
//	tempfile.go   TempFile: a file without a name
//	tempspace.go  TempSpace: what all temporary files hold together
//	address.go    addresses of sockets
//	inherited.go  options that accepted sockets inherit
//	sendonly.go   SendOnly: a socket that is about to be closed, below TLS
package sysio

import (
	"math"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Recv is recv(2) on a socket. It and Send are some 2 % of a small request cheaper than read(2) and
// write(2), which pass through the file layer first.
func Recv(fd int, p []byte) (int, syscall.Errno) {
	if len(p) == 0 {
		return 0, 0
	}
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
			uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
		if e != unix.EINTR {
			return count(n, e)
		}
	}
}

// Send is send(2) with MSG_NOSIGNAL on a socket; more announces that further data follows at once
// (MSG_MORE).
func Send(fd int, p []byte, more bool) (int, syscall.Errno) {
	if len(p) == 0 {
		return 0, 0
	}
	flags := unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT
	if more {
		flags |= unix.MSG_MORE
	}
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])),
			uintptr(len(p)), uintptr(flags), 0, 0)
		if e != unix.EINTR {
			return count(n, e)
		}
	}
}

// Sendv is sendmsg(2) of two buffers with MSG_NOSIGNAL on a socket. Neither may be empty.
func Sendv(fd int, a, b []byte) (int, syscall.Errno) {
	iov := [2]unix.Iovec{{Base: &a[0], Len: uint64(len(a))}, {Base: &b[0], Len: uint64(len(b))}}
	msg := unix.Msghdr{Iov: &iov[0], Iovlen: 2}
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)),
			unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		if e != unix.EINTR {
			return count(n, e)
		}
	}
}

// Splice is splice(2) of up to n bytes between a pipe and a socket, neither of which it waits for.
// It moves pages from one to the other.
func Splice(from, to, n int) (int, syscall.Errno) {
	for {
		r, _, e := syscall.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0,
			uintptr(n), unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		if e != unix.EINTR {
			return count(r, e)
		}
	}
}

// Sendfile is sendfile(2) from a regular file at *off, which it moves on, to a non-blocking socket.
// It may sleep on the disk.
func Sendfile(out, in int, off *int64, n int) (int, syscall.Errno) {
	for {
		r, _, e := syscall.Syscall6(unix.SYS_SENDFILE, uintptr(out), uintptr(in),
			uintptr(unsafe.Pointer(off)), uintptr(n), 0, 0)
		if e != unix.EINTR {
			return count(r, e)
		}
	}
}

// EpollWait is epoll_pwait2(2), or epoll_pwait(2) where that is refused; then the timeout is
// rounded up to milliseconds. A negative d means no limit. EINTR counts as no event.
//
// Kernels before Linux 5.11 refuse epoll_pwait2 with ENOSYS, and seccomp filters that are older
// than the call, as container runtimes have them, with EPERM. Whatever the error is, epoll_pwait
// tells whether it is a refusal or a fault of the arguments.
func EpollWait(epfd int, events []unix.EpollEvent, timeout time.Duration) (int, syscall.Errno) {
	first, size := uintptr(unsafe.Pointer(&events[0])), uintptr(len(events))
	var n uintptr
	var e syscall.Errno
	switch {
	case timeout == 0:
		n, _, e = syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), first, size, 0, 0, 0)
	case timeout > 0 && !noPwait2.Load():
		ts := unix.NsecToTimespec(int64(timeout))
		n, _, e = syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epfd), first, size,
			uintptr(unsafe.Pointer(&ts)), 0, 0)
		if e == 0 || e == unix.EINTR {
			break
		}
		noPwait2.Store(true)
		fallthrough
	default:
		msec := -1
		if timeout >= 0 {
			msec = int(min((timeout+time.Millisecond-1)/time.Millisecond, math.MaxInt32))
		}
		n, _, e = syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), first, size, uintptr(msec),
			0, 0)
	}
	if e == unix.EINTR {
		return 0, 0
	}
	return count(n, e)
}

var noPwait2 atomic.Bool

// EpollCtl is epoll_ctl(2) with the descriptor and a generation as the event's data.
func EpollCtl(epfd, op, fd int, events, gen uint32) syscall.Errno {
	ev := unix.EpollEvent{Events: events, Fd: int32(fd), Pad: int32(gen)}
	_, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epfd), uintptr(op), uintptr(fd),
		uintptr(unsafe.Pointer(&ev)), 0, 0)
	return e
}

// Accept is accept4(2) with SOCK_NONBLOCK and SOCK_CLOEXEC; the peer's address is left in sa.
func Accept(fd int, sa *unix.RawSockaddrAny) (int, syscall.Errno) {
	for {
		size := uint32(unsafe.Sizeof(*sa))
		sa.Addr.Family = unix.AF_UNSPEC
		n, _, e := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(sa)),
			uintptr(unsafe.Pointer(&size)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		if e != unix.EINTR {
			return count(n, e)
		}
	}
}

// Quiet reports whether a stream socket is open and has neither data nor an end to read.
func Quiet(fd int) bool {
	_, e := peek(fd)
	return e == unix.EAGAIN
}

// Unread reports whether a stream socket has data to read; an end is not data.
func Unread(fd int) bool {
	n, e := peek(fd)
	return n > 0 && e == 0
}

// Ready asks poll(2) which of the events are there now. ERR and HUP are told in any case.
func Ready(fd int, events uint16) (there uint16) {
	p := unix.PollFd{Fd: int32(fd), Events: int16(events)}
	var now unix.Timespec
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1,
			uintptr(unsafe.Pointer(&now)), 0, 0, 0)
		switch {
		case e == unix.EINTR:
		case e != 0 || n == 0:
			return 0
		default:
			return uint16(p.Revents)
		}
	}
}

// peek looks at the first byte that has come, of which n is the number.
func peek(fd int) (n uintptr, e syscall.Errno) {
	var b [1]byte
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b)),
			1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
		if e != unix.EINTR {
			return n, e
		}
	}
}

// Unsent returns how many bytes of what was written to a stream socket its peer has not
// acknowledged; with a UNIX socket, what the peer has not read, and more.
func Unsent(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// ResetOnClose makes the close of a socket a reset (socket(7), SO_LINGER of no time): the kernel
// drops what the peer has not acknowledged, where an orderly close would keep it for minutes.
func ResetOnClose(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// ShareSourcePort lets a socket that is bound to an address without a port get that as it connects,
// so that connections to different servers may have the same (ip(7)). A kernel that does not know
// this gives it a port of its own.
func ShareSourcePort(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
}

// Close is close(2). It is announced to the scheduler: a socket with SO_LINGER set waits in it.
func Close(fd int) { _ = syscall.Close(fd) }

func count(n uintptr, e syscall.Errno) (int, syscall.Errno) {
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}
