package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/confpath"
	"github.com/lwango/lwango/internal/settings"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// accessLogConfig is an [access_log], of the server or of a site. It is the conn.AccessLog of the
// requests there.
type accessLogConfig struct {
	Table settings.Table `toml:",table"`
	// Path is a file, "stderr:", "stdout:", "journald:", or "syslog:" and an address.
	Path string `toml:"path"`
	// Format is "common", "combined", "json", or a text with placeholders.
	Format string `toml:"format"`

	line lineFormat // of Format

	// Of the server that goes by the configuration, set before a request can come here.
	log  *accessLog // of Path; nil: lines are dropped
	hook func(*conn.AccessEntry)
}

// LogRequest implements conn.AccessLog.
func (a *accessLogConfig) LogRequest(l *loop.Loop, e *conn.AccessEntry) bool {
	if a.hook != nil {
		a.hook(e)
	}
	return a.log == nil || a.log.add(l, e, a.line)
}

// HasRoom implements conn.AccessLog.
func (a *accessLogConfig) HasRoom(_ *loop.Loop, s conn.Share) bool {
	return a.log == nil || a.log.hasRoom(s)
}

// check checks an [access_log]. Unset keys come from all, the server-wide log, which may be nil.
func (a *accessLogConfig) check(dir string, all *accessLogConfig) {
	var err error
	if !a.Table.Has("format") && all != nil {
		a.line = all.line
	} else if a.line, err = parseFormat(a.Format); err != nil {
		a.Table.Errorf("format", "%v", err)
	}
	switch {
	case a.Path == "" && all != nil && !a.Table.Has("path"):
		a.Path = all.Path
	case a.Path == "":
		a.Table.Errorf("path", "missing; expected the path of a file")
	default:
		if a.Path, err = logPath(dir, a.Path); err != nil {
			a.Table.Errorf("path", "%v", err)
		}
	}
}

// logPath returns the path of an access log. That of a file, or of a socket, begins in dir if it is
// relative.
func logPath(dir, path string) (string, error) {
	kind, rest, socket := strings.Cut(path, ":")
	switch {
	case !socket:
	case kind == "stderr" || kind == "stdout":
		if rest != "" {
			return path, fmt.Errorf("expected %q alone, found %q", kind+":", path)
		}
		return path, nil
	case kind == "journald":
		name := ""
		if rest != "" {
			var ok bool
			var err error
			if name, ok, err = confpath.Socket(dir, rest); err != nil {
				return path, err
			} else if !ok {
				return path, fmt.Errorf(`expected "journald:" or "journald:unix:/path/of/a/socket", `+
					`found %q`, path)
			}
		}
		return "journald:" + name, nil
	case kind == "syslog":
		name, local, err := confpath.Socket(dir, rest)
		if local && err == nil {
			return "syslog:unix:" + name, nil
		}
		return path, cmp.Or(err, checkSyslog(rest))
	}
	path = confpath.Join(dir, path)
	if folder, err := os.Stat(filepath.Dir(path)); err != nil || !folder.IsDir() {
		return path, fmt.Errorf("there is no folder %s", filepath.Dir(path))
	}
	return path, canLogTo(path)
}

// canLogTo returns why openLogFile would fail, so that `lwango -t`, which makes no files, says so.
// That nothing reads a pipe is said at the start.
func canLogTo(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = unix.Faccessat(unix.AT_FDCWD, filepath.Dir(path), unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	case err != nil:
		return err
	case info.IsDir():
		err = unix.EISDIR
	case info.Mode().Type() == fs.ModeSocket:
		err = unix.ENXIO
	default:
		err = unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return nil
}

// around is the layer of a site that has an access log of its own.
func (a *accessLogConfig) around(next conn.Handler) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		req.LogTo(a)
		return next(req, resp)
	}
}

func (c *config) checkAccessLogs() {
	if c.AccessLog != nil {
		c.AccessLog.check(c.Dir, nil)
	}
	for _, s := range c.Sites {
		if s.AccessLog != nil {
			s.AccessLog.check(c.Dir, c.AccessLog)
		}
	}
}

