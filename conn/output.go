package conn

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

const (
	gather    = 16 << 10 // output is written at this size at the latest
	copyBelow = 4 << 10  // smaller pieces are copied to the output rather than written from where they are
)

// flush writes what has been gathered.
func (x *exchange) flush() error {
	if len(x.out) == 0 {
		return x.writeErr
	}
	out := x.out
	x.out = x.out[:0]
	return x.write(out, nil, false)
}

// heldBuffer is how large a buffer may be that is held by a handler which has flushed and now waits.
const heldBuffer = 4 << 10

// buffers are those of responses that outgrow it.
var buffers = sync.Pool{New: func() any { return new([streamAt]byte) }}

// reserve has the buffer take n more bytes, up to streamAt of them in all. It is not left to append where they are many,
// as that would go through several sizes.
func (w *Response) reserve(n int) {
	if n += len(w.buf); n > cap(w.buf) && n > heldBuffer {
		b := buffers.Get().(*[streamAt]byte)
		w.buf = b[:copy(b[:], w.buf)]
	}
}

// slim gives up what is too large to be held. Output is gathered from small pieces, seldom of many.
func (x *exchange) slim() {
	switch w := &x.resp; {
	case cap(w.buf) == streamAt:
		b := (*[streamAt]byte)(w.buf[:streamAt])
		w.buf = nil
		invariants.Mangle(b[:])
		buffers.Put(b)
	case cap(w.buf) > heldBuffer:
		w.buf = nil
	}
	if cap(x.out) > 2*heldBuffer {
		x.out = nil
	}
}

// send gathers p, or writes it after what was gathered where it is large.
func (x *exchange) send(p []byte) error {
	if len(p) < copyBelow {
		x.out = append(x.out, p...)
		if len(x.out) < gather {
			return x.writeErr
		}
		return x.flush()
	}
	out := x.out
	x.out = x.out[:0]
	return x.write(out, p, false)
}

// write writes a and then b, all of both, waiting as long as the client takes some at times. more: the next write
// follows at once.
func (x *exchange) write(a, b []byte, more bool) error {
	if x.writeErr != nil {
		return x.writeErr
	}
	if passed(x.writeUntil) {
		x.c.resetOnClose() // as where the deadline passes in a wait
		return x.lose(os.ErrDeadlineExceeded)
	}
	if x.c.tls != nil {
		for _, p := range [2][]byte{a, b} {
			if len(p) > 0 && x.writeErr == nil {
				if _, err := x.c.tls.Write(p); err != nil {
					_ = x.lose(err)
				}
			}
		}
		return x.writeErr
	}
	return x.writeSocket(a, b, more)
}

func (x *exchange) writeSocket(a, b []byte, more bool) error {
	if len(x.held) > 0 { // the order of things
		x.hold(a, b)
		return nil
	}
	for len(a)+len(b) > 0 {
		var n int
		var errno syscall.Errno
		piece := b[:min(len(b), turnBudget)] // the kernel may take megabytes at once, and nobody else is served meanwhile
		switch {
		case len(a) == 0:
			n, errno = loop.Own(&x.c.Thread).Send(piece, more)
		case len(b) == 0:
			n, errno = loop.Own(&x.c.Thread).Send(a, more)
		default:
			n, errno = loop.Own(&x.c.Thread).Sendv(a, piece)
		}
		if errno == unix.EAGAIN && x.duplex {
			x.hold(a, b)
			return nil
		}
		if errno != 0 {
			if err := x.wrote(errno); err != nil {
				return err
			}
			continue
		}
		k := min(n, len(a))
		a, b = a[k:], b[n-k:]
		x.writing.bytes += int64(n)
		x.spend(opCost + n)
	}
	return nil
}

// hold keeps a and b for sendHeld. It is for whoever writes no more as long as something is held, so it is not bounded
// here. (TLS writes where it reads, too, when a client has keys changed: some bytes for each record that it sends, until
// write_timeout.)
func (x *exchange) hold(a, b []byte) { x.held = append(append(x.held, a...), b...) }

// sendHeld writes what is held, as far as there is room.
func (x *exchange) sendHeld() {
	held := x.held
	for len(held) > 0 {
		n, errno := loop.Own(&x.c.Thread).Send(held, false)
		if errno == unix.EAGAIN {
			break
		}
		if errno != 0 {
			_ = x.lose(os.NewSyscallError("write", errno))
			return
		}
		held = held[n:]
		x.writing.bytes += int64(n)
		x.spend(opCost + n)
	}
	if x.held = x.held[:copy(x.held, held)]; len(held) == 0 && cap(x.held) > heldBuffer {
		x.held = nil // it is seldom needed twice
	}
}

