package main

import (
	"errors"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/samples/ring/uring"
)

func errnoOf(result int32) error { return syscall.Errno(-result) }

// Accept returns the descriptor of a new connection.
func (c *Context) Accept(listener int) (fd int, err error) {
	done, err := c.operate(0, func(e *uring.Entry) { e.Accept(listener) })
	return int(done.Result), err
}

// Read reads from a socket, and returns to with what has come behind it. The kernel writes to a
// buffer of its own choice, when bytes have arrived, and Read copies them. So a connection that
// waits has no buffer, and a client that sends half a request keeps none. The error is io.EOF at
// the end of input.
func (c *Context) Read(fd int, to []byte, timeout time.Duration) ([]byte, error) {
	for {
		done, err := c.operate(timeout, func(e *uring.Entry) { e.Recv(fd, receiving) })
		if id, ok := done.Buffer(); ok {
			to = append(to, c.received.Get(id, int(max(0, done.Result)))...)
			c.received.Put(id)
		}
		switch {
		case errors.Is(err, unix.ENOBUFS):
			// More connections have bytes than there are buffers. All of those come back within this
			// turn, so the next attempt finds one.
			c.Yield()
		case err == nil && done.Result == 0:
			return to, io.EOF
		default:
			return to, err
		}
	}
}

// WriteAll sends p, which is of a block, within the timeout.
func (c *Context) WriteAll(fd int, p []byte, timeout time.Duration) error {
	until := c.now + timeout
	for len(p) > 0 {
		done, err := c.operate(timeout, func(e *uring.Entry) { e.Send(fd, p) })
		if err != nil {
			return err
		}
		p = p[done.Result:]
		if timeout = until - c.now; len(p) > 0 && timeout <= 0 {
			return ErrTimeout
		}
	}
	return nil
}

// Open opens a file below a folder for reading. The kernel refuses every way out of the folder, by
// a symbolic link as well. If the name is in the kernel's caches, that is done at once; else by one
// of the kernel's threads, and no other connection waits for the disk.
func (c *Context) Open(folder int, name []byte) (fd int, err error) {
	f := c.running // has both, as the kernel reads them when the entry is submitted, and stacks move
	f.name = append(append(f.name[:0], name...), 0)
	// O_NONBLOCK is for a FIFO, whose open would wait for a writer.
	f.how = unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for range 8 {
		var done uring.Completion
		done, err = c.operate(0, func(e *uring.Entry) { e.Open(folder, f.name, &f.how) })
		if !errors.Is(err, unix.EAGAIN) { // else a folder on the way was renamed meanwhile
			return int(done.Result), err
		}
	}
	return -1, err
}

// ReadAt reads from a file into p, which is of a block. The error is io.EOF at the file's end.
func (c *Context) ReadAt(fd int, p []byte, offset int64) (n int, err error) {
	read := func(e *uring.Entry) { e.Read(fd, p, offset) }
	done, err := c.operate(0, read)
	if errors.Is(err, unix.EAGAIN) { // a file system that may have to wait, and O_NONBLOCK of Open
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0); err == nil {
			done, err = c.operate(0, read)
		}
	}
	if err == nil && done.Result == 0 && len(p) > 0 {
		err = io.EOF
	}
	return max(0, int(done.Result)), err
}

// CloseFD closes a descriptor, which no operation uses any more. It does not wait.
func (c *Context) CloseFD(fd int) { c.entry().Close(fd) }

// Readable waits until a descriptor can be read.
func (c *Context) Readable(fd int) error {
	_, err := c.operate(0, func(e *uring.Entry) { e.Poll(fd, unix.POLLIN) })
	return err
}

// Sleep waits for a time. The error says why it is cut short.
func (c *Context) Sleep(d time.Duration) error {
	f := c.running
	if f.cause == nil && d > 0 {
		f.wait(parked, d)
	}
	return f.cause
}

// Park waits for unpark. The error says why it is cut short.
func (c *Context) Park() error {
	if f := c.running; f.cause == nil {
		f.wait(parked, 0)
	}
	return c.running.cause
}

// unpark lets a fiber go on that waits in Park.
func (f *fiber) unpark() {
	if f.state == parked {
		f.wake()
	}
}

// Yield lets the tasks run that are ready.
func (c *Context) Yield() {
	f := c.running
	c.ready = append(c.ready, f)
	f.wait(runnable, 0)
}
