package sockets

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/lwango/lwango/internal/base/confpath"
	"golang.org/x/sys/unix"
)

// access has the permissions and the owner of the file of a UNIX socket, which decide who may
// connect: a client needs the right to write (unix(7)). The zero access changes nothing.
type access struct {
	mode        fs.FileMode // set if chmod
	chmod       bool
	user, group int // set if chown; -1: leave
	chown       bool
}

// set gives the file its mode and owner, if it is a socket that this process has made: that of made
// or, if made is nil, one that the process's user owns. In a folder of another user, a link may be
// in its place. set does not set values that the file has already: a process that has given up root
// may not change sockets of root, and a reload need not. It returns the earlier values, which the
// file has again after an error.
func (a access) set(path string, made *Socket) (before access, _ error) {
	if !a.chown && !a.chmod {
		return before, nil
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return before, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var has unix.Stat_t
	if err := unix.Fstat(fd, &has); err != nil {
		return before, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if has.Mode&unix.S_IFMT != unix.S_IFSOCK || made == nil && has.Uid != uint32(os.Geteuid()) ||
		made != nil && (has.Dev != made.Dev || has.Ino != made.Ino) {
		return before, &fs.PathError{Op: "chmod", Path: path,
			Err: errors.New("is not the socket that was made there")}
	}
	other := func(wanted int, id uint32) bool { return wanted >= 0 && uint32(wanted) != id }
	if a.chown && (other(a.user, has.Uid) || other(a.group, has.Gid)) {
		if err := unix.Fchownat(fd, "", a.user, a.group, unix.AT_EMPTY_PATH); err != nil {
			return access{}, &fs.PathError{Op: "chown", Path: path, Err: err}
		}
		before.user, before.group, before.chown = int(has.Uid), int(has.Gid), true
	}
	if a.chmod && has.Mode&0o777 != uint32(a.mode) {
		if err := chmod(fd, uint32(a.mode)); err != nil {
			if before.chown {
				_ = unix.Fchownat(fd, "", before.user, before.group, unix.AT_EMPTY_PATH)
			}
			return access{}, &fs.PathError{Op: "chmod", Path: path, Err: err}
		}
		before.mode, before.chmod = fs.FileMode(has.Mode&0o777), true
	}
	return before, nil
}

// chmod changes the mode of a file that was opened with O_PATH. Linux before 6.6 has no call for
// that, but takes the file's name in /proc.
func chmod(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if err != unix.ENOSYS && err != unix.EOPNOTSUPP && err != unix.EINVAL {
		return err
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
}

// Chmod sets the mode for the file of a UNIX socket, in place of the key.
func (e *Endpoint) Chmod(mode fs.FileMode) { e.access.mode, e.access.chmod = mode, true }

// checkAccess reads the keys mode and owner.
func (e *Endpoint) checkAccess() {
	if e.Address.Network != "unix" {
		for _, key := range []string{"mode", "owner"} {
			if e.Table.Has(key) {
				e.Table.Errorf(key, "is for the file of a unix: address")
			}
		}
		return
	}
	a := &e.access
	if e.Table.Has("mode") {
		n, err := strconv.ParseUint(e.Mode, 8, 16)
		if err != nil || n > 0o777 {
			e.Table.Errorf("mode", "expected permissions in octal, such as \"0660\", found %q",
				e.Mode)
		}
		e.Chmod(fs.FileMode(n))
	}
	if e.Table.Has("owner") {
		name, group, _ := strings.Cut(e.Owner, ":")
		if name == "" && group == "" {
			e.Table.Errorf("owner", "expected \"user:group\", \"user\" or \":group\", found %q",
				e.Owner)
			return
		}
		a.chown = true
		var err error
		if a.user, err = confpath.UserID(name); err == nil {
			a.group, err = confpath.GroupID(group)
		}
		if err != nil {
			e.Table.Errorf("owner", "%v", err)
		}
	}
}
