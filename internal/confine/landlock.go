package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock's rights to files, as far as rules here give them.
const (
	readRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR

	// fileRights are those that a rule about a file, and not a folder, may have.
	fileRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// A server makes files, folders, links and sockets, and no devices; it executes nothing.
	writeRights = readRights | fileRights | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER
)

// rightsOf returns the rights to files that a version of Landlock's interface knows. What a ruleset
// handles, it denies wherever no rule gives it.
func rightsOf(abi int) uint64 {
	known := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1) // version 1: EXECUTE to MAKE_SYM
	if abi >= 2 {
		known |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		known |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		known |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return known
}

// Landlock returns the version of the kernel's interface, 0 if there is none: the kernel is older
// than Linux 5.13, or was built or started without it.
func Landlock() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0,
		unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// Files are files and folders that a process keeps. Close it.
type Files struct{ ruleset int }

// NewFiles lists files, and folders with all below them, to read and to write. A path that does not
// exist, or that the process cannot reach anyway, is left out; so this comes before Become.
//
// Where a path is a link, what it leads to is meant. A rule is about what is there now (landlock(7)):
// a file that is renamed into the place of a listed file is not listed, but all of a listed folder's
// files are, whenever they come.
//
// Connections are not restricted. Of ports, Landlock (since version 4) knows no addresses, a reload
// may name others, and a resolver needs one, too. Signals and abstract sockets (version 6) are not,
// either: each thread gets a domain of its own, and kernels before 6.15 then keep Go's threads from
// signaling each other, which the runtime needs.
func NewFiles(read, write []string) (*Files, error) {
	abi := Landlock()
	if abi == 0 {
		return nil, errors.New("the kernel has no Landlock")
	}
	handled := rightsOf(abi)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("landlock_create_ruleset", errno)
	}
	f := &Files{int(fd)}
	for rights, paths := range map[uint64][]string{readRights: read, writeRights: write} {
		for _, path := range paths {
			if err := f.permit(path, handled&rights); err != nil {
				f.Close()
				return nil, err
			}
		}
	}
	return f, nil
}

// Close closes what Restrict needs.
func (f *Files) Close() { unix.Close(f.ruleset) }

// Restrict leaves all threads no other files than these, except for those that are open.
// NoNewPrivileges comes first.
func (f *Files) Restrict() error {
	return allThreads("landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF,
		uintptr(f.ruleset), 0, 0)
}

// permit adds a rule.
func (f *Files) permit(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.EACCES:
		return nil
	default:
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(f.ruleset),
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("%s: %w", path, os.NewSyscallError("landlock_add_rule", errno))
	}
	return nil
}

// Folders returns the folder of a file, and that of the file to which it is a link, also if there
// is none yet: all of this is read where a file is exchanged by renaming another into its place. If
// path is a folder, it is the answer.
func Folders(path string) []string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return []string{path}
	}
	folders := []string{filepath.Dir(path)}
	if to := Target(path); filepath.Dir(to) != folders[0] {
		folders = append(folders, filepath.Dir(to))
	}
	return folders
}

// Choices returns the folders in which a path goes by a link that chooses among what is below its
// own folder, as current does that leads to releases/7: a link that is turned to another release
// leads to another folder than the one that was there at first. The root folder is none of them.
func Choices(path string) (folders []string) {
	dir := "/"
	for name := range strings.SplitSeq(filepath.Clean(path), "/") {
		link := filepath.Join(dir, name)
		if _, err := os.Readlink(link); err == nil {
			around, err := filepath.EvalSymlinks(dir)
			to, err2 := filepath.EvalSymlinks(link)
			if err == nil && err2 == nil && around != "/" && strings.HasPrefix(to, around+"/") {
				folders = append(folders, around)
			}
		}
		dir = link
	}
	return folders
}

// maxLinks is how many links the kernel follows in one path (path_resolution(7)).
const maxLinks = 40

// Target returns where a path leads, with all links followed: where a file is, or would be if there
// is none. If that cannot be told, since a folder is missing or links lead in a circle, it returns
// what it has found until then.
func Target(path string) string {
	for range maxLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return path
		}
		path = filepath.Join(dir, filepath.Base(path))
		to, err := os.Readlink(path)
		if err != nil {
			return path
		}
		if path = to; !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
	}
	return path
}
