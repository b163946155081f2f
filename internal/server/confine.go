package server

import (
	"crypto/x509"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/confine"
	"github.com/lwango/lwango/internal/confpath"
	"github.com/lwango/lwango/internal/settings"
)

// confineConfig is [confine].
type confineConfig struct {
	Table settings.Table `toml:",table"`
	// User is the one that the process becomes, by name or number; needed where root starts it.
	User string `toml:"user"`
	// Group is the process's, by name or number; without it, that of the user.
	Group string `toml:"group"`
	// Landlock leaves the files that the configuration names, where the kernel has it; true without
	// the key.
	Landlock bool `toml:"landlock"`
	// Seccomp leaves the system calls that a server needs.
	Seccomp bool `toml:"seccomp"`
	// Read has more files and folders to read, for a program's own handlers.
	Read []string `toml:"read"`
	// Write has more files and folders to write to.
	Write []string `toml:"write"`

	become *confine.User // nil: the one that the process has, or it is confined already

	_ struct{} `gone:"chroot" why:"landlock leaves the files that the configuration names, and RootDirectory= of a systemd unit or a container gives a process another root folder"`
}

// same reports whether both ask for the same.
func (c *confineConfig) same(o *confineConfig) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.User == o.User && c.Group == o.Group && c.Landlock == o.Landlock &&
		c.Seccomp == o.Seccomp && slices.Equal(c.Read, o.Read) && slices.Equal(c.Write, o.Write)
}

// executes reports whether a server that has been confined so may still execute programs.
func (c *confineConfig) executes() bool {
	return c == nil || !c.Seccomp && (!c.Landlock || confine.Landlock() == 0)
}

// jail is what [confine] has done to the process. It is confined when the sockets listen
// (server.confine), since a port below 1024 takes root; for -t, when the configuration has been read.
type jail struct {
	done     bool     // the process is confined
	kept     []string // files and folders that Landlock has left; nil: all
	filtered bool     // system calls are
}

// makeFolder makes the folder of acme, if c has that, for the user that the process is to become.
func (c *config) makeFolder() error {
	a := c.acme()
	switch {
	case a == nil:
		return nil
	case c.Confine != nil && c.Confine.become != nil:
		return a.MakeFolder(c.Confine.become.ID, c.Confine.become.Group)
	}
	return a.MakeFolder(-1, -1)
}

