package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// responder is the least that a FastCGI application can do, so that what is measured is the server before it: an epoll
// loop that reads a request and answers it in one write, at once or when it is told to. It keeps a connection where
// FCGI_KEEP_CONN asks for that.
type responder struct {
	epoll    int
	listener int
	unread   [][]byte // by descriptor: a request that has not come whole
	held     []held
	buf      [64 << 10]byte
}

// held is a request that waits for its answer.
type held struct {
	fd   int
	keep bool
}

// The responder's scripts. Of any other name is one that says hello.
const (
	holdScript    = appPrefix + "/hold.php"    // is answered when
	releaseScript = appPrefix + "/release.php" // is asked for
	heldScript    = appPrefix + "/held.php"    // tells how many wait
)

// responderCommand is `bench respond PATH`: it serves on a UNIX socket until it is killed.
func responderCommand(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: bench respond SOCKET")
	}
	r := &responder{}
	var err error
	if r.listener, err = listenUnix(args[0]); err != nil {
		return err
	}
	if r.epoll, err = newEpoll(); err != nil {
		return err
	}
	if err := addRead(r.epoll, r.listener, int32(r.listener)); err != nil {
		return err
	}
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(r.epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return err
		}
		for i := range max(n, 0) {
			if fd := int(events[i].Fd); fd == r.listener {
				r.accept()
			} else {
				r.read(fd)
			}
		}
	}
}

// listenUnix lets nginx's workers connect too, who are not root.
func listenUnix(path string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err == nil {
		err = unix.Chmod(path, 0o666)
	}
	if err == nil {
		err = unix.Listen(fd, 4096)
	}
	return fd, err
}

// accept takes one connection; epoll reports the next again. The request is often there already.
func (r *responder) accept() {
	fd, _, err := unix.Accept4(r.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return
	}
	for fd >= len(r.unread) {
		r.unread = append(r.unread, nil)
	}
	r.unread[fd] = nil
	if addRead(r.epoll, fd, int32(fd)) != nil {
		unix.Close(fd)
		return
	}
	r.read(fd)
}

// read takes what has come. Whoever leaves while he is held is answered to no effect.
func (r *responder) read(fd int) {
	n, errno := transfer(unix.SYS_RECVFROM, fd, r.buf[:])
	switch {
	case errno == unix.EAGAIN:
		return
	case errno != 0 || n == 0:
		r.close(fd)
		return
	}
	request := r.buf[:n]
	if len(r.unread[fd]) > 0 {
		request = append(r.unread[fd], request...)
	}
	length, keep, err := requestEnd(request)
	switch {
	case err != nil:
		r.close(fd)
	case length == 0:
		r.unread[fd] = append(r.unread[fd][:0:0], request...)
	default:
		r.unread[fd] = nil
		r.serve(held{fd, keep}, request[:length])
	}
}

// serve finds the script by its name anywhere among the parameters: the clients are our own.
func (r *responder) serve(h held, request []byte) {
	switch {
	case bytes.Contains(request, []byte(holdScript)):
		r.held = append(r.held, h)
		return
	case bytes.Contains(request, []byte(heldScript)):
		r.answer(h, strconv.Itoa(len(r.held)))
		return
	case bytes.Contains(request, []byte(releaseScript)):
		for _, waiting := range r.held {
			r.answer(waiting, hello)
		}
		r.held = r.held[:0]
	}
	r.answer(h, hello)
}

func (r *responder) close(fd int) {
	for i := range r.held {
		if r.held[i].fd == fd {
			r.held = append(r.held[:i], r.held[i+1:]...)
			break
		}
	}
	unix.Close(fd) // which also ends the watch
}

// answer is far smaller than a socket's buffer: a short write is a connection that is not worth keeping.
func (r *responder) answer(h held, body string) {
	p := appendAnswer(r.buf[:0], body)
	if n, errno := transfer(unix.SYS_SENDTO, h.fd, p); errno != 0 || n < len(p) || !h.keep {
		unix.Close(h.fd)
	}
}

// Types of records, and their header's length (FastCGI Specification 1.0, sections 3.3 and 8).
const (
	fcgiBegin  = 1
	fcgiEnd    = 3
	fcgiStdin  = 5
	fcgiStdout = 6
	fcgiHeader = 8
)

// requestEnd is the length of the request that p begins with, which the empty record of STDIN ends; 0: it is not all
// there. keep is FCGI_KEEP_CONN.
func requestEnd(p []byte) (length int, keep bool, err error) {
	for at := 0; len(p)-at >= fcgiHeader; {
		header := p[at:]
		if header[0] != 1 {
			return 0, false, fmt.Errorf("version %d", header[0])
		}
		content := int(binary.BigEndian.Uint16(header[4:]))
		next := at + fcgiHeader + content + int(header[6])
		if next > len(p) {
			return 0, false, nil
		}
		switch header[1] {
		case fcgiBegin:
			keep = content == 8 && header[fcgiHeader+2]&1 != 0
		case fcgiStdin:
			if content == 0 {
				return next, keep, nil
			}
		}
		at = next
	}
	return 0, false, nil
}

func appendAnswer(p []byte, body string) []byte {
	p = append(p, 1, fcgiStdout, 0, 1, 0, 0, 0, 0)
	p = append(p, "Content-Type: text/plain\r\nContent-Length: "...)
	p = strconv.AppendInt(p, int64(len(body)), 10)
	p = append(p, "\r\n\r\n"...)
	p = append(p, body...)
	binary.BigEndian.PutUint16(p[4:], uint16(len(p)-fcgiHeader))
	p = append(p, 1, fcgiStdout, 0, 1, 0, 0, 0, 0)
	return append(p, 1, fcgiEnd, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
}
