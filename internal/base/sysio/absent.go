package sysio

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Absent reports that an error of Folder, or of Mode, says that there is no such file, or that its
// name leads out of the folder, and does not leave that open.
func Absent(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	var path *fs.PathError
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		// os.Root's own, for a name that leads out of it; it is no error of a wait
		return errors.As(err, &path) && !errors.Is(err, os.ErrClosed)
	}
	switch errno {
	case syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL, syscall.EXDEV:
		return true
	}
	return false
}
