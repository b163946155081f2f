package fastcgi

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi/internal/cgi"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/upstream"
)

// Settings are the module's keys.
type Settings struct {
	Address    []string          `toml:"address"`
	ScriptPath string            `toml:"script_path"`
	Index      []string          `toml:"index"`
	SplitPath  []string          `toml:"split_path"`
	TryFiles   string            `toml:"try_files" oneof:"off 404 front"`
	Front      string            `toml:"front"`
	CheckFile  bool              `toml:"check_file"`
	Params     map[string]string `toml:"params"`
	Scripts    []string          `toml:"scripts"`
	Root       string            `toml:"root"`

	FrontMissing   bool `toml:"front_missing"`
	FollowSymlinks bool `toml:"follow_symlinks"`
	ResolveRoot    bool `toml:"resolve_root"`
	Underscores    bool `toml:"underscores"`

	TrustedFields []string `toml:"trusted_fields"`

	Balance     string        `toml:"balance" oneof:"round_robin least_conn"`
	MaxConns    int           `toml:"max_conns" min:"0"`
	MaxQueue    int           `toml:"max_queue" min:"0"`
	KeepConn    bool          `toml:"keep_conn"`
	MaxIdle     int           `toml:"max_idle" min:"0"`
	IdleTimeout time.Duration `toml:"idle_timeout" min:"1ms"`

	QueueTimeout   time.Duration `toml:"queue_timeout" min:"1ms"`
	ConnectTimeout time.Duration `toml:"connect_timeout" min:"1ms"`
	SendTimeout    time.Duration `toml:"send_timeout" min:"1ms"`
	ReadTimeout    time.Duration `toml:"read_timeout" min:"1ms"`

	RequestBuffering  bool          `toml:"request_buffering"`
	ResponseBuffering handlers.Size `toml:"response_buffering" min:"0B"`
	MaxBodySize       handlers.Size `toml:"max_body_size" min:"0B"`
	MaxHeaderSize     handlers.Size `toml:"max_header_size" min:"1KiB" max:"16MiB"`
	AccelRoot         string        `toml:"accel_root"`
	AccelRedirect     bool          `toml:"accel_redirect"`
	CacheControl      string        `toml:"cache_control"`
	InterceptErrors   bool          `toml:"intercept_errors"`
	HideHeader        []string      `toml:"hide_header"`
	IgnoreClientAbort bool          `toml:"ignore_client_abort"`
}

// Defaults are the settings of a route that gives only address and script_path.
var Defaults = Settings{
	Index:     []string{"index.php"},
	SplitPath: []string{".php"},
	TryFiles:  "404",
	Front:     "/index.php",
	CheckFile: true,
	Scripts:   []string{"/**"},

	TrustedFields: []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port",
		"X-Forwarded-Proto", "X-Real-IP"},

	Balance:     "round_robin",
	MaxQueue:    1024,
	IdleTimeout: 3 * time.Second,

	QueueTimeout:   60 * time.Second,
	ConnectTimeout: 5 * time.Second,
	SendTimeout:    60 * time.Second,
	ReadTimeout:    60 * time.Second,

	RequestBuffering:  true,
	ResponseBuffering: 64 << 20,
	MaxHeaderSize:     cgi.HeaderLimit,
}

// ScriptEndings implements handlers.ScriptRunner. A route that runs no scripts does not send their
// sources either.
func (s Settings) ScriptEndings() []string { return s.SplitPath }

// Folder implements handlers.FolderHolder.
func (s Settings) Folder() string { return s.ScriptPath }

// Descriptors implements handlers.DescriptorHolder, for the files that are no scripts.
func (s Settings) Descriptors() int {
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
	handlers.RegisterModule(r, "fastcgi", Defaults, with)
}

