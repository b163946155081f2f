package server

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/confine"
)

// sandbox is what [confine] has done to the process. It is confined when the sockets listen
// (server.confine), since a port below 1024 takes root; for -t, when the configuration has been
// read.
type sandbox struct {
	confined bool     // the process is confined
	allowed  []string // files and folders that Landlock allows; nil: all
	filtered bool     // by seccomp
}

// prepare makes the standard library read the files that it reads once, on demand.
func prepare() {
	_ = time.Local.String()
	_, _ = x509.SystemCertPool() // an upstream without trusted roots has an error of its own
}

// confine does the rest of [confine]. The sockets listen, and nothing is served yet.
func (s *server) confine() error {
	t, j := s.config.Confine, &s.sandbox
	if t == nil || !s.source.Confining {
		if t == nil && s.source.Code == nil && os.Geteuid() == 0 {
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
			read, write := s.config.Files()
			for _, path := range slices.Concat(read, write) {
				j.allowed = append(j.allowed, resolved(path))
			}
			var err error
			if files, err = confine.NewFiles(read, write); err != nil {
				return t.Table.Wrong("landlock", err)
			}
			defer files.Close()
		}
	}
	if t.Become != nil {
		if err := confine.LimitCapabilities(); err != nil {
			return t.Table.Wrong("user", err)
		}
		if err := t.Become.Become(); err != nil {
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
	j.confined, s.source.Confining = true, false
	s.own.Info("confined", "user", os.Geteuid(), "group", os.Getegid(), "landlock", abi, "seccomp",
		t.Seccomp)
	s.checkSandbox()
	if a := s.config.ACME(); a != nil {
		if err := a.CheckFolder(s.source.FoldersMade); err != nil {
			s.own.Warn("confine: no certificate can be obtained or renewed", "error", err)
		}
	}
	return nil
}

// executes reports whether the process may still execute programs.
func (j *sandbox) executes() bool { return j.allowed == nil && !j.filtered }

// resolved follows the links in a path, if it can.
func resolved(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}

// checkFiles returns an error if a handler of c could not read one of its files or folders. Modules
// do not notice that: Landlock lets a folder be opened to look for names in it (O_PATH). The reload
// itself reads or writes all other files that a configuration names.
func (j *sandbox) checkFiles(c *config.Config) error {
	if j.allowed == nil {
		return nil
	}
	for _, path := range c.HandlerFiles {
		to := resolved(path)
		if !slices.ContainsFunc(j.allowed, func(kept string) bool {
			rel, err := filepath.Rel(kept, to)
			return err == nil && filepath.IsLocal(rel)
		}) {
			return fmt.Errorf("%s: %w: Landlock has kept it from this process since the start, when "+
				"the configuration did not name it", path, unix.EACCES)
		}
	}
	return nil
}

// explainSandbox logs, after a refused reload, that the sandbox may have kept a file from the
// process.
func (s *server) explainSandbox(err error) {
	if !s.sandbox.confined || err == nil {
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