// accessLogs returns the tables that are in force.
func (c *config) accessLogs() (all []*accessLogConfig) {
	if c.AccessLog != nil {
		all = append(all, c.AccessLog)
	}
	if c.rooted {
		return all
	}
	for _, s := range c.Sites {
		if s.AccessLog != nil {
			all = append(all, s.AccessLog)
		}
	}
	return all
}

// accessLogs are the logs of a server, by path. Tables that name the same path share one.
type accessLogs struct {
	open   map[string]*accessLog
	rounds atomic.Uint32
}

// openSinks opens what the access logs of next write to, also what is open already: a rotation may
// have moved the old file away.
func (s *server) openSinks(next *config) (_ map[string]sink, err error) {
	sinks := map[string]sink{}
	for _, a := range next.accessLogs() {
		if sinks[a.Path] != nil {
			continue
		}
		if sinks[a.Path], err = openSink(a.Path, s.log); err != nil {
			delete(sinks, a.Path)
			closeSinks(sinks)
			return nil, a.Table.Wrong("path", err)
		}
	}
	return sinks, nil
}

func closeSinks(sinks map[string]sink) {
	for _, to := range sinks {
		_ = to.close()
	}
}

// logTo gives the tables of next their logs, which write to sinks from now on.
func (s *server) logTo(next *config, sinks map[string]sink) {
	s.reopenTo(sinks)
	if s.access.open == nil {
		s.access.open = map[string]*accessLog{}
	}
	for _, a := range next.accessLogs() {
		if s.access.open[a.Path] == nil {
			s.access.open[a.Path] = newAccessLog(a.Path, sinks[a.Path], &s.access.rounds, s.log)
		}
		a.log = s.access.open[a.Path]
		if e := s.source.Embedding; e != nil {
			a.hook = e.AccessLog
		}
	}
}

// reopenTo lets the open logs write to sinks.
func (s *server) reopenTo(sinks map[string]sink) {
	var taken []<-chan struct{}
	for path, to := range sinks {
		if a := s.access.open[path]; a != nil {
			taken = append(taken, a.reopen(to))
		}
	}
	if !inTime(taken) {
		s.log.Warn("access log: the old file does not take its last lines, the new one must wait")
	}
}

// dropLogs ends the logs that the present configuration does not have, which is in force. Requests
// that are under way have their lines in the server's.
func (s *server) dropLogs() {
	used := map[string]bool{}
	for _, a := range s.config.accessLogs() {
		used[a.Path] = true
	}
	s.endLogs(func(path string) bool { return !used[path] }, s.config.AccessLog)
}

// closeLogs ends all logs.
func (s *server) closeLogs() { s.endLogs(func(string) bool { return true }, nil) }

func (s *server) endLogs(which func(path string) bool, instead *accessLogConfig) {
	var ended []*accessLog
	var done []<-chan struct{}
	for path, a := range s.access.open {
		if which(path) {
			a.end(instead)
			ended, done = append(ended, a), append(done, a.done)
			delete(s.access.open, path)
		}
	}
	if inTime(done) {
		return
	}
	for _, a := range ended {
		select {
		case <-a.done:
		default:
			s.log.Error("access log: the last lines could not be written in time", "path", a.path,
				"dropped", a.lost())
		}
	}
}

// inTime waits until all are closed, for stuckWait at most, and reports whether they are.
func inTime(all []<-chan struct{}) bool {
	late := time.NewTimer(stuckWait)
	defer late.Stop()
	for _, c := range all {
		select {
		case <-c:
		case <-late.C:
			return false
		}
	}
	return true
}

// reopenLogs opens the files of the access logs anew, since a log rotation may have moved the old
// ones away.
func (s *server) reopenLogs() {
	sinks := map[string]sink{}
	for _, path := range sortedKeys(s.access.open) {
		to, err := openSink(path, s.log)
		if err != nil {
			s.own.Error("access log: cannot be reopened, the old file stays", "path", path,
				"error", err)
			continue
		}
		sinks[path] = to
	}
	s.reopenTo(sinks)
	for _, path := range sortedKeys(sinks) {
		s.own.Info("access log reopened", "path", path)
	}
}