// build makes the handler. Errors are *handlers.KeyError. It may run on any number of loops at
// once.
func build(s Settings, env handlers.Env, p *upstream.Pool) (conn.Handler, error) {
	m := &module{
		set:    s,
		env:    env,
		log:    env.Log().With("route", env.Prefix),
		params: make([]cgi.Field, 0, len(s.Params)),
	}
	if err := m.upstreams(p); err != nil {
		return nil, &handlers.KeyError{Key: "address", Err: err}
	}
	for name, value := range s.Params {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return nil, handlers.BadKey("params",
				"%q: expected a name without =, and a name and value without NUL", name)
		}
		if name == "CONTENT_LENGTH" || name == "REQUEST_METHOD" {
			// If these are not the request's, PHP waits for a body that does not come, or drops
			// one.
			return nil, handlers.BadKey("params", "%s is always the request's own", name)
		}
		if err := cgi.CheckParam(value); err != nil {
			return nil, handlers.BadKey("params", "%s: %w", name, err)
		}
		m.params = append(m.params, cgi.Field{Name: name, Value: value})
	}
	slices.SortFunc(m.params, func(a, b cgi.Field) int { return strings.Compare(a.Name, b.Name) })
	if err := m.paths(); err != nil {
		return nil, err
	}
	if err := fieldNames("hide_header", s.HideHeader); err != nil {
		return nil, err
	}
	if err := fieldNames("trusted_fields", s.TrustedFields); err != nil {
		return nil, err
	}
	if env.Upstreams != nil {
		env.Upstreams(m.group.Report)
	}
	return m.serve, nil
}

// fieldNames checks the header fields that a key names.
func fieldNames(key string, names []string) error {
	for _, name := range names {
		if !http1.ValidToken(name) {
			return handlers.BadKey(key, "expected the name of a header field, not %q", name)
		}
	}
	return nil
}

// module is a route's state. Only the tree changes, and what the pool's lock guards in the group.
type module struct {
	set    Settings
	log    *slog.Logger
	group  *upstream.Group
	params []cgi.Field

	rules cgi.Rules
	dir   string // script_path, absolute
	env   handlers.Env
	tree  atomic.Pointer[tree]
	accel *servefiles.Accel // nil: X-Accel-Redirect leads nowhere
}

// upstreams makes the route's group of the pool that all routes share.
func (m *module) upstreams(p *upstream.Pool) (err error) {
	s := upstream.Settings{
		Addresses: m.set.Address, Dir: m.env.Dir,
		LeastConn: m.set.Balance == "least_conn",
		MaxConns:  m.set.MaxConns, MaxQueue: m.set.MaxQueue, QueueTimeout: m.set.QueueTimeout,
		IdleTimeout: m.set.IdleTimeout, ConnectTimeout: m.set.ConnectTimeout,
		Unreached: func(name string, err error) {
			m.log.Warn("fastcgi: upstream not reached", "upstream", name, "error", err)
		},
	}
	if m.set.KeepConn {
		switch s.MaxIdle = m.set.MaxIdle; {
		case s.MaxIdle > 0:
		case s.MaxConns > 0: // the workers, as it seems
			s.MaxIdle = s.MaxConns
		default:
			s.MaxIdle = 2
		}
	}
	switch m.group, err = p.Group(s); {
	case err != nil || len(m.set.Scripts) == 0:
		return err
	case len(m.set.Address) == 0:
		return errors.New(`missing: where PHP-FPM listens, such as "unix:/run/php/php-fpm.sock"`)
	case m.group.Primaries() == 0:
		return errors.New("every address is a backup")
	}
	return nil
}

// paths sets the rules for scripts and files.
func (m *module) paths() error {
	s := &m.set
	if s.ScriptPath == "" {
		return handlers.BadKey("script_path", "missing: the folder with the scripts")
	}
	m.dir = m.env.Path(s.ScriptPath)
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
	t, err := m.open()
	if err != nil {
		return &handlers.KeyError{Key: "script_path", Err: err}
	}
	m.tree.Store(t)
	if !s.CheckFile {
		m.log.Info("fastcgi: check_file is off, so PHP must not run another file for a script " +
			"that is missing: it needs cgi.fix_pathinfo = 0, or the default of " +
			"security.limit_extensions")
	}
	m.accel, err = servefiles.OpenAccel(s.AccelRoot, s.AccelRedirect, m.env)
	return err
}
