package loop

import (
	"io"
	"os"
	"time"

	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

// The methods here do what their system calls do, and wait where these would: they try, await on
// EAGAIN, and try again. The descriptor must be non-blocking and not the thread's own; AwaitRead
// says what else holds for it. d limits each wait; if it is negative, there is no limit. The errors
// are those of AwaitRead, and the error of the call as an *os.SyscallError.

// ReadFD reads from fd, as read(2): at least one byte, if p is not empty. At the end of the input
// the error is io.EOF.
func (t *Thread) ReadFD(d time.Duration, fd int, p []byte) (int, error) {
	return t.readFD("read", d, fd, p, unix.Read)
}

// RecvFD reads from the socket fd, as recv(2). At the end of the input the error is io.EOF.
func (t *Thread) RecvFD(d time.Duration, fd int, p []byte) (int, error) {
	return t.readFD("recv", d, fd, p, func(fd int, p []byte) (int, error) {
		n, errno := sysio.Recv(fd, p)
		if errno != 0 {
			return 0, errno
		}
		return n, nil
	})
}

type readFunc func(fd int, p []byte) (int, error)

func (t *Thread) readFD(
	call string, d time.Duration, fd int, p []byte, read readFunc,
) (int, error) {
	for {
		n, err := read(fd, p)
		switch {
		case err == unix.EAGAIN:
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, os.NewSyscallError(call, err)
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
		if err := t.AwaitRead(d, fd); err != nil {
			return 0, err
		}
	}
}

// WriteFD writes all of p to fd, as write(2). With an error it returns how many bytes it has
// written.
func (t *Thread) WriteFD(d time.Duration, fd int, p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, err := unix.Write(fd, p[written:])
		if err == nil {
			written += n
		} else if err := t.writable("write", d, fd, err); err != nil {
			return written, err
		}
	}
	return written, nil
}

// WritevFD writes all of the buffers to fd, as writev(2), in as few calls as possible. It does not
// change the buffers. With an error it returns how many bytes it has written.
func (t *Thread) WritevFD(d time.Duration, fd int, buffers [][]byte) (int64, error) {
	left := append([][]byte(nil), buffers...)
	var written int64
	for {
		for len(left) > 0 && len(left[0]) == 0 {
			left = left[1:]
		}
		if len(left) == 0 {
			return written, nil
		}
		n, err := unix.Writev(fd, left[:min(len(left), maxIovecs)])
		if err != nil {
			if err := t.writable("writev", d, fd, err); err != nil {
				return written, err
			}
			continue
		}
		written += int64(n)
		for n > 0 {
			k := min(n, len(left[0]))
			left[0] = left[0][k:]
			if n -= k; len(left[0]) == 0 {
				left = left[1:]
			}
		}
	}
}

const maxIovecs = 1024 // UIO_MAXIOV

// writable acts on the error of a write. It waits if there was only no room.
func (t *Thread) writable(call string, d time.Duration, fd int, err error) error {
	switch err {
	case unix.EINTR:
		return nil
	case unix.EAGAIN:
		return t.AwaitWrite(d, fd)
	}
	return os.NewSyscallError(call, err)
}
