package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A reactor is an epoll instance and its connections: what the clients and the leanest servers have
// in common. One goroutine uses it. Its calls go to the kernel raw where they cannot sleep: Go's
// scheduler has no use for the notice.
type reactor struct {
	epoll  int
	events []unix.EpollEvent
	buf    []byte  // what one read gives; all links share it
	links  []*link // by descriptor

	raw  bool          // Go's scheduler need not know of waits: there is nothing else to run
	nap  time.Duration // after each look that found something, so that more can gather
	lost func(*link)   // is called before a failed link is closed; nil in clients, whose poll fails
}

// A link is one connection, or a listener.
type link struct {
	fd     int // -1: closed
	number int // of this reactor's, from 1, for error messages
	accept func()
	take   func(p []byte) error // is given what came; p is valid until it returns
	rest   []byte               // what a full socket did not take; a server reads nothing before
}

// newReactor also sets the thread's timer slack to the least: by default the kernel rounds sleeps
// up by 50 µs, which would send requests late.
func newReactor(buffer int) *reactor {
	check(unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0))
	return &reactor{epoll: must(unix.EpollCreate1(unix.EPOLL_CLOEXEC)),
		events: make([]unix.EpollEvent, 1024), buf: make([]byte, buffer)}
}

// Edge-triggered: a read that leaves room in the buffer has taken everything and is the only one.
const readEdge = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET

func (r *reactor) watch(op int, l *link, events uint32) error {
	return unix.EpollCtl(r.epoll, op, l.fd, &unix.EpollEvent{Events: events, Fd: int32(l.fd)})
}

func (r *reactor) add(l *link, events uint32) error {
	for l.fd >= len(r.links) {
		r.links = append(r.links, nil)
	}
	r.links[l.fd] = l
	return r.watch(unix.EPOLL_CTL_ADD, l, events)
}

// own takes a socket away from Go's poller.
func own(conn interface {
	syscall.Conn
	Close() error
}) (fd int) {
	raw, err := conn.SyscallConn()
	check(err)
	check(raw.Control(func(theirs uintptr) {
		fd, err = unix.FcntlInt(theirs, unix.F_DUPFD_CLOEXEC, 0)
	}))
	check(errors.Join(err, conn.Close()))
	return fd
}

// adopt adds a connection made by Go, which has set TCP_NODELAY.
func (r *reactor) adopt(conn net.Conn, number int, take func([]byte) error) *link {
	l := &link{fd: own(conn.(*net.TCPConn)), number: number, take: take}
	check(r.add(l, readEdge))
	return l
}

func (r *reactor) dial(addr string, number int, take func([]byte) error) *link {
	conn, err := net.DialTimeout("tcp", addr, verifyLimit)
	if err != nil {
		failf("connection %d: %w", number, err)
	}
	return r.adopt(conn, number, take)
}

// serve gives each connection accepted at the socket to accepted, which sets its take. One is
// accepted at a time; the watch is level-triggered and reports the next.
func (r *reactor) serve(fd int, accepted func(*link)) error {
	l := &link{fd: fd}
	l.accept = func() {
		fd, _, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		conn := &link{fd: fd}
		accepted(conn)
		if r.add(conn, readEdge) != nil || r.read(conn, 0) != nil { // often they are there
			r.end(conn)
		}
	}
	err := r.add(l, unix.EPOLLIN)
	for err == nil {
		err = r.poll(forever)
	}
	return err
}

// close also ends the watch.
func (r *reactor) close(l *link) {
	if l.fd >= 0 {
		r.links[l.fd] = nil
		unix.Close(l.fd)
		l.fd = -1
	}
}

func (r *reactor) end(l *link) {
	r.lost(l)
	r.close(l)
}

