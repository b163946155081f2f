package conn

import (
	"io"
	"sync"
)

// copyBuffers are for copies from and to streams. A buffer is held while there is something in it, not while a copy waits
// for its source.
var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

const copySize = 64 << 10

// ReadFrom implements io.ReaderFrom: it writes what r gives, up to its end. r must not block but by waiting on a stream.
func (s *Stream) ReadFrom(r io.Reader) (int64, error) {
	if from, ok := r.(*Stream); ok {
		return from.WriteTo(s)
	}
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	var copied int64
	for {
		n, err := r.Read(buf[:])
		if n > 0 {
			n, err := s.Write(buf[:n])
			copied += int64(n)
			if err != nil {
				return copied, err
			}
		}
		if err == io.EOF {
			return copied, nil
		}
		if err != nil {
			return copied, err
		}
	}
}

// WriteTo implements io.WriterTo: it reads up to the end, and writes what comes to w. After SetNoWait it ends with
// ErrWouldBlock, and w has got all that was read.
func (s *Stream) WriteTo(w io.Writer) (int64, error) {
	var copied int64
	for {
		n, err := s.copySome(w)
		copied += int64(n)
		if err == io.EOF {
			return copied, nil
		}
		if err == nil {
			continue
		}
		if !blocks(err) || s.noWait {
			return copied, err
		}
		if err := s.waitRead(); err != nil {
			return copied, s.fail("read", err)
		}
	}
}

// copySome copies what one read gives without waiting.
func (s *Stream) copySome(w io.Writer) (int, error) {
	if err := s.begin(&s.readBy); err != nil {
		return 0, s.fail("read", err)
	}
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	n, err := s.tryRead(buf[:])
	if n > 0 {
		n, werr := w.Write(buf[:n])
		if werr != nil {
			return n, werr
		}
	}
	return n, err
}