// settle ends a time of duplex: what is held is written first.
func (x *exchange) settle() {
	x.duplex, x.req.body.tryOnly = false, false
	held := x.held
	x.held = nil
	if len(held) > 0 {
		_ = x.writeSocket(held, nil, false)
	}
	x.held = held[:0]
}

// wrote deals with the error of a write: it waits where there was only no room.
func (x *exchange) wrote(errno syscall.Errno) error {
	if errno != unix.EAGAIN {
		return x.lose(os.NewSyscallError("write", errno))
	}
	before := x.c.Loop().Time()
	limit, err := x.set.WriteTimeout, error(nil)
	if !x.writeUntil.IsZero() {
		if limit = x.writeUntil.Sub(before); limit <= 0 {
			err = os.ErrDeadlineExceeded
		}
	} else if x.writing.tooSlow(x.set.MinRate) {
		err = errTooSlow
	}
	if err == nil {
		err = x.c.WantWrite(limit)
		x.spent = 0
		x.writing.wait(x.c.Loop().Time().Sub(before))
		if err == nil {
			return nil
		}
	}
	x.c.resetOnClose() // an orderly close would leave the kernel with the client's unread data for minutes
	return x.lose(err)
}

// lose is fail where the client does not take what is written: its request's context ends, and what
// the kernel still holds has not been sent.
func (x *exchange) lose(err error) error {
	if x.writeErr == nil { // TLS passes the error of its socket on
		x.writing.bytes -= int64(sysio.Unsent(x.c.FD()))
	}
	if x.req.cancel != nil {
		x.req.cancel(loop.ErrClientGone)
	}
	return x.fail(err)
}

func (x *exchange) fail(err error) error {
	if x.writeErr == nil {
		x.writeErr = err
	}
	x.out, x.held = x.out[:0], x.held[:0]
	if errors.As(err, new(*os.SyscallError)) {
		x.c.Left()
	}
	return x.writeErr
}

// cut ends the connection in the middle of a body, so that the client can tell; what was complete before goes out.
func (x *exchange) cut(err error) error {
	_ = x.flush()
	return x.fail(err)
}

var (
	errShortBody = errors.New("response body is shorter than announced")
	errAborted   = errors.New("response given up by its handler")
)

// sendFile writes n bytes of f from off on, without copying them where the connection is plain.
func (x *exchange) sendFile(f File, off, n int64) error {
	fd := int(f.Fd())
	if x.c.tls != nil {
		return x.sendReader(io.NewSectionReader(preader(fd), off, n), n)
	}
	out := x.out
	x.out = x.out[:0]
	if err := x.write(out, nil, n > 0); err != nil {
		return err
	}
	for n > 0 {
		moved, errno := loop.Own(&x.c.Thread).Sendfile(fd, &off, int(min(n, turnBudget)))
		switch {
		case errno != 0:
			if err := x.wrote(errno); err != nil {
				return err
			}
		case moved == 0: // truncated while it was being sent
			return x.cut(errShortBody)
		default:
			n -= int64(moved)
			x.writing.bytes += int64(moved)
			x.spend(opCost + moved)
		}
	}
	return nil
}

// sendReader copies n bytes from r.
func (x *exchange) sendReader(r io.Reader, n int64) error {
	buf := x.copyBuffer()
	for n > 0 {
		k, err := r.Read(buf[:min(n, int64(len(buf)))])
		if k > 0 {
			if err := x.send(buf[:k]); err != nil {
				return err
			}
			n -= int64(k)
		}
		if err != nil && n > 0 {
			if err == io.EOF {
				err = errShortBody
			}
			return x.cut(err)
		}
	}
	return nil
}

func (x *exchange) copyBuffer() []byte {
	x.resp.reserve(gather - len(x.resp.buf))
	return x.resp.buf[:gather]
}

// preader reads a descriptor at an offset.
type preader int

func (fd preader) ReadAt(p []byte, off int64) (int, error) {
	n, err := unix.Pread(int(fd), p, off)
	switch {
	case err != nil:
		return max(n, 0), os.NewSyscallError("pread", err)
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}
