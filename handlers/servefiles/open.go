package servefiles

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// root is the folder that is served, held by a descriptor: what the folder is called later, and what lies above it, no longer matters.
type root struct {
	fd      int
	resolve uint64 // how names are
	refused bool   // openat2 is; see stepwise.go
	beneath *os.Root
}

// openRoot opens the folder. The descriptor lives until the last handler that uses the root is gone, which after a reload is when the
// last request in flight ends; nobody can tell that moment better than the garbage collector.
func openRoot(dir string, follow bool) (*root, error) {
	// O_PATH asks for no permission to list the folder: its files can be served without.
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the folder %q: %w", dir, err)
	}
	r := &root{fd: fd, resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	if follow {
		r.resolve = unix.RESOLVE_NO_MAGICLINKS // names have no dot segments: it takes a link to lead out
	}
	runtime.AddCleanup(r, func(fd int) { unix.Close(fd) }, fd)

	if !hasOpenat2() {
		return r, r.openStepwise(dir, follow)
	}
	// What else is wrong with the folder is better found here than at the first request.
	switch probe, errno := r.open([]byte(".")); errno {
	case 0:
		unix.Close(probe)
	case unix.EACCES: // not for listing, see above
	default:
		return nil, fmt.Errorf("cannot open the folder %q: %w", dir, errno)
	}
	return r, nil
}

// open opens a name below the root for reading. The kernel resolves it and refuses every way out, also by a symbolic link and while
// somebody renames folders, which a check of the name beforehand could not promise. Links within the folder work if they are relative.
// Where links may be followed, it refuses those of /proc alone, which stand for what other processes have open.
//
// O_NONBLOCK is for a FIFO, whose open would wait for a writer and stop the whole loop; O_NOCTTY for a terminal. Neither changes
// anything for the regular files that alone are served.
//
// The call is made here and not by unix.Openat2, which copies every name to new memory for the zero byte at its end.
func (r *root) open(name []byte) (fd int, err syscall.Errno) {
	if bytes.IndexByte(name, 0) >= 0 {
		return -1, unix.EINVAL // the kernel would see another name than the one that was checked
	}
	if r.refused {
		return r.stepwise(string(name))
	}
	path := append(name, 0)
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY,
		Resolve: r.resolve,
	}
	for tries := 0; ; tries++ {
		n, _, err := unix.Syscall6(unix.SYS_OPENAT2, uintptr(r.fd), uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&how)), unix.SizeofOpenHow, 0, 0)
		runtime.KeepAlive(r)
		switch {
		case err == 0:
			return int(n), 0
		case err == unix.EINTR:
		case err == unix.EAGAIN && tries < 8:
			// A ".." in a link while something on the way was renamed: the kernel cannot say whether it stayed beneath. That passes.
		default:
			return -1, err
		}
	}
}

// statusOf is the answer to a client whose file could not be opened. What does not exist and what is out of reach look the same.
func statusOf(err syscall.Errno) int {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.ENAMETOOLONG, unix.EINVAL, unix.ENXIO, unix.ENODEV:
		return http.StatusNotFound // ENXIO, ENODEV: a socket or a device without a driver; EINVAL: a name the filesystem does not know
	case unix.EACCES, unix.EPERM:
		return http.StatusForbidden
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
