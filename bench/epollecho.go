package main

import (
	"net"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollEcho is the least that an event loop in Go can do for an echo: level-triggered epoll, a callback for each
// descriptor, one buffer for all. Its calls go to the kernel raw, also the one that waits: nothing else wants the
// processor, so Go's scheduler has no use for the notice.
type epollEcho struct {
	epoll     int
	callbacks []func(fd int) // by descriptor
	rest      [][]byte       // by descriptor: what a full socket did not take
	buf       [echoBuffer]byte
}

func serveEpollEcho(ln net.Listener) error {
	listener, err := takeSocket(ln)
	if err != nil {
		return err
	}
	e := &epollEcho{}
	if e.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if err := e.watch(unix.EPOLL_CTL_ADD, listener, unix.EPOLLIN, e.accept); err != nil {
		return err
	}
	var events [256]unix.EpollEvent
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(e.epoll), uintptr(unsafe.Pointer(&events)), uintptr(len(events)), ^uintptr(0), 0, 0)
		if errno == unix.EINTR {
			runtime.Gosched() // the signal may be the scheduler's, which wants the processor after all
			continue
		}
		if errno != 0 {
			return errno
		}
		for i := range events[:n] {
			fd := int(events[i].Fd)
			e.callbacks[fd](fd)
		}
	}
}

// takeSocket takes the listening socket away from Go's own poller. Go has set TCP_NODELAY on no listener, from which
// accepted sockets would inherit it as those of the other servers have it.
func takeSocket(ln net.Listener) (fd int, err error) {
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		return -1, err
	}
	var dupErr error
	err = raw.Control(func(own uintptr) { fd, dupErr = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err == nil {
		err = dupErr
	}
	if err == nil {
		err = ln.Close()
	}
	if err == nil {
		err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	}
	return fd, err
}

// watch sets what is waited for on fd and who is called then.
func (e *epollEcho) watch(op, fd int, events uint32, callback func(int)) error {
	for fd >= len(e.callbacks) {
		e.callbacks, e.rest = append(e.callbacks, nil), append(e.rest, nil)
	}
	e.callbacks[fd] = callback
	return unix.EpollCtl(e.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (e *epollEcho) accept(listener int) {
	fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return // level-triggered: what is there is reported again
	}
	if e.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, e.echo) != nil {
		unix.Close(fd)
	}
}

// echo reads until a read leaves room in the buffer, and writes after each.
func (e *epollEcho) echo(fd int) {
	for {
		n, errno := transfer(unix.SYS_RECVFROM, fd, e.buf[:])
		switch {
		case errno == unix.EAGAIN:
			return
		case errno != 0 || n == 0:
			unix.Close(fd) // which also ends the watch
			return
		}
		if !e.write(fd, e.buf[:n]) || n < len(e.buf) {
			return
		}
	}
}

// write reports whether the socket took it all. If not, no more is read until it has.
func (e *epollEcho) write(fd int, p []byte) bool {
	n, errno := transfer(unix.SYS_SENDTO, fd, p)
	if errno != 0 && errno != unix.EAGAIN {
		unix.Close(fd)
		return false
	}
	if n == len(p) {
		return true
	}
	e.rest[fd] = append(e.rest[fd][:0], p[n:]...)
	if e.watch(unix.EPOLL_CTL_MOD, fd, unix.EPOLLOUT, e.flush) != nil {
		unix.Close(fd)
	}
	return false
}

func (e *epollEcho) flush(fd int) {
	if e.write(fd, e.rest[fd]) && e.watch(unix.EPOLL_CTL_MOD, fd, unix.EPOLLIN, e.echo) != nil {
		unix.Close(fd)
	}
}

func transfer(call uintptr, fd int, p []byte) (int, syscall.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		if errno == 0 {
			return int(n), 0
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}
