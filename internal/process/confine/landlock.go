package confine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	rights "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Landlock's access rights to files that rules here use.
const (
	reading = rights.AccessFSReadFile | rights.AccessFSReadDir

	// ofFiles are the rights that a rule about a file, and not a folder, may have.
	ofFiles = rights.AccessFSReadFile | rights.AccessFSWriteFile | rights.AccessFSTruncate |
		rights.AccessFSIoctlDev

	// A server makes files, folders, links and sockets, and no devices; it executes nothing.
	writing = reading | ofFiles | rights.AccessFSRemoveDir | rights.AccessFSRemoveFile |
		rights.AccessFSMakeDir | rights.AccessFSMakeReg | rights.AccessFSMakeSock |
		rights.AccessFSMakeFifo | rights.AccessFSMakeSym | rights.AccessFSRefer
)

// handled are the rights that need a rule, as far as the kernel knows them. The newer one to
// connect to a UNIX socket is not among them: see NewFiles.
var handled = landlock.Config{HandledAccessFS: landlock.V5.HandledAccessFS}.BestEffort()

// Landlock returns the version of the kernel's interface, or 0 without one: the kernel is older
// than Linux 5.13, or was built or started without Landlock.
func Landlock() int {
	abi, err := rights.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return abi
}

// Files has the files and folders to which a process keeps access. It has to be closed.
type Files struct{ ruleset int }

// NewFiles lists files, and folders with all below them, to read and to write. It leaves out paths
// that do not exist or that the process cannot reach; so it has to be called before Become.
//
// A link stands for its target. A rule is about the present file (landlock(7)): a file that is
// renamed to the path of a listed file is not listed, but all files of a listed folder are, even
// new ones.
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
	var rules []landlock.Rule
	for access, paths := range map[landlock.AccessFSSet][]string{reading: read, writing: write} {
		if abi < 2 { // otherwise the library would do nothing at all
			access &^= rights.AccessFSRefer
		}
		for _, path := range paths {
			var st unix.Stat_t
			switch err := unix.Stat(path, &st); err {
			case nil:
			case unix.ENOENT, unix.ENOTDIR, unix.EACCES:
				continue
			default:
				return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
			}
			if st.Mode&unix.S_IFMT != unix.S_IFDIR {
				rules = append(rules, landlock.PathAccess(access&ofFiles, path).IgnoreIfMissing())
			} else {
				rules = append(rules, landlock.PathAccess(access, path).IgnoreIfMissing())
			}
		}
	}
	ruleset, _, err := handled.NewRulesetFD(rules...)
	if err != nil {
		return nil, err
	}
	return &Files{ruleset}, nil
}

// Close closes what Restrict needs.
func (f *Files) Close() { unix.Close(f.ruleset) }

// Restrict restricts all threads to these files, and to open ones. NoNewPrivileges has to be called
// before.
func (f *Files) Restrict() error {
	return allThreads("landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF,
		uintptr(f.ruleset), 0, 0)
}

// Folders returns the folder of a file and, for a link, the folder of its target, also if the file
// does not exist yet: all these are read when a file is replaced by renaming another one. If path
// is a folder, Folders returns path.
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

// Choices returns the folders in which path follows a link to something below the link's own
// folder, such as a link current to releases/7: when such a link changes, it leads to another
// folder than before. It leaves out the root folder.
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

// Target follows all links of a path, and returns where the file is, or would be if it does not
// exist. If a folder is missing, or links lead in a circle, it returns what it has found until
// then.
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
