//go:build linux && !386 && !arm && !mips && !mipsle

package sysio

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// TempFile is a file without a name: what is written is gone when it is closed, or the process
// ends, in whatever way. It is for one goroutine at a time.
type TempFile struct {
	space  *TempSpace
	file   *os.File
	client netip.Addr // of networks.Of
	spare  bool
	closed bool
	at     int64  // of Read and Write
	Closed func() // called by the first Close; nil: nothing is

	busy sync.Mutex // held while the file is written, cut or closed, and for what follows
	size int64      // that is counted
	gone bool       // the file has given way

	// How fast the file grows, see rate.
	begun, grown time.Time // grown: the last time
	lately       float64   // bytes, weighted by decay
}

// rateTime is the age at which written bytes count 1/e for a file's rate.
const rateTime = 10 * time.Second

// grow counts n bytes more. The caller holds busy, as for rate.
func (f *TempFile) grow(n int64) {
	now := time.Now()
	f.lately = f.lately*decay(now.Sub(f.grown)) + float64(n)
	f.size += n
	f.grown = now
}

// rate returns how fast the file has grown lately, up to now, in bytes per second.
func (f *TempFile) rate(now time.Time) float64 {
	lasted := rateTime.Seconds() * (1 - decay(now.Sub(f.begun)))
	return f.lately * decay(now.Sub(f.grown)) / lasted
}

// decay returns how much a byte counts that was written d ago.
func decay(d time.Duration) float64 { return math.Exp(-d.Seconds() / rateTime.Seconds()) }

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

// WriteAt implements io.WriterAt. With ErrTempFull nothing is written, unless it is the disk that
// has no room: then that is in the error as well.
func (f *TempFile) WriteAt(p []byte, off int64) (int, error) {
	f.busy.Lock()
	defer f.busy.Unlock()
	if f.gone {
		return 0, ErrTempFull
	}
	if more := off + int64(len(p)) - f.size; more > 0 {
		if err := f.space.reserve(f, more); err != nil {
			return 0, err
		}
		f.grow(more)
	}
	n, err := f.file.WriteAt(p, off)
	return n, TempFull(err)
}

// TempFull adds ErrTempFull to the error of a disk without room: for a writer both are the same.
func TempFull(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrTempFull, err)
	}
	return err
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

// slowFree is the size from which on the caller does not wait until a file's blocks are free: ext4
// takes 60 ms to free a GiB, and the caller's loop would stand still meanwhile.
const slowFree = 4 << 20

// Close frees the file. The blocks of a large one are freed by a goroutine, and count until then. A
// second call has no effect.
func (f *TempFile) Close() error {
	if closed := f.Closed; closed != nil {
		f.Closed = nil
		defer closed()
	}
	if f.closed {
		return nil
	}
	f.closed = true
	f.busy.Lock()
	if f.size >= slowFree {
		go f.close() // which unlocks busy
		return nil
	}
	return f.close()
}

// close closes f, which the caller has locked by busy.
func (f *TempFile) close() error {
	defer f.busy.Unlock()
	err := f.file.Close()
	f.space.forget(f)
	return err
}

// giveWay frees what f holds. The caller holds busy, and has taken f off the space already.
func (f *TempFile) giveWay() {
	f.gone = true
	// The file has no name, and so nobody reads it any more. Its owner may close it meanwhile.
	go func() { _ = f.file.Truncate(0) }()
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