// reset resets all connections: thousands of them in TIME-WAIT per server would use up the ports.
func (r *reactor) reset() {
	for _, l := range r.links {
		if l != nil {
			unix.SetsockoptLinger(l.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
			r.close(l)
		}
	}
}

func (r *reactor) shut() {
	r.reset()
	unix.Close(r.epoll)
}

const (
	forever = time.Duration(math.MaxInt64)
	// spinBelow is the wait that is spent asking again: to sleep and wake up takes about as long.
	spinBelow = 20 * time.Microsecond
)

// wait waits to the nanosecond (epoll_pwait2, Linux 5.11), which epoll_wait's milliseconds cannot.
func (r *reactor) wait(d time.Duration) (int, error) {
	timeout := unix.NsecToTimespec(int64(d))
	if d < spinBelow {
		timeout = unix.Timespec{}
	}
	call, events, size :=
		uintptr(unix.SYS_EPOLL_PWAIT2), unsafe.Pointer(&r.events[0]), uintptr(len(r.events))
	var n uintptr
	var errno syscall.Errno
	if d < spinBelow || r.raw {
		n, _, errno = unix.RawSyscall6(call, uintptr(r.epoll), uintptr(events), size,
			uintptr(unsafe.Pointer(&timeout)), 0, 0)
	} else {
		n, _, errno = unix.Syscall6(call, uintptr(r.epoll), uintptr(events), size,
			uintptr(unsafe.Pointer(&timeout)), 0, 0)
	}
	switch errno {
	case 0:
		return int(n), nil
	case unix.EINTR: // perhaps the signal of the scheduler, which wants the processor after all
		runtime.Gosched()
		return 0, nil
	}
	return 0, errno
}

// poll waits at most that long for something to come, and takes it.
func (r *reactor) poll(wait time.Duration) error {
	n, err := r.wait(wait)
	if err != nil {
		return err
	}
	for _, event := range r.events[:n] {
		l := r.links[event.Fd]
		if l == nil {
			continue // closed by what an earlier event brought
		}
		if l.accept != nil {
			l.accept()
			continue
		}
		if err := r.read(l, event.Events); err != nil {
			if r.lost == nil {
				return fmt.Errorf("connection %d: %w", l.number, err)
			}
			r.end(l)
		}
	}
	if n > 0 && n < len(r.events) && r.nap > 0 {
		nap := unix.NsecToTimespec(int64(r.nap))
		_ = unix.Nanosleep(&nap, nil) // Go's uses other threads
	}
	return nil
}

var errClosed = errors.New("the peer closed it")

// read reads once, as a rule; to the end where the peer has ended its side, which is an error.
func (r *reactor) read(l *link, events uint32) error {
	if len(l.rest) > 0 {
		rest := l.rest
		l.rest = l.rest[:0]
		err := r.write(l, rest)
		if err == nil && len(l.rest) == 0 {
			err = r.watch(unix.EPOLL_CTL_MOD, l, readEdge)
		}
		if err != nil || len(l.rest) > 0 && r.lost != nil {
			return err
		}
	}
	for {
		n, errno := transfer(unix.SYS_RECVFROM, l.fd, r.buf)
		switch {
		case errno == unix.EAGAIN:
			return nil
		case errno != 0:
			return errno
		case n == 0:
			return errClosed
		}
		if err := l.take(r.buf[:n]); err != nil {
			return err
		}
		if l.fd < 0 || len(l.rest) > 0 && r.lost != nil ||
			n < len(r.buf) && events&unix.EPOLLRDHUP == 0 {
			return nil
		}
	}
}

// write keeps what a full socket does not take.
func (r *reactor) write(l *link, p []byte) error {
	n, errno := transfer(unix.SYS_SENDTO, l.fd, p)
	switch {
	case errno != 0 && errno != unix.EAGAIN:
		return errno
	case n == len(p):
		return nil
	}
	l.rest = append(l.rest[:0], p[n:]...)
	events := uint32(unix.EPOLLOUT)
	if r.lost == nil {
		events |= readEdge // a client that read nothing would wait for a server that waits for it
	}
	return r.watch(unix.EPOLL_CTL_MOD, l, events)
}

func transfer(call uintptr, fd int, p []byte) (int, syscall.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(&p[0])),
			uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		if errno == 0 {
			return int(n), 0
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// until is for clients, and polls until done; false: the limit has passed.
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
