package fastcgi

import (
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/modules/gateway"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/cgi"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Settings are the module's keys.
type Settings struct {
	Address    []string `toml:"address"`
	ScriptPath string   `toml:"script_path"`
	Index      []string `toml:"index" default:"index.php"`
	SplitPath  []string `toml:"split_path" default:".php"`
	TryFiles   string   `toml:"try_files" oneof:"off 404 front" default:"404"`
	Front      string   `toml:"front" default:"/index.php"`
	CheckFile  bool     `toml:"check_file" default:"true"`
	Scripts    []string `toml:"scripts" default:"/**"`
	Root       string   `toml:"root"`

	FrontMissing   bool `toml:"front_missing"`
	FollowSymlinks bool `toml:"follow_symlinks"`
	ResolveRoot    bool `toml:"resolve_root"`

	upstreams.Gateway `toml:",inline"`

	KeepConn     bool          `toml:"keep_conn"`
	MaxIdle      int           `toml:"max_idle" min:"0"`
	IdleTimeout  time.Duration `toml:"idle_timeout" min:"1ms" default:"3s"`
	CacheControl string        `toml:"cache_control"`
}

// Defaults are the settings of a route that gives only address and script_path.
var Defaults = tags.Defaults[Settings]()

// ScriptEndings implements handlers.ScriptRunner. A route that runs no scripts does not send their
// sources either.
func (s Settings) ScriptEndings() []string { return s.SplitPath }

// Folder implements handlers.FolderHolder.
func (s Settings) Folder() string { return s.ScriptPath }

// Descriptors implements handlers.DescriptorHolder, for the folder of files that are no scripts,
// and for checks.
func (s Settings) Descriptors() (n int) {
	if s.TryFiles != "off" {
		n = servefiles.Defaults.Descriptors()
	}
	return n + reverseproxy.CheckDescriptors(&s.Settings, s.Address)
}

// KeptFiles returns how many of the files that are no scripts the route keeps open, if there is
// room for them: see openfiles.
func (s Settings) KeptFiles() int {
	if s.TryFiles == "off" {
		return 0
	}
	return servefiles.Defaults.OpenFiles
}

// Register puts the module into r. All routes that are ever built from r share one pool of
// upstreams: connections to one address are counted and kept together.
func Register(r *handlers.Registry) {
	p := new(upstream.Pool)
	with := func(s Settings, env handlers.Env) (conn.Handler, error) { return build(s, env, p) }
	handlers.RegisterModule(r, "fastcgi", Defaults, with, handlers.Buffering)
}

// build makes the handler. Errors are *handlers.KeyError. It may run on any number of loops at
// once.
func build(s Settings, env handlers.Env, p *upstream.Pool) (conn.Handler, error) {
	m := &module{set: s}
	m.Ping = m.ping
	if err := m.open(env, p); err != nil {
		return nil, err
	}
	if err := m.paths(); err != nil {
		return nil, err
	}
	m.Watch()
	return m.serve, nil
}

// module is a route's state. Only the tree changes, and what the pool's lock guards in the group.
type module struct {
	gateway.Route
	set Settings

	rules cgi.Rules
	dir   string // script_path, absolute
	tree  atomic.Pointer[tree]
}

// open opens the route's upstreams.
func (m *module) open(env handlers.Env, p *upstream.Pool) error {
	s := upstream.Settings{Addresses: m.set.Address, IdleTimeout: m.set.IdleTimeout}
	if m.set.KeepConn {
		switch s.MaxIdle = m.set.MaxIdle; {
		case s.MaxIdle > 0:
		case m.set.MaxConns > 0: // the workers, as it seems
			s.MaxIdle = m.set.MaxConns
		default:
			s.MaxIdle = 2
		}
	}
	var missing error
	if len(m.set.Scripts) > 0 {
		missing = errors.New(`missing: where PHP-FPM listens, such as "unix:/run/php/php-fpm.sock"`)
	}
	accel, err := servefiles.OpenAccel(m.set.AccelRoot, m.set.AccelRedirect, env)
	if err != nil {
		return err
	}
	return m.Open("fastcgi", &m.set.Gateway, env, p, s, missing, accel)
}

// paths sets the rules for scripts and files.
func (m *module) paths() error {
	s := &m.set
	if s.ScriptPath == "" {
		return handlers.BadKey("script_path", "missing: the folder with the scripts")
	}
	m.dir = m.Env.Path(s.ScriptPath)
	m.rules = cgi.Rules{Extensions: s.SplitPath, Index: s.Index,
		Unchecked: !s.CheckFile, FrontMissing: s.FrontMissing, NoScripts: len(s.Scripts) == 0}
	switch {
	case len(s.Scripts) == 0 && s.TryFiles != "404":
		return handlers.BadKey("try_files",
			`expected "404" with scripts = [], which leaves files alone`)
	case s.Root != "" && (!filepath.IsAbs(s.Root) || filepath.Clean(s.Root) != s.Root):
		return handlers.BadKey("root",
			`expected an absolute path without dots, such as "/var/www/html", not %q`, s.Root)
	case s.Root != "" && s.ResolveRoot:
		return handlers.BadKey("root",
			"the application is told this path, and not the one that resolve_root finds out")
	case len(s.SplitPath) == 0:
		return handlers.BadKey("split_path", `expected the end of a script's name, such as ".php"`)
	case len(s.Index) == 0:
		return handlers.BadKey("index", `expected the name of a file, such as "index.php"`)
	}
	for _, e := range s.SplitPath {
		if e == "" || strings.Contains(e, "/") {
			return handlers.BadKey("split_path",
				`expected the end of a script's name, such as ".php", not %q`, e)
		}
	}
	for _, name := range s.Index {
		if name == "" || strings.Contains(name, "/") {
			return handlers.BadKey("index", "expected the name of a file, not %q", name)
		}
	}
	var err error
	if m.rules.Front, err = cgi.ParseFront(s.Front, s.SplitPath); err != nil {
		return &handlers.KeyError{Key: "front", Err: err}
	}
	if m.rules.Scripts, err = cgi.ParseGlobs(s.Scripts); err != nil {
		return &handlers.KeyError{Key: "scripts", Err: err}
	}
	if !http1.ValidFieldValue(s.CacheControl) {
		return handlers.BadKey("cache_control", "a header value has no control characters")
	}
	if s.CacheControl != "" && s.TryFiles == "off" {
		return handlers.BadKey("cache_control", `try_files = "off" sends no files`)
	}
	switch s.TryFiles {
	case "off":
		m.rules.Try = cgi.TryOff
	case "404":
		m.rules.Try = cgi.TryNotFound
	case "front":
		m.rules.Try = cgi.TryFront
	default:
		return handlers.BadKey("try_files", `expected "off", "404" or "front", not %q`, s.TryFiles)
	}
	t, err := m.openTree()
	if err != nil {
		return &handlers.KeyError{Key: "script_path", Err: err}
	}
	m.tree.Store(t)
	if !s.CheckFile {
		m.Log.Info("fastcgi: check_file is off, so PHP must not run another file for a script " +
			"that is missing: it needs cgi.fix_pathinfo = 0, or the default of " +
			"security.limit_extensions")
	}
	return nil
}
