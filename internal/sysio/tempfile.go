//go:build linux && !386 && !arm && !mips && !mipsle

package sysio

import (
	"errors"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ErrTempFull is the error of a write for which all temporary files together hold too much.
var ErrTempFull = errors.New("temporary files have reached their limit")

// TempSpace makes temporary files, and counts what they hold together. The zero value makes them in
// os.TempDir, without a limit. It is safe for any goroutine.
type TempSpace struct {
	dir   atomic.Pointer[string] // nil: os.TempDir
	limit atomic.Int64           // bytes; 0: none
	used  atomic.Int64           // bytes
}

// Configure sets the folder of files yet to be made, "" for os.TempDir, and the limit in bytes, 0
// for none.
func (s *TempSpace) Configure(dir string, limit int64) {
	s.dir.Store(&dir)
	s.limit.Store(limit)
}

// Used returns how many bytes the files hold.
func (s *TempSpace) Used() int64 { return s.used.Load() }

// Reserve counts n bytes of files that were made elsewhere, until Release. Its error is
// ErrTempFull.
func (s *TempSpace) Reserve(n int64) error { return s.reserve(n, s.limit.Load()) }

func (s *TempSpace) reserve(n, limit int64) error {
	if used := s.used.Add(n); limit > 0 && used > limit {
		s.used.Add(-n)
		return ErrTempFull
	}
	return nil
}

// Release ends the counting of n bytes.
func (s *TempSpace) Release(n int64) { s.used.Add(-n) }

// Create makes a file.
func (s *TempSpace) Create() (*TempFile, error) {
	dir := ""
	if p := s.dir.Load(); p != nil {
		dir = *p
	}
	f, err := openTemp(dir)
	if err != nil {
		return nil, err
	}
	return &TempFile{space: s, file: f}, nil
}

// TempFile is a file without a name: what is written is gone when it is closed, or the process
// ends, in whatever way. It is for one goroutine at a time.
type TempFile struct {
	space *TempSpace
	file  *os.File
	spare bool
	size  int64 // that is counted
	at    int64 // of Read and Write
}

// Read implements io.Reader.
func (f *TempFile) Read(p []byte) (int, error) {
	n, err := f.file.ReadAt(p, f.at)
	if f.at += int64(n); n > 0 {
		err = nil // it comes again
	}
	return n, err
}

// ReadAt implements io.ReaderAt.
func (f *TempFile) ReadAt(p []byte, off int64) (int, error) { return f.file.ReadAt(p, off) }

// Write implements io.Writer.
func (f *TempFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.at)
	f.at += int64(n)
	return n, err
}

// WriteAt implements io.WriterAt. With ErrTempFull nothing is written.
func (f *TempFile) WriteAt(p []byte, off int64) (int, error) {
	if more := off + int64(len(p)) - f.size; more > 0 {
		limit := f.space.limit.Load()
		if f.spare {
			limit -= limit / 4
		}
		if err := f.space.reserve(more, limit); err != nil {
			return 0, err
		}
		f.size += more
	}
	return f.file.WriteAt(p, off)
}

// Spare marks f as dispensable: its writes leave the last quarter of the space to other files.
func (f *TempFile) Spare() { f.spare = true }

// Seek implements io.Seeker.
func (f *TempFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.size
	}
	if offset < 0 {
		return 0, os.ErrInvalid
	}
	f.at = offset
	return offset, nil
}

// Close frees the file. A second call has no effect.
func (f *TempFile) Close() error {
	f.space.Release(f.size)
	f.size = 0
	if err := f.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// CheckTempDir reports why no temporary file can be made in a folder, "" for os.TempDir.
func CheckTempDir(dir string) error {
	f, err := openTemp(dir)
	if err != nil {
		return err
	}
	return f.Close()
}

// openTemp opens a new file without a name. If the file system cannot make such a file, it has a
// name for a moment.
func openTemp(dir string) (*os.File, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	const unnamed = unix.O_TMPFILE | unix.O_EXCL | unix.O_RDWR | unix.O_CLOEXEC
	if fd, err := unix.Open(dir, unnamed, 0o600); err == nil {
		return os.NewFile(uintptr(fd), dir), nil
	}
	f, err := os.CreateTemp(dir, "lwango-*")
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) { // of a random name, which says nothing
			err = &os.PathError{Op: "create a file in", Path: dir, Err: path.Err}
		}
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