// checkConfine checks [confine], and looks up its user while the files for that can be read.
func (c *config) checkConfine(s source) {
	t := c.Confine
	if t == nil {
		return
	}
	for _, list := range []*[]string{&t.Read, &t.Write} {
		for i, path := range *list {
			(*list)[i] = confpath.Join(c.Dir, path)
		}
	}
	if s.Embedding != nil {
		t.Table.Errorf("", "is for a server that is its process; a program that starts a server "+
			"in code confines itself")
		return
	}
	if !s.Confining {
		return // restartNeeded says what has changed
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
	u, key, err := lookUser(t.User, t.Group)
	switch {
	case err != nil:
		t.Table.Errorf(key, "%v", err)
	case u.ID == 0:
		t.Table.Errorf("user", "expected one that is not root")
	case os.Geteuid() == 0:
		t.become = u
	case u.ID != os.Geteuid():
		t.Table.Errorf("user", "only root becomes another user; this is started by user %d",
			os.Geteuid())
	case u.Group != os.Getegid():
		t.Table.Errorf(key, "only root becomes a member of group %d; this is started with group "+
			"%d", u.Group, os.Getegid())
	}
}

// lookUser finds a user with all groups, by names or numbers. group is its own one if that is not to
// be the user's. A number need not be known, but then there must be a group. key is the one that
// err is about.
func lookUser(name, group string) (_ *confine.User, key string, _ error) {
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

// prepare reads what the standard library reads once, on demand.
func prepare() {
	_ = time.Local.String()
	_, _ = x509.SystemCertPool() // an upstream without trusted roots has an error of its own
}

// confine does the rest of what [confine] asks for. The sockets listen, and nothing is served yet.
func (s *server) confine() error {
	t, j := s.config.Confine, &s.jail
	if t == nil || !s.source.Confining {
		if t == nil && s.source.Embedding == nil && os.Geteuid() == 0 {
			s.own.Warn("running as root without [confine]: a fault of the server or of a handler " +
				"is one of root")
		}
		return nil
	}
	prepare()
	var files *confine.Files
	abi := 0
	if t.Landlock {
		if abi = confine.Landlock(); abi == 0 {
			s.own.Warn("confine: the kernel has no Landlock; what the user may read and write is " +
				"not restricted further")
		} else {
			read, write := s.config.files()
			for _, path := range slices.Concat(read, write) {
				j.kept = append(j.kept, resolved(path))
			}
			var err error
			if files, err = confine.NewFiles(read, write); err != nil {
				return t.Table.Wrong("landlock", err)
			}
			defer files.Close()
		}
	}
	if t.become != nil {
		if err := confine.LimitCapabilities(); err != nil {
			return t.Table.Wrong("user", err)
		}
		if err := t.become.Become(); err != nil {
			return t.Table.Wrong("user", err)
		}
	}
	if err := confine.DropCapabilities(); err != nil {
		return t.Table.Wrong("user", err)
	}
	if err := confine.NoNewPrivileges(); err != nil {
		return t.Table.Wrong("user", err)
	}
	if files != nil {
		if err := files.Restrict(); err != nil {
			return t.Table.Wrong("landlock", err)
		}
	}
	if t.Seccomp {
		if err := confine.FilterCalls(); err != nil {
			return t.Table.Wrong("seccomp", err)
		}
		j.filtered = true
	}
	j.done, s.source.Confining = true, false
	s.own.Info("confined", "user", os.Geteuid(), "group", os.Getegid(), "landlock", abi, "seccomp",
		t.Seccomp)
	s.checkJail()
	if a := s.config.acme(); a != nil {
		if err := a.CheckFolder(s.source.Made); err != nil {
			s.own.Warn("confine: no certificate can be obtained or renewed", "error", err)
		}
	}
	return nil
}

const resolvConf = "/etc/resolv.conf"

// systemFiles are what the standard library reads: for names, trusted roots, times and listening.
var systemFiles = []string{"/etc/hosts", resolvConf, "/etc/nsswitch.conf", "/etc/services",
	"/etc/protocols", "/etc/localtime", "/usr/share/zoneinfo", "/etc/ssl/certs",
	"/usr/share/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
	"/proc/sys/net/core/somaxconn", "/dev/urandom"}

// files returns the files and folders that the configuration names: those that a server reads, and
// those that it writes. Single files may be exchanged, so their folders are meant (see
// confine.NewFiles). Of the operating system's files this holds for resolv.conf alone, since the
// rest of /etc is not ours: that one is exchanged whenever the network changes, often at a place to
// which it is a link, and without it no name is found any more.
func (c *config) files() (read, write []string) {
	read = append(slices.Clone(systemFiles), c.Confine.Read...)
	read = append(read, filepath.Dir(confine.Target(resolvConf)))
	write = append([]string{"/dev/null"}, c.Confine.Write...)
	single := slices.Clone(c.names)
	single = append(single, c.File)
	single = append(single, c.text.Secrets()...)
	for _, pattern := range c.Include {
		single = append(single, confpath.Join(c.Dir, pattern))
	}
	single = append(single, c.certs().Paths()...)
	for _, l := range c.Listeners {
		if l.TLS.CAs != "" {
			single = append(single, confpath.Join(c.Dir, l.TLS.CAs))
		}
		if l.Address.Network == "unix" && !strings.HasPrefix(l.Address.Name, "@") {
			write = append(write, filepath.Dir(l.Address.Name))
		}
	}
	if c.Debug.at.Network == "unix" {
		write = append(write, filepath.Dir(c.Debug.at.Name))
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
	if a := c.acme(); a != nil {
		write = append(write, a.Folder)
	}
	for _, path := range c.logFiles() {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			write = append(write, path) // a device or a pipe, which nothing exchanges
		} else {
			write = append(write, confine.Folders(path)...)
		}
	}
	spool := c.SpoolDir
	if spool == "" {
		spool = os.TempDir()
	}
	return read, append(write, spool)
}

// logFiles returns the paths of the access logs that are files.
func (c *config) logFiles() (paths []string) {
	for _, a := range c.accessLogs() {
		if a.IsFile() {
			paths = append(paths, a.Path)
		}
	}
	return paths
}

// executes reports whether the process may still execute programs.
func (j *jail) executes() bool { return j.kept == nil && !j.filtered }

// resolved follows the links in a path, if it can.
func resolved(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}

// reaches returns an error if a handler of c could not read one of its files or folders. Modules do
// not notice that: Landlock lets a folder be opened to look for names in it (O_PATH). All else that a
// configuration names is read, or written to, by the reload itself.
func (j *jail) reaches(c *config) error {
	if j.kept == nil {
		return nil
	}
	for _, path := range c.names {
		to := resolved(path)
		if !slices.ContainsFunc(j.kept, func(kept string) bool {
			rel, err := filepath.Rel(kept, to)
			return err == nil && filepath.IsLocal(rel)
		}) {
			return fmt.Errorf("%s: %w: Landlock has kept it from this process since the start, when "+
				"the configuration did not name it", path, unix.EACCES)
		}
	}
	return nil
}

// sayJail logs, after a reload that was refused, why a file may be out of reach.
func (s *server) sayJail(err error) {
	if !s.jail.done || err == nil {
		return
	}
	text := err.Error()
	for _, no := range []error{unix.EACCES, unix.EPERM, unix.ENOENT} {
		if strings.Contains(text, no.Error()) {
			s.own.Warn("the server is confined: what was not in [confine] or in the configuration " +
				"at its start is out of its reach, and needs a restart")
			return
		}
	}
}
