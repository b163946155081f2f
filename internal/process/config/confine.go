package config

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/process/confine"
	"golang.org/x/sys/unix"
)

// Confine is [confine].
type Confine struct {
	Table settings.Table `toml:",table"`
	// User is the one that the process becomes, by name or number; needed where root starts it.
	User string `toml:"user"`
	// Group is the process's, by name or number; without it, that of the user.
	Group string `toml:"group"`
	// Landlock leaves the files that the configuration names, where the kernel has it.
	Landlock bool `toml:"landlock" default:"true"`
	// Seccomp leaves the system calls that a server needs.
	Seccomp bool `toml:"seccomp"`
	// Read has more files and folders to read, for a program's own handlers.
	Read []string `toml:"read"`
	// Write has more files and folders to write to.
	Write []string `toml:"write"`

	Become *confine.User // nil: the one that the process has, or it is confined already

	_ struct{} `gone:"chroot" why:"landlock leaves the files that the configuration names, and RootDirectory= of a systemd unit or a container gives a process another root folder"`
}

// Same reports whether both have the same settings.
func (c *Confine) Same(o *Confine) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.User == o.User && c.Group == o.Group && c.Landlock == o.Landlock &&
		c.Seccomp == o.Seccomp && slices.Equal(c.Read, o.Read) && slices.Equal(c.Write, o.Write)
}

// Executes reports whether a server that has been confined so may still execute programs.
func (c *Confine) Executes() bool {
	return c == nil || !c.Seccomp && (!c.Landlock || confine.Landlock() == 0)
}

// MakeFolders makes the folders of acme and of [cache], if c has those, for the user that the
// process is to become. undo removes the folders that it has made, if they are empty. After an
// error, MakeFolders has already called it.
func (c *Config) MakeFolders() (undo func(), err error) {
	var made []string
	undo = func() {
		for _, dir := range slices.Backward(made) {
			_ = os.Remove(dir)
		}
	}
	defer func() {
		if err != nil {
			undo()
		}
	}()
	user, group := -1, -1
	if c.Confine != nil && c.Confine.Become != nil {
		user, group = c.Confine.Become.ID, c.Confine.Become.Group
	}
	if a := c.ACME(); a != nil {
		if made, err = a.MakeFolder(user, group); err != nil {
			return undo, err
		}
	}
	folder, err := c.makeCacheFolder(user, group)
	made = append(made, folder...)
	return undo, err
}

// checkConfine checks [confine], and looks up its user while the files for that can be read.
func (c *Config) checkConfine(s Source) {
	t := c.Confine
	if t == nil {
		return
	}
	for _, list := range []*[]string{&t.Read, &t.Write} {
		for i, path := range *list {
			(*list)[i] = confpath.Join(c.Dir, path)
		}
	}
	if !t.Landlock {
		for key, list := range map[string][]string{"read": t.Read, "write": t.Write} {
			if len(list) > 0 {
				t.Table.Errorf(key, "has no effect with landlock = false, which leaves all files")
			}
		}
	}
	if s.Code != nil {
		t.Table.Errorf("", "is for a server that is its process; a program that starts a server "+
			"in code confines itself")
		return
	}
	if !s.Confining {
		return // restartNeeded logs the changes
	}
	if err := confine.Supported(); err != nil {
		t.Table.Errorf("", "%v", err)
		return
	}
	if t.User == "" {
		switch {
		case t.Group != "":
			t.Table.Errorf("group", "needs the key user beside it")
		case os.Geteuid() == 0:
			t.Table.Errorf("user", "missing; expected the user that a server which root has "+
				"started becomes")
		}
		return
	}
	u, key, err := lookupUser(t.User, t.Group)
	switch {
	case err != nil:
		t.Table.Errorf(key, "%v", err)
	case u.ID == 0:
		t.Table.Errorf("user", "expected one that is not root")
	case os.Geteuid() == 0:
		t.Become = u
	case u.ID != os.Geteuid():
		t.Table.Errorf("user", "only root becomes another user; this is started by user %d",
			os.Geteuid())
	case u.Group != os.Getegid():
		t.Table.Errorf(key, "only root becomes a member of group %d; this is started with group "+
			"%d", u.Group, os.Getegid())
	}
}

