// Package accesslog writes a line for each request to files, syslog or journald.
//
// A Config is a table [access_log], and the conn.AccessLog of its requests, which any loop calls.
// Config.Check completes it while a configuration is read. Logs has all open logs of a server, and
// belongs to the server's goroutine. A configuration comes into force in two steps, as a reload is
// all or nothing: Logs.Open opens files and sockets, which may fail, and Logs.Use makes the tables
// write to them. Logs.Retire ends the logs that no table has any more, Logs.Reopen is for a
// rotation that sends a signal, and Logs.Close writes the last lines.
//
//	accesslog.go  Config: the keys and their checks
//	logs.go       Logs: the logs that are open
//	writer.go     the buffers of the loops, and the goroutine that empties them
//	sink.go       where the lines go: files
//	datagrams.go  syslog and journald
//	trusted.go    opening files as root in folders of other users
//	line.go       lines in NCSA's formats
//	format.go     JSON, and formats with placeholders
//	members.go    JSON with members of the configuration
//	condition.go  which requests have a line
//	escape.go     escapes, so that no client can forge a line
//	stream.go     lines of connections that do not speak HTTP
//	cut.go        how long a line may be
//	output.go     Output: the places of the server's own log, which are the same
package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// Config is an [access_log], of the server, of a site or of a route.
type Config struct {
	Table settings.Table `toml:",table"`
	On    *bool          `toml:",switch"` // false: no lines
	// Path is a file, "stderr:", "stdout:", "journald:", or "syslog:" and an address.
	Path string `toml:"path"`
	// Format is "common", "combined", "json", or a text with placeholders.
	Format string `toml:"format"`
	// JSON is in the place of format, for an object a line: its members, which are texts with
	// placeholders.
	JSON map[string]string `toml:"json"`
	// If is a text with placeholders; requests for which it is empty, or "0", have no line.
	If string `toml:"if"`
	// Statuses are those of requests that have a line, such as "5xx" or "404"; without any, all.
	Statuses []string `toml:"statuses"`

	line       lineFormat       // of all these keys
	connection connectionFormat // the same, for the log of a stream

	form, condition lineFormat // of Format or JSON, and of If; nil: it has none
	chosen          *choice    // of Statuses; nil: all are

	// Logs.Use sets these before a request can arrive.
	to   *writer // of Path; nil: lines are dropped
	hook func(*conn.AccessEntry)
}

// LogRequest implements conn.AccessLog.
func (c *Config) LogRequest(l *loop.Loop, e *conn.AccessEntry) bool {
	if c.hook != nil {
		c.hook(e)
	}
	return c.to == nil || c.to.add(l, e, c.line)
}

// Off reports whether there are to be no lines.
func (c *Config) Off() bool { return c.On != nil && !*c.On }

// HasRoom implements conn.AccessLog.
func (c *Config) HasRoom(_ *loop.Loop, s conn.Share) bool { return c.to == nil || c.to.hasRoom(s) }

// Middleware is the layer of a site that has an access log of its own.
func (c *Config) Middleware(next conn.Handler) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		req.Layer().LogTo(c)
		return next(req, resp)
	}
}

// RouteMiddleware is the layer of a route that has an access log of its own. It leaves nothing
// behind if a rule of the route rewrites the request.
func (c *Config) RouteMiddleware(next conn.Handler) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		before := req.Layer().LogTo(c)
		status := next(req, resp)
		if status == handlers.Again {
			req.Layer().LogTo(before)
		}
		return status
	}
}

// Check checks the keys, and reports errors at the table of the file. Relative paths begin in dir.
// Unset keys come from all, the log of the site or the server, which may be nil. texts has the maps
// of the configuration.
func (c *Config) Check(dir string, all *Config, texts *placeholder.Maps) {
	if c.Off() {
		return
	}
	if all == nil || all.Off() {
		all = nil
	} else {
		c.form, c.condition, c.chosen = all.form, all.condition, all.chosen
	}
	var err error
	switch {
	case c.Table.Has("json"):
		if c.Table.Has("format") {
			c.Table.Errorf("json", "has the members of a line, and format its text; expected one of them")
		}
		if c.form, err = parseMembers(c.JSON, texts); err != nil {
			c.Table.Errorf("json", "%v", err)
		}
	case c.Table.Has("format") || all == nil:
		if c.form, err = parseFormat(c.Format, texts); err != nil {
			c.Table.Errorf("format", "%v", err)
		}
	}
	if c.Table.Has("if") {
		if c.condition, err = parseCondition(c.If, texts); err != nil {
			c.Table.Errorf("if", "%v", err)
		}
	}
	if c.Table.Has("statuses") {
		if c.chosen, err = parseStatuses(c.Statuses); err != nil {
			c.Table.Errorf("statuses", "%v", err)
		}
	}
	c.line = c.form
	if c.condition != nil || c.chosen != nil {
		c.line = onlyIf(c.form, c.condition, c.chosen)
	}
	c.checkPath(dir, all)
}

// checkPath checks the key path.
func (c *Config) checkPath(dir string, all *Config) {
	var err error
	switch {
	case c.Path == "" && all != nil && !c.Table.Has("path"):
		c.Path = all.Path
	case c.Path == "":
		c.Table.Errorf("path", "missing; expected the path of a file")
	default:
		if c.Path, err = parsePath(dir, c.Path); err != nil {
			c.Table.Errorf("path", "%v", err)
		}
	}
}

// IsFile reports whether Path is a file, and not a stream of the process or a daemon.
func (c *Config) IsFile() bool { return filepath.IsAbs(c.Path) }

// Writable returns why the file cannot be opened for writing, or made.
func (c *Config) Writable() error {
	if c.IsFile() {
		if err := Writable(c.Path); err != nil {
			return c.Table.Wrong("path", err)
		}
	}
	return nil
}

// parsePath checks the key path. The path of a file, or of a socket, begins in dir if it is
// relative.
func parsePath(dir, path string) (string, error) {
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
	return path, Writable(path)
}

// Writable returns why openLogFile would fail, for `lwango -t`, which makes no files. A start
// checks that a process reads a pipe.
func Writable(path string) error {
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
