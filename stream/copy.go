package stream

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// copyBuffers are for copies from and to streams. A copy from a stream holds one while there is something in it, and
// none while it waits for more.
var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

const copySize = 64 << 10

// ReadFrom implements io.ReaderFrom: it writes what r gives, up to its end. A regular *os.File is sent by
// sendfile(2), a Stream is spliced as WriteTo does it, both also below an *io.LimitedReader. Other readers must not
// block but by waiting on their thread.
func (s *Stream) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return s.readFrom(r, math.MaxInt64)
	}
	n, err := s.readFrom(limited.R, limited.N)
	limited.N -= n
	return n, err
}

func (s *Stream) readFrom(r io.Reader, limit int64) (int64, error) {
	switch from := r.(type) {
	case *Stream:
		return from.copyTo(s, limit)
	case fileLike:
		if s.duplex != nil { // what is held comes first
			break
		}
		if n, err := s.sendOpen(from, limit); err != errNoSendfile {
			return n, err
		}
	}
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	var copied int64
	for copied < limit {
		n, err := r.Read(buf[:min(copySize, limit-copied)])
		if n > 0 {
			n, err := s.Write(buf[:n])
			copied += int64(n)
			if err != nil {
				return copied, err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return copied, err
		}
	}
	return copied, nil
}

// fileLike is an *os.File, or what it passes itself off as in its own WriteTo, which io.Copy calls.
type fileLike interface {
	Stat() (fs.FileInfo, error)
	SyscallConn() (syscall.RawConn, error)
}

var errNoSendfile = errors.New("not a file for sendfile")

// sendOpen sends a file from its present position on, which it moves. errNoSendfile means that nothing has been done:
// some files below /proc cannot be sent that way, for example.
func (s *Stream) sendOpen(f fileLike, limit int64) (sent int64, err error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, errNoSendfile
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, errNoSendfile
	}
	if err := s.beginWrite(); err != nil {
		return 0, s.fail("write", err)
	}
	controlErr := raw.Control(func(fd uintptr) { sent, err = s.sendFile(int(fd), nil, limit) })
	switch {
	case controlErr != nil:
		return sent, controlErr // the file was closed
	case err != nil && err != errNoSendfile:
		err = s.fail("write", err)
	}
	return sent, err
}

// WriteTo implements io.WriterTo: it reads up to the end, and writes what comes to w. After SetNoWait it ends with
// ErrWouldBlock, and w has got all that was read.
//
// Where w is a Stream, bytes that come in bulk are spliced. Going by a proxy's processor time per byte, that is 0.6 of
// what copying takes in bulk, the same for messages of 64 KiB, and 1.2 of it for messages of 16 KiB: so it is done when
// a read has filled the buffer, and until a splice moves less than that.
func (s *Stream) WriteTo(w io.Writer) (int64, error) { return s.copyTo(w, math.MaxInt64) }

// copyTo copies at most limit bytes.
func (s *Stream) copyTo(w io.Writer, limit int64) (copied int64, err error) {
	to, spliceable := w.(*Stream)
	spliceable = spliceable && to.duplex == nil // what is held comes first
	for bulk := false; copied < limit; {
		if err := s.beginRead(); err != nil {
			return copied, s.fail("read", err)
		}
		var n int
		if bulk && spliceable {
			n, err = s.spliceSome(to, limit-copied)
		} else {
			n, err = s.copySome(w, limit-copied)
		}
		copied += int64(n)
		bulk = n >= copySize
		if err == ErrWouldBlock {
			err = s.failRead(s.waitRead())
		}
		if err == io.EOF {
			return copied, nil
		}
		if err != nil {
			return copied, err
		}
	}
	return copied, nil
}

// copySome copies what one read gives without waiting.
func (s *Stream) copySome(w io.Writer, limit int64) (int, error) {
	if !s.unread() {
		return 0, ErrWouldBlock
	}
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	n, err := s.received(s.d.Recv(buf[:min(copySize, limit)]))
	if err != nil {
		return 0, s.failRead(err)
	}
	return w.Write(buf[:n])
}

// spliceSome copies what one read gives by way of a pipe, which takes the pages and not the bytes.
func (s *Stream) spliceSome(to *Stream, limit int64) (moved int, err error) {
	if !s.unread() {
		return 0, ErrWouldBlock
	}
	if noSplice.Load() {
		return s.copySome(to, limit)
	}
	p := pipes.Get().(*pipe)
	if p.size < copySize {
		p.close()
		return s.copySome(to, limit)
	}
	empty := true
	defer func() { // also when the thread is killed
		if empty {
			pipes.Put(p)
		} else {
			p.close()
		}
	}()
	n, errno := s.d.SpliceTo(p.w, int(min(limit, int64(p.size))))
	empty = n <= 0 // before anything else: the thread may give way in received, and be killed there
	if refusesSplice(errno) {
		noSplice.Store(true)
		return s.copySome(to, limit)
	}
	n, err = s.received(n, errno)
	if err != nil {
		return 0, s.failRead(err)
	}
	for err = to.beginWrite(); err == nil && moved < n; {
		k, errno := to.d.SpliceFrom(p.r, n-moved)
		moved += k
		err = to.wrote(k, errno)
	}
	if err != nil {
		return moved, to.fail("write", err)
	}
	empty = true
	return moved, nil
}

// noSplice notes that splice(2) is refused here, by the filter of a container.
var noSplice atomic.Bool

// refusesSplice tells a refusal of the call from what happens to a connection: none of these is an error of recv(2) on a
// connected socket.
func refusesSplice(errno syscall.Errno) bool {
	switch errno {
	case unix.EPERM, unix.ENOSYS, unix.EACCES, unix.EINVAL:
		return true
	}
	return false
}

// pipes are for splicing. As with the buffers, a copy holds one while there is something in it: idle copies hold none.
var pipes = sync.Pool{New: func() any { return newPipe() }}

// pipe is empty while it is in the pool.
type pipe struct {
	r, w, size int
	cleanup    runtime.Cleanup
}

// newPipe makes a pipe, of size 0 where there are no descriptors left. The size is what a turn may move; users with
// many pipes get smaller ones (pipe(7), pipe-user-pages-soft).
func newPipe() *pipe {
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC) != nil {
		return new(pipe)
	}
	p := &pipe{r: fds[0], w: fds[1]}
	size, err := unix.FcntlInt(uintptr(p.w), unix.F_SETPIPE_SZ, TurnBudget)
	if err != nil {
		size, _ = unix.FcntlInt(uintptr(p.w), unix.F_GETPIPE_SZ, 0)
	}
	p.size = size
	p.cleanup = runtime.AddCleanup(p, closePipe, fds)
	return p
}

func closePipe(fds [2]int) {
	unix.Close(fds[0])
	unix.Close(fds[1])
}

func (p *pipe) close() {
	if p.size > 0 {
		p.cleanup.Stop()
		closePipe([2]int{p.r, p.w})
	}
}
