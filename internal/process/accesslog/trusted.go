package accesslog

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many links the kernel follows in one path (path_resolution(7)).
const maxLinks = 40

// openTrusted is os.OpenFile for an absolute path. Called by root, it follows only links that root
// has made: otherwise the owner of a folder could make root write wherever a link leads. It goes
// from folder to folder by descriptors, so that no folder can be exchanged meanwhile.
func openTrusted(path string, flags int, perm uint32) (*os.File, error) {
	if os.Geteuid() != 0 {
		return os.OpenFile(path, flags, os.FileMode(perm))
	}
	fd, err := walk(path, flags|unix.O_CLOEXEC, perm)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func walk(path string, flags int, perm uint32) (int, error) {
	const folder = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	dir, err := unix.Open("/", folder, 0)
	if err != nil {
		return -1, err
	}
	defer func() { unix.Close(dir) }()
	links := 0
	for {
		path = strings.TrimLeft(path, "/")
		name, rest, more := strings.Cut(path, "/")
		if name == "" {
			name = "." // the path ends with a slash
		}
		if !more {
			fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW, perm)
			if err != unix.ELOOP {
				return fd, err
			}
			if inProc(dir) { // a descriptor of this process, such as that of /dev/stdout
				return unix.Openat(dir, name, flags, perm)
			}
		}
		next, err := unix.Openat(dir, name, folder, 0)
		if err != nil {
			return -1, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(next, &st); err != nil {
			unix.Close(next)
			return -1, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			unix.Close(dir)
			dir, path = next, rest
			continue
		}
		to := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(next, "", to)
		unix.Close(next)
		if err != nil {
			return -1, err
		}
		if st.Uid != 0 {
			return -1, fmt.Errorf("user %d has made the link %s there, which root does not follow",
				st.Uid, name)
		}
		if links++; links > maxLinks {
			return -1, unix.ELOOP
		}
		if path = string(to[:n]); more {
			path += "/" + rest
		}
		if path[0] == '/' {
			unix.Close(dir)
			if dir, err = unix.Open("/", folder, 0); err != nil {
				return -1, err
			}
		}
	}
}

// inProc reports whether a folder is in procfs(5), where a link leads elsewhere than its text says.
func inProc(dir int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(dir, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}