// lookupUser finds a user with all its groups, by names or numbers. group, if not empty, replaces
// the user's own group. A number need not be known, but then there must be a group. key is the key
// that err is about.
func lookupUser(name, group string) (_ *confine.User, key string, _ error) {
	u := new(confine.User)
	var err error
	if u.ID, err = confpath.UserID(name); err != nil {
		return nil, "user", err
	}
	gid := ""
	known, err := user.LookupId(strconv.Itoa(u.ID))
	if err == nil {
		gid = known.Gid
		ids, err := known.GroupIds()
		if err != nil {
			return nil, "user", err
		}
		for _, id := range ids {
			n, err := strconv.Atoi(id)
			if err != nil {
				return nil, "user", err
			}
			u.Groups = append(u.Groups, n)
		}
	}
	if group != "" {
		gid = group
	}
	if gid == "" {
		return nil, "group", fmt.Errorf("missing: user %s is not in /etc/passwd, which would say "+
			"its group", name)
	}
	if u.Group, err = confpath.GroupID(gid); err != nil {
		return nil, "group", err
	}
	return u, "group", nil
}

const resolvConf = "/etc/resolv.conf"

// systemFiles are files that the standard library reads: for names, trusted roots, times and
// listening.
var systemFiles = []string{"/etc/hosts", resolvConf, "/etc/nsswitch.conf", "/etc/services",
	"/etc/protocols", "/etc/localtime", "/usr/share/zoneinfo", "/etc/ssl/certs",
	"/usr/share/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
	"/proc/sys/net/core/somaxconn", "/dev/urandom"}

// Files returns the files and folders that the configuration names, to read and to write. A file
// may be replaced by renaming another one, so Files returns its folder (see confine.NewFiles). Of
// the operating system's files, that applies to resolv.conf alone, since the rest of /etc is not
// ours. resolv.conf is replaced whenever the network changes, often where it is a link to, and
// without it no name resolves any more.
func (c *Config) Files() (read, write []string) {
	read = append(slices.Clone(systemFiles), c.Confine.Read...)
	read = append(read, filepath.Dir(confine.Target(resolvConf)))
	write = append([]string{"/dev/null"}, c.Confine.Write...)
	single := slices.Clone(c.HandlerFiles)
	single = append(single, c.File)
	single = append(single, c.text.Secrets()...)
	for _, pattern := range c.Include {
		single = append(single, confpath.Join(c.Dir, pattern))
	}
	single = append(single, c.Certs().Paths()...)
	if a := c.ACME(); a != nil {
		single = append(single, a.Paths()...)
	}
	for _, l := range c.Listeners {
		if l.Address.Network == "unix" && !strings.HasPrefix(l.Address.Name, "@") {
			write = append(write, filepath.Dir(l.Address.Name))
		}
	}
	if c.Debug.At.Network == "unix" {
		write = append(write, filepath.Dir(c.Debug.At.Name))
	}
	for _, path := range single {
		read = append(read, confine.Folders(path)...)
	}
	for _, path := range slices.Concat(single, c.Confine.Read) {
		read = append(read, confine.Choices(path)...)
	}
	if c.PIDFile != "" {
		write = append(write, filepath.Dir(c.PIDFile))
	}
	if a := c.ACME(); a != nil {
		write = append(write, a.Folder)
	}
	if folder := c.cacheFolder(); folder != "" {
		write = append(write, folder)
	}
	for _, path := range c.LogFiles() {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			write = append(write, path) // a device or a pipe, which is not replaced
		} else {
			write = append(write, confine.Folders(path)...)
		}
	}
	return read, append(write, cmp.Or(c.SpoolDir, os.TempDir()))
}

// LogFiles returns the paths of the logs that are files.
func (c *Config) LogFiles() (paths []string) {
	for _, a := range c.AccessLogs() {
		if a.IsFile() {
			paths = append(paths, a.Path)
		}
	}
	if c.ErrorLog.IsFile() {
		paths = append(paths, c.ErrorLog.Path)
	}
	return paths
}

// Unreadable returns the files of handlers that the process may not open, and the folders that it
// may not search. Modules do not notice the latter when they are built, as package server explains.
func (c *Config) Unreadable() (paths []string) {
	for _, path := range c.HandlerFiles {
		right := uint32(unix.R_OK)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			right = unix.X_OK
		}
		err := unix.Faccessat(unix.AT_FDCWD, path, right, unix.AT_EACCESS)
		if err == unix.EACCES && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}
