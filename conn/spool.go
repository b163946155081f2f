package conn

import (
	"bytes"
	"io"

	"github.com/lwango/lwango/internal/sysio"
)

// Spooled is a whole request body, ready to be read any number of times, without waiting for the client.
type Spooled interface {
	io.Reader
	io.ReaderAt
	io.Seeker
}

// TempFile is a temporary file without a name. What all of them hold together is limited by max_spool.
type TempFile = sysio.TempFile

// ErrSpoolFull is the error of writing to a TempFile, and of Spool, for which max_spool has no room. If the head of the
// response has not gone out, a body that could not be spooled is answered with 503.
var ErrSpoolFull = sysio.ErrTempFull

// TempFile makes a file in spool_dir. The caller closes it, in a deferred call if it waits before: the thread may be killed.
func (r *Request) TempFile() (*TempFile, error) { return r.x.c.port.server.temp.Create() }

// Spool reads what is left of the body: up to maxMemory bytes stay in memory, a longer one goes to a TempFile, which is
// closed when the request ends. It returns the body, positioned at its beginning, and its length in bytes. A body in a
// file is an io.Closer as well, for a caller that is done with it long before the request ends. The error is that of
// Body.Read, ErrSpoolFull, or the file's.
//
// While Spool waits for the client, it holds what has come, up to maxMemory, and no further buffer.
//
// Writing the file goes to the page cache; if the disk cannot keep up, the loop waits for it.
func (r *Request) Spool(maxMemory int64) (Spooled, int64, error) {
	s := spooling{req: r, limit: maxMemory}
	for err := errWouldBlock; err != io.EOF; {
		if blocks(err) {
			err = r.body.Await()
		}
		if err == nil {
			err = s.take()
		}
		if err == ErrSpoolFull {
			r.body.err = err
			r.x.c.port.server.noteSpool(r.x)
		}
		if err != nil && err != io.EOF && !blocks(err) || blocks(err) && r.body.tryOnly {
			return nil, 0, err
		}
	}
	if s.file == nil {
		return bytes.NewReader(s.memory), int64(len(s.memory)), nil
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return s.file, s.written, err
}

// spooling is a Spool at work.
type spooling struct {
	req     *Request
	limit   int64
	memory  []byte // what has come, before there is a file
	file    *TempFile
	written int64 // to the file
}

// take takes what has come. Its error is that of Body.Read without waiting, or the file's.
func (s *spooling) take() error {
	for s.file == nil {
		n := len(s.memory)
		if int64(n) >= s.limit { // and this may be all
			var next [1]byte
			if k, err := s.read(next[:]); k == 0 {
				return err
			}
			if err := s.spill(next[:]); err != nil {
				return err
			}
			break
		}
		if n == cap(s.memory) { // it grows with what comes: Content-Length is only a claim
			grown := make([]byte, n, min(int64(max(2*n, 4<<10)), s.limit))
			copy(grown, s.memory)
			s.memory = grown
		}
		k, err := s.read(s.memory[n:cap(s.memory)])
		s.memory = s.memory[:n+k]
		if err != nil {
			return err
		}
	}
	buf := buffers.Get().(*[streamAt]byte)
	defer buffers.Put(buf)
	n := 0
	var err error
	for n < len(buf) && err == nil {
		var k int
		k, err = s.read(buf[n:])
		n += k
	}
	if err := s.write(buf[:n]); err != nil {
		return err
	}
	return err
}

// spill moves what is in memory to a file, and next, which comes behind it.
func (s *spooling) spill(next []byte) (err error) {
	if s.file, err = s.req.TempFile(); err != nil {
		return err
	}
	s.req.Defer(func() { _ = s.file.Close() })
	if err = s.write(s.memory); err == nil {
		err = s.write(next)
	}
	s.memory = nil
	return err
}

func (s *spooling) write(p []byte) error {
	n, err := s.file.Write(p)
	s.written += int64(n)
	return err
}

// read reads from the body without waiting.
func (s *spooling) read(p []byte) (int, error) {
	b := &s.req.body
	defer func(before bool) { b.tryOnly = before }(b.tryOnly)
	b.tryOnly = true
	return b.Read(p)
}
