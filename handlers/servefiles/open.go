package servefiles

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

// root is the folder that is served, held by a descriptor: its later name, and that of the folders
// above it, do not matter.
type root struct {
	fd      int
	resolve uint64 // how names are
	cached  bool   // RESOLVE_CACHED can be added to it; see cold.go
	refused bool   // openat2 is; see stepwise.go
	beneath *os.Root
}

// openRoot opens the folder. The garbage collector closes the descriptor when the last handler that
// uses the root is gone: after a reload, that is when the last request in flight has ended.
func openRoot(dir string, follow bool) (*root, error) {
	// O_PATH asks for no permission to list the folder: its files can be served without.
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the folder %q: %w", dir, err)
	}
	r := &root{fd: fd, resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	if follow {
		// names have no dot segments: it takes a link to lead out
		r.resolve = unix.RESOLVE_NO_MAGICLINKS
	}
	runtime.AddCleanup(r, func(fd int) { unix.Close(fd) }, fd)

	if !sysio.HasOpenat2() {
		return r, r.openStepwise(dir, follow)
	}
	// Other faults of the folder are found now, and not at the first request.
	switch probe, errno := r.open([]byte("."), r.resolve); errno {
	case 0:
		unix.Close(probe)
	case unix.EACCES: // not for listing, see above
	default:
		return nil, fmt.Errorf("cannot open the folder %q: %w", dir, errno)
	}
	probe, errno := r.open([]byte("."), r.resolve|resolveCached)
	if errno == 0 {
		unix.Close(probe)
	}
	r.cached = errno != unix.EINVAL // Linux 5.12 and later know it
	return r, nil
}

// open opens a name below the root for reading, in the given manner of resolving it. The kernel
// resolves it and refuses every way out, by a symbolic link as well, and while another process
// renames folders; a check of the name beforehand could not promise that. Links within the folder
// work if they are relative. With follow_symlinks it only refuses the links of /proc, which stand
// for the open files of other processes.
//
// O_NONBLOCK is for a FIFO, whose open would wait for a writer and stop the whole loop; O_NOCTTY is
// for a terminal. Neither matters for regular files, and only these are served.
//
// unix.Openat2 would copy every name to new memory for the zero byte at its end.
func (r *root) open(name []byte, resolve uint64) (fd int, err syscall.Errno) {
	if bytes.IndexByte(name, 0) >= 0 {
		return -1, unix.EINVAL // the kernel would see another name than the one that was checked
	}
	if r.refused {
		return r.stepwise(string(name))
	}
	path := append(name, 0)
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY,
		Resolve: resolve,
	}
	for tries := 0; ; tries++ {
		n, _, err := unix.Syscall6(unix.SYS_OPENAT2, uintptr(r.fd),
			uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&how)), unix.SizeofOpenHow,
			0, 0)
		runtime.KeepAlive(r)
		switch {
		case err == 0:
			return int(n), 0
		case err == unix.EINTR:
		case err == unix.EAGAIN && tries < 8 && resolve&resolveCached == 0:
			// A link had a "..", and a folder on the way was renamed meanwhile, so the kernel
			// cannot tell whether the name stays beneath the root. Another attempt will succeed.
		default:
			return -1, err
		}
	}
}

// statusOf returns the status for a file that could not be opened. A file out of reach looks to the
// client like one that does not exist.
func statusOf(err syscall.Errno) int {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.ENAMETOOLONG, unix.EINVAL,
		unix.ENXIO, unix.ENODEV:
		// ENXIO, ENODEV: a socket or a device without a driver; EINVAL: a name the filesystem does
		// not know
		return http.StatusNotFound
	case unix.EACCES, unix.EPERM:
		return http.StatusForbidden
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
