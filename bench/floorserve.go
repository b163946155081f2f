package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/lwango/lwango/bench/tasks"
	"golang.org/x/sys/unix"
)

// serveFloor answers hello with what no server of this kind can do without: a receive and a send
// for each request, and a wait where nothing has come. What a server costs beyond it is the
// server's own; what it costs itself is the machine's, and all pay that. It has a thread for each
// P, and each thread a listening socket and an epoll instance, and rooms of its own.
func serveFloor(addr string) error {
	threads := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(threads + 1) // a thread that waits keeps its P: its calls are raw
	errs := make(chan error)
	for range threads {
		go func() {
			runtime.LockOSThread()
			errs <- floorThread(addr)
		}()
	}
	return <-errs
}

func floorThread(addr string) error {
	reuse := func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}), err)
	}
	ln, err := (&net.ListenConfig{Control: reuse}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer file.Close()     // never, but a file that nothing refers to is closed with the garbage
	ln.Close()             // file is the same socket, of which Go's poller knows nothing
	door := int(file.Fd()) // makes it blocking
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	watch := func(fd int) error {
		return unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd,
			&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	}
	if err := errors.Join(err, unix.SetNonblock(door, true), watch(door)); err != nil {
		return err
	}
	events, buf := make([]unix.EpollEvent, 256), make([]byte, 16<<10)
	rooms := floorRooms{byTarget: map[string]*floorRoom{}}
	enters, end := []byte("GET "+tasks.RoomPath), []byte("\r\n\r\n")
	var answer []byte
	var dated int64
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll),
			uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), ^uintptr(0), 0, 0)
		if errno == unix.EINTR {
			// It may be the runtime's signal, which stops the world: a thread that goes back into the
			// raw call at once is never at a point where it can be stopped, and all others wait.
			runtime.Gosched()
			continue
		}
		if errno != 0 {
			return os.NewSyscallError("epoll_pwait", errno)
		}
		if now := time.Now(); now.Unix() != dated {
			dated = now.Unix()
			answer = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: floor\r\nDate: %s\r\n"+
				"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
				now.UTC().Format(http.TimeFormat), len(hello), hello)
		}
		for _, e := range events[:n] {
			fd := int(e.Fd)
			if fd == door {
				if fd, _, err := unix.Accept4(door, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC); err == nil {
					check(errors.Join(watch(fd),
						unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)))
				}
				continue
			}
			size, _ := transfer(unix.SYS_RECVFROM, fd, buf)
			room := rooms.room(fd)
			switch got := buf[:size]; {
			case room != nil && size > 0 && room.say(got):
			case room != nil || !bytes.HasSuffix(got, end):
				rooms.leave(fd)
				unix.Close(fd)
			case bytes.HasPrefix(got, enters):
				rooms.enter(fd, got)
			default:
				transfer(unix.SYS_SENDTO, fd, answer)
			}
		}
	}
}
