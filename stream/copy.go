package stream

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"sync"
	"syscall"

	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// copyBuffers are for copies from and to streams. A copy from a stream holds a buffer only while
// there are bytes in it, and not while it waits for more.
var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

const copySize = 64 << 10

// ReadFrom implements io.ReaderFrom: it writes all that r returns, up to io.EOF. It sends a regular
// *os.File by sendfile(2), and splices from a Conn as WriteTo does; either may be inside an
// *io.LimitedReader. Any other reader may wait on the calling thread, and must not block in any
// other way.
func (s *Conn) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return s.readFrom(r, math.MaxInt64)
	}
	n, err := s.readFrom(limited.R, limited.N)
	limited.N -= n
	return n, err
}

func (s *Conn) readFrom(r io.Reader, limit int64) (int64, error) {
	switch from := r.(type) {
	case *Conn:
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

// fileLike is an *os.File, or the wrapper that the file's own WriteTo puts around it when io.Copy
// calls it.
type fileLike interface {
	Stat() (fs.FileInfo, error)
	SyscallConn() (syscall.RawConn, error)
}

var errNoSendfile = errors.New("not a file for sendfile")

// sendOpen sends a file from its present position on, and moves the position. errNoSendfile means
// that nothing was sent: sendfile(2) refuses some files below /proc, for example.
func (s *Conn) sendOpen(f fileLike, limit int64) (sent int64, err error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, errNoSendfile
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, errNoSendfile
	}
	if err := s.checkWrite(); err != nil {
		return 0, s.opError("write", err)
	}
	controlErr := raw.Control(func(fd uintptr) {
		at, _ := unix.Seek(int(fd), 0, io.SeekCurrent)
		sent, err = s.sendFile(int(fd), nil, limit, at, info.Size())
	})
	switch {
	case controlErr != nil:
		return sent, controlErr // the file was closed
	case err != nil && err != errNoSendfile:
		err = s.opError("write", err)
	}
	return sent, err
}

// WriteTo implements io.WriterTo: it reads up to the end, and writes all that it reads to w. After
// SetNoWait it returns ErrWouldBlock when nothing more has arrived, and w has got all that was
// read.
//
// If w is a Conn, bytes that come in bulk are spliced. A proxy's processor time per byte is then
// 0.6 of that for copying in bulk, the same for messages of 64 KiB, and 1.2 of it for messages of
// 16 KiB. So WriteTo splices after a read has filled the buffer, until a splice moves less than
// that.
func (s *Conn) WriteTo(w io.Writer) (int64, error) { return s.copyTo(w, math.MaxInt64) }

// copyTo copies at most limit bytes.
func (s *Conn) copyTo(w io.Writer, limit int64) (copied int64, err error) {
	to, spliceable := w.(*Conn)
	spliceable = spliceable && to.duplex == nil // what is held comes first
	for bulk := false; copied < limit; {
		if err := s.checkRead(); err != nil {
			return copied, s.opError("read", err)
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
			err = s.readError(s.waitRead())
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

// copySome copies what one read returns, and does not wait for input.
func (s *Conn) copySome(w io.Writer, limit int64) (int, error) {
	if err := s.mayRead(); err != nil {
		return 0, s.readError(err)
	}
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	n, err := s.afterRead(s.d.Recv(buf[:min(copySize, limit)]))
	if err != nil {
		return 0, s.readError(err)
	}
	return w.Write(buf[:n])
}

// spliceSome copies what one read returns through a pipe.
func (s *Conn) spliceSome(to *Conn, limit int64) (moved int, err error) {
	var p Pipe
	defer p.Drop() // also when the thread is killed
	n, err := p.Fill(s, limit)
	if err == errors.ErrUnsupported {
		return s.copySome(to, limit)
	}
	if err != nil {
		return 0, s.readError(err)
	}
	left := n
	for err = to.checkWrite(); err == nil; err = to.wait((*loop.Descriptor).AwaitWrite, &to.out) {
		if left, err = p.Drain(to); left == 0 || err != nil {
			break
		}
	}
	if err != nil {
		err = to.opError("write", err)
	}
	return n - left, err
}
