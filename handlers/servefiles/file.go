package servefiles

import (
	"io"

	"golang.org/x/sys/unix"
)

// file is an open descriptor: what conn sends from by sendfile, or reads itself.
type file int

// Fd returns the descriptor.
func (f file) Fd() uintptr { return uintptr(f) }

// Read reads on from the descriptor's offset.
func (f file) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(f), p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// readAt reads what one call gives, at the given offset.
func (f file) readAt(p []byte, offset int64) (int, error) {
	for {
		n, err := unix.Pread(int(f), p, offset)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Close closes the descriptor. It must not be called twice.
func (f file) Close() error { return unix.Close(int(f)) }
