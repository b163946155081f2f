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
	return readOnce(p, func() (int, error) { return unix.Read(int(f), p) })
}

// readAt reads what one call gives, at the given offset.
func (f file) readAt(p []byte, offset int64) (int, error) {
	return readOnce(p, func() (int, error) { return unix.Pread(int(f), p, offset) })
}

// readOnce makes a call that reads into p, again after a signal, and its results those of an
// io.Reader.
func readOnce(p []byte, read func() (int, error)) (int, error) {
	for {
		n, err := read()
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
