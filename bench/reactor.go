package main

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A reactor is the clients' epoll instance and its descriptors. One goroutine uses it. Its calls go
// to the kernel raw where they cannot sleep: Go's scheduler has no use for the notice.
type reactor struct {
	epoll  int
	events []unix.EpollEvent
	buf    []byte        // what one read gives; all links share it
	links  []*link       // by descriptor
	nap    time.Duration // after each look that found something, so that more can gather
}

// A link is one connection.
type link struct {
	fd, number int
	take       func(p []byte) error // is given what comes; p is valid until it returns
	ended      func() error         // is called at the end of input, which else is an error
	part       []byte               // of a WebSocket: the beginning of a frame
}

// newReactor also sets the thread's timer slack to the least: by default the kernel rounds sleeps
// up by 50 µs, which would send requests late.
func newReactor(buffer int) *reactor {
	check(unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0))
	return &reactor{epoll: must(unix.EpollCreate1(unix.EPOLL_CLOEXEC)),
		events: make([]unix.EpollEvent, 1024), buf: make([]byte, buffer)}
}

// adopt takes a connection made by Go, which has set TCP_NODELAY, away from Go's poller. Its watch
// is edge-triggered: a read that leaves room in the buffer has taken everything and is the only
// one. number is for error messages.
func (r *reactor) adopt(conn net.Conn, number int, take func(p []byte) error) *link {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	check(err)
	fd := -1
	check(raw.Control(func(p uintptr) { fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0) }))
	check(errors.Join(err, conn.Close()))
	return r.watch(fd, number, take)
}

// watch is adopt of a descriptor.
func (r *reactor) watch(fd, number int, take func(p []byte) error) *link {
	l := &link{fd: fd, number: number, take: take}
	for l.fd >= len(r.links) {
		r.links = append(r.links, nil)
	}
	r.links[l.fd] = l
	check(unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, l.fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(l.fd),
	}))
	return l
}

// reset closes all connections.
func (r *reactor) reset() {
	for fd, l := range r.links {
		if l != nil {
			unix.Close(fd)
		}
	}
	r.links = nil
}

func (r *reactor) shut() {
	r.reset()
	unix.Close(r.epoll)
}

// spinBelow is the wait that is spent asking again: to sleep and wake up takes about as long.
const spinBelow = 20 * time.Microsecond

// poll waits at most that long for something to come, and takes it. It waits to the nanosecond
// (epoll_pwait2, Linux 5.11), which epoll_wait's milliseconds cannot.
func (r *reactor) poll(wait time.Duration) error {
	timeout, call := unix.NsecToTimespec(int64(wait)), unix.Syscall6
	if wait < spinBelow {
		timeout, call = unix.Timespec{}, unix.RawSyscall6
	}
	n, _, errno := call(unix.SYS_EPOLL_PWAIT2, uintptr(r.epoll),
		uintptr(unsafe.Pointer(&r.events[0])), uintptr(len(r.events)),
		uintptr(unsafe.Pointer(&timeout)), 0, 0)
	if errno == unix.EINTR {
		return nil
	}
	if errno != 0 {
		return errno
	}
	for _, event := range r.events[:n] {
		l := r.links[event.Fd]
		if err := r.read(l, event.Events&unix.EPOLLRDHUP != 0); err != nil {
			return fmt.Errorf("connection %d: %w", l.number, err)
		}
	}
	if n > 0 && int(n) < len(r.events) && r.nap > 0 {
		nap := unix.NsecToTimespec(int64(r.nap))
		_ = unix.Nanosleep(&nap, nil) // Go's uses other threads
	}
	return nil
}

// read reads once, as a rule; to the end where the peer has ended its side, which is an error.
func (r *reactor) read(l *link, ended bool) error {
	for {
		n, errno := transfer(unix.SYS_RECVFROM, l.fd, r.buf)
		switch {
		case errno == unix.EAGAIN:
			return nil
		case errno != 0:
			return errno
		case n == 0 && l.ended != nil:
			return l.ended()
		case n == 0:
			return errors.New("the peer closed it")
		}
		if err := l.take(r.buf[:n]); err != nil {
			return err
		}
		if n < len(r.buf) && !ended {
			return nil
		}
	}
}

// write does not wait for room: a socket has it for far more than is ever under way here, unless
// the peer does not read.
func (r *reactor) write(l *link, p []byte) error {
	n, errno := transfer(unix.SYS_SENDTO, l.fd, p)
	switch {
	case errno == unix.EAGAIN, errno == 0 && n < len(p):
		return errors.New("the peer reads nothing")
	case errno != 0:
		return errno
	}
	return nil
}

// transfer does not wait, and so is never interrupted.
func transfer(call uintptr, fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(&p[0])),
		uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// until polls until done; false: the limit has passed.
func (r *reactor) until(limit time.Duration, done func() bool) bool {
	for start := time.Now(); !done(); {
		left := limit - time.Since(start)
		if left <= 0 {
			return false
		}
		check(r.poll(left))
	}
	return true
}

// run polls for d.
func (r *reactor) run(d time.Duration) { r.until(d, func() bool { return false }) }
