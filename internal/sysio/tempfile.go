//go:build linux && !386 && !arm && !mips && !mipsle

package sysio

import (
	"os"

	"golang.org/x/sys/unix"
)

// TempFile opens a new file in os.TempDir for reading and writing. It has no name: what is written is gone when it is
// closed, or the process ends, in whatever way. Where the file system cannot make such a file, it has one for a moment.
func TempFile() (*os.File, error) {
	dir := os.TempDir()
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
		return os.NewFile(uintptr(fd), dir), nil
	}
	f, err := os.CreateTemp(dir, "lwango-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
