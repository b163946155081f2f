package servefiles

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// openStepwise prepares r to open names where openat2 is refused (see sysio.HasOpenat2). An os.Root
// goes from folder to folder and looks at each link itself: it refuses the same names, at several
// system calls each. With follow_symlinks, links of /proc cannot be told from others.
func (r *root) openStepwise(dir string, follow bool) (err error) {
	r.refused = true
	if !follow {
		if r.beneath, err = os.OpenRoot(dir); err != nil {
			return fmt.Errorf("cannot open the folder %q: %w", dir, err)
		}
	}
	return nil
}

// stepwise is open without openat2.
func (r *root) stepwise(name string) (fd int, errno syscall.Errno) {
	const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	if r.beneath == nil {
		for {
			fd, err := unix.Openat(r.fd, name, flags, 0)
			runtime.KeepAlive(r)
			if err != unix.EINTR {
				return fd, errnoOf(err)
			}
		}
	}
	f, err := r.beneath.OpenFile(name, flags, 0)
	if err != nil {
		return -1, errnoOf(err)
	}
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, errnoOf(err)
	}
	e := raw.Control(func(p uintptr) { fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0) })
	if e != nil {
		err = e
	}
	return fd, errnoOf(err)
}

// errnoOf returns the kernel's error, 0 for nil. Any other error is os.Root's own, for a name that
// leads out of the folder.
func errnoOf(err error) (errno syscall.Errno) {
	if err != nil && !errors.As(err, &errno) {
		return unix.EXDEV
	}
	return errno
}
