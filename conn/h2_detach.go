package conn

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

// streamSocket joins a stream of HTTP/2 with a socket whose other end a handler off the loop has:
// it needs a descriptor. The stream's thread moves the bytes once the request is done with.
type streamSocket struct {
	conn *streamConn
	near *stream.Conn

	up        []byte // for the handler, on its way
	upEnded   bool
	downEnded bool
	sources   []loop.Source
}

// detach implements carrier.
func (st *h2stream) detach() (net.Conn, *bufio.Reader, error) {
	if !st.extended || st.err != nil {
		return nil, nil, errNoHijack
	}
	lp := st.thread.Loop()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	near, err := stream.New(lp, fds[0])
	if err != nil {
		sysio.Close(fds[0])
		sysio.Close(fds[1])
		return nil, nil, err
	}
	far, err := stream.New(lp, fds[1])
	if err != nil {
		_ = near.Close()
		sysio.Close(fds[1])
		return nil, nil, err
	}
	c, err := far.Detach()
	if err != nil {
		_ = near.Close()
		return nil, nil, err
	}
	l, err := st.take()
	if err != nil {
		_, _ = near.Close(), c.Close()
		return nil, nil, err
	}
	st.socket = &streamSocket{conn: l, near: near}
	l.Hold(true)
	l.SetNoWait(true)
	c = forwardedUNIX{c.(*net.UnixConn), st.x.req.RemoteAddr()}
	return c, bufio.NewReaderSize(c, hijackedBuffer), nil
}

// run moves bytes in both directions until both have ended, or the client has left.
func (w *streamSocket) run(t *loop.Thread) {
	defer w.close() // also when the thread is killed
	t.KeepWaiting(true)
	readable, writable := w.near.Readable(), w.near.Writable()
	for {
		for w.down() || w.deliver() {
		}
		l := w.conn
		if l.st.err != nil || w.upEnded && l.st.ended {
			return
		}
		w.sources = w.sources[:0]
		switch {
		case len(w.up) > 0:
			w.sources = append(w.sources, writable)
		case !w.upEnded:
			w.sources = append(w.sources, l.Readable())
		}
		switch {
		case l.Held() > 0:
			w.sources = append(w.sources, l.Writable())
		case !w.downEnded:
			w.sources = append(w.sources, readable)
		}
		limit := time.Duration(-1)
		if w.downEnded { // what is left has to move
			limit = l.st.s.set.WriteTimeout
		}
		if _, err := t.AwaitAny(limit, w.sources...); err != nil {
			if errors.Is(err, loop.ErrDeadlineExceeded) {
				l.st.server().refuse(refusedSlow)
				l.st.s.set.Logger.Info(tooSlow, "key", "write_timeout", "limit", limit,
					"remote", l.st.s.remote.addrPort())
			}
			return
		}
	}
}

// close ends both. What the handler has left goes out if a stop has killed the thread.
func (w *streamSocket) close() {
	for w.down() {
	}
	_ = w.near.Close()
	if !w.conn.st.ended {
		w.conn.ResetOnClose()
	}
	_ = w.conn.Close()
}

// down moves a piece from the handler to the client, and reports whether there was one.
func (w *streamSocket) down() bool {
	l := w.conn
	if l.Held() > 0 || l.st.err != nil || l.st.ended {
		return false
	}
	if w.downEnded {
		_ = l.CloseWrite()
		return true
	}
	if !w.near.Unread() && !l.Loop().Stopping() { // a killed handler's last word has no event
		return false
	}
	buf := buffers.Get().(*[streamAt]byte)
	defer buffers.Put(buf)
	n, err := w.near.TryRead(buf[:])
	if n > 0 {
		_, _ = l.Write(buf[:n])
	}
	w.downEnded = err != nil && err != stream.ErrWouldBlock
	return n > 0 || w.downEnded
}

// deliver moves a piece from the client to the handler, and reports whether there was one.
func (w *streamSocket) deliver() bool {
	if len(w.up) == 0 {
		if w.upEnded || !w.conn.Unread() {
			return false
		}
		if cap(w.up) == 0 {
			w.up = make([]byte, 0, heldBuffer)
		}
		n, err := w.conn.Read(w.up[:cap(w.up)])
		if w.up = w.up[:n]; err == io.EOF {
			w.upEnded = true
			if n == 0 {
				_ = w.near.CloseWrite()
			}
		}
		return n > 0 || err == io.EOF
	}
	n, err := w.near.TryWrite(w.up)
	if err != nil && err != stream.ErrWouldBlock { // the handler reads no more
		n, w.upEnded = len(w.up), true
	}
	if w.up = w.up[n:]; len(w.up) == 0 {
		if w.up = nil; w.upEnded {
			_ = w.near.CloseWrite()
		}
	}
	return n > 0
}
