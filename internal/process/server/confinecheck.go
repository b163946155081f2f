package server

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/asynclog"
	"github.com/lwango/lwango/internal/process/config"
)

// tryConfined is for -t. It confines the process as a start does, since root could read more files.
// So it logs the warnings of a start, and returns an error where a start would fail.
func tryConfined(c *config.Config, from config.Source) error {
	from.FoldersMade = true
	s := &server{source: from, own: asynclog.Priority(from.Logger), config: c}
	if err := s.confine(); err != nil {
		return err
	}
	for _, a := range c.AccessLogs() {
		if err := a.Writable(); err != nil {
			return err
		}
	}
	if err := c.ErrorLog.Writable(); err != nil {
		return err
	}
	return c.CheckCacheFolder(true)
}

// checkSandbox warns at the start of what will not work once it is needed.
func (s *server) checkSandbox() {
	if _, err := s.source.Load(); err != nil {
		s.own.Warn("confine: a reload would be refused, so a change of the configuration or of a "+
			"certificate needs a restart", "error", err)
	}
	for _, path := range s.config.Unreadable() {
		s.own.Warn("confine: a handler cannot read what it is to serve or to use", "path", path,
			"error", unix.EACCES)
	}
	said := map[string]bool{}
	lacks := func(path string, remove bool, what string) {
		dir := filepath.Dir(path)
		err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		if err == nil && remove && !removable(path) {
			err = unix.EPERM
		}
		if err != nil && !said[dir+what] {
			said[dir+what] = true
			s.own.Warn("confine: "+what, "folder", dir, "error", err)
		}
	}
	for _, path := range s.config.LogFiles() {
		lacks(path, false, "a log that was moved away cannot be made anew, unless the rotation does so")
	}
	if path := s.config.PIDFile; path != "" {
		lacks(path, true, "pid_file cannot be removed at the end")
	}
	for _, lc := range s.config.Listeners {
		if lc.Address.Network == "unix" {
			lacks(lc.Address.Name, true, "the file of a socket cannot be removed at the end")
		}
	}
}

// removable reports whether the process may remove a file from a folder that it may write to. From
// a sticky one, such as /tmp, it removes only what its user owns (unlink(2), EPERM).
func removable(path string) bool {
	var dir, file unix.Stat_t
	if unix.Stat(filepath.Dir(path), &dir) != nil || unix.Lstat(path, &file) != nil {
		return true // there is nothing to remove
	}
	user := uint32(os.Geteuid())
	return dir.Mode&unix.S_ISVTX == 0 || dir.Uid == user || file.Uid == user
}
