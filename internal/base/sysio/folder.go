//go:build linux && !386 && !arm && !mips && !mipsle

package sysio

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Folder tells what lies beneath a folder, and nothing of what lies elsewhere. Any goroutine may
// use it.
//
// A name of one segment takes one system call: nothing leads out unless it is a link itself, which
// fstatat tells. For any other name there is openat2, or an os.Root where that is refused.
type Folder struct {
	fd   int
	root *os.Root // nil: openat2 is not refused
}

// OpenFolder opens a folder. The garbage collector closes it.
func OpenFolder(dir string) (*Folder, error) {
	// O_PATH asks for no permission to list the folder.
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	f := &Folder{fd: fd}
	runtime.AddCleanup(f, func(fd int) { unix.Close(fd) }, fd)
	if !HasOpenat2() {
		if f.root, err = os.OpenRoot(dir); err != nil {
			return nil, fmt.Errorf("openat2 is refused: %w", err)
		}
	}
	return f, nil
}

// Mode returns the mode of a file, as stat(2), whose name is relative to the folder. The error for
// a name that leads out is EXDEV, or one of os.Root's own.
func (f *Folder) Mode(name string) (uint32, error) {
	defer runtime.KeepAlive(f)
	if strings.IndexByte(name, '/') < 0 && name != ".." {
		mode, err := modeAt(f.fd, name, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil || mode&unix.S_IFMT != unix.S_IFLNK {
			return mode, err
		}
	}
	if f.root == nil {
		return f.resolve(name)
	}
	info, err := f.root.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Sys().(*syscall.Stat_t).Mode, nil
}

// resolveCached is RESOLVE_CACHED of openat2(2), which package unix does not have.
const resolveCached = 0x20

// CachedMode is Mode if the kernel has all in memory that it needs to know, so that it waits for no
// disk. Otherwise, and on kernels before Linux 5.12, known is false.
func (f *Folder) CachedMode(name string) (mode uint32, err error, known bool) {
	defer runtime.KeepAlive(f)
	if f.root != nil {
		return 0, nil, false
	}
	mode, err = f.open(name, resolveCached)
	if err == unix.EAGAIN || err == unix.EINVAL { // EINVAL: the kernel does not know the flag
		return 0, nil, false
	}
	return mode, err, true
}

// resolve is Mode by openat2.
func (f *Folder) resolve(name string) (uint32, error) { return f.open(name, 0) }

// open is resolve with further flags for how the kernel resolves the name.
func (f *Folder) open(name string, resolve uint64) (uint32, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | resolve,
	}
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(f.fd, name, &how)
		switch {
		case err == nil:
			var st unix.Stat_t
			err = unix.Fstat(fd, &st)
			unix.Close(fd)
			return st.Mode, err
		case err == unix.EINTR:
		case err == unix.EAGAIN && tries < 8 && resolve == 0:
			// A link had a "..", and a folder on the way was renamed meanwhile, so the kernel
			// cannot tell whether the name stays beneath the folder. Another attempt will succeed.
		default:
			return 0, err
		}
	}
}

// Mode returns the mode of a file, as stat(2), wherever its name leads.
func Mode(name string) (uint32, error) { return modeAt(unix.AT_FDCWD, name, 0) }

func modeAt(dir int, name string, flags int) (uint32, error) {
	for {
		var st unix.Stat_t
		if err := fstatat(dir, name, &st, flags); err != unix.EINTR {
			return st.Mode, err
		}
	}
}

// direct says that the system call has the struct of package unix.
const direct = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64"

// fstatat is fstatat(2). Names of the usual length are not copied to the heap for it: each request
// for a script asks for one.
func fstatat(dir int, name string, st *unix.Stat_t, flags int) error {
	var text [128]byte
	if !direct || len(name) >= len(text) || strings.IndexByte(name, 0) >= 0 {
		return unix.Fstatat(dir, name, st, flags)
	}
	copy(text[:], name)
	_, _, errno := syscall.Syscall6(unix.SYS_NEWFSTATAT, uintptr(dir), uintptr(unsafe.Pointer(&text)),
		uintptr(unsafe.Pointer(st)), uintptr(flags), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// HasOpenat2 reports whether openat2(2) reaches the kernel, which it asks once. The seccomp filters
// of older container runtimes refuse it (EPERM), and kernels before Linux 5.6 do not know it
// (ENOSYS). The kernel checks the size of the argument first, which is wrong here; any other error
// is a refusal.
var HasOpenat2 = sync.OnceValue(func() bool {
	_, _, errno := unix.Syscall6(unix.SYS_OPENAT2, 0, 0, 0, 0, 0, 0)
	return errno == unix.EINVAL
})
