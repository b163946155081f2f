// Package servefiles is the module `serve_files`: files of one folder, as they are.
//
//	[[site.route]]
//	prefix = "/"
//	module = "serve_files"
//	path = "./wwwroot"
//
//	module.go       settings, start
//	serve.go        a request from its path to a file
//	folder.go       RedirectToFolder
//	open.go         opening beneath the root
//	cold.go         opening files that no cache knows
//	stepwise.go     opening files where the kernel or a container refuses openat2
//	file.go         an open file
//	listing.go      reading a folder
//	listings.go     listings of folders that are kept, and who reads the next one
//	listingbody.go  a listing as a page or as JSON
//	accept.go       the format of a listing that the client wants
//	opencache.go    files that are kept open
//	fs.go           files of an fs.FS
//	sender.go       files that another handler names
//	accel.go        Accel: files that an application names instead of sending a body
//	answer.go       which part of a file is sent: all, ranges, nothing
//	facts.go        what the answer says about a file: type, entity tag, date
//	sibling.go      files beside others with the same content, compressed
//	encoded.go      files whose compressed form is kept
package servefiles

import (
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/names"
	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
)

// Settings are the module's keys.
type Settings struct {
	Path           string            `toml:"path"`
	Source         string            `toml:"source" oneof:"disk" default:"disk"`
	Index          []string          `toml:"index" default:"index.html"`
	Listing        bool              `toml:"listing"`
	Fallback       string            `toml:"fallback"`
	FollowSymlinks bool              `toml:"follow_symlinks"`
	CacheControl   string            `toml:"cache_control"`
	Types          map[string]string `toml:"types"`
	ScriptSources  bool              `toml:"script_sources"`
	Precompressed  bool              `toml:"precompressed" default:"true"`
	OpenFiles      int               `toml:"open_files" min:"0" max:"1000000" default:"256"`
}

// Descriptors implements handlers.DescriptorHolder: the folder, and that of the configuration that
// takes this one's place.
func (s Settings) Descriptors() int { return 2 }

// KeptFiles returns how many files the route keeps open, if there is room for them: see openfiles.
func (s Settings) KeptFiles() int { return s.OpenFiles }

// Folder implements handlers.FolderHolder.
func (s Settings) Folder() string { return s.Path }

// Defaults are the settings of a route that gives only a path.
var Defaults = tags.Defaults[Settings]()

// Register puts the module into r.
func Register(r *handlers.Registry) {
	handlers.RegisterModule(r, "serve_files", Defaults, New, handlers.Uncached)
}

// New opens the folder and makes the handler. Errors are *handlers.KeyError. The handler may run on
// any number of loops at once; the garbage collector closes the folder when nothing refers to the
// handler any more.
func New(s Settings, env handlers.Env) (conn.Handler, error) {
	m, err := open(s, env)
	if err != nil {
		return nil, err
	}
	return m.serve, nil
}

// open makes the state of a route.
func open(s Settings, env handlers.Env) (*module, error) {
	if s.Path == "" {
		return nil, handlers.BadKey("path", "missing: the folder whose files are served")
	}
	m, err := configure(s, env)
	if err != nil {
		return nil, err
	}
	if m.root, err = openRoot(env.Path(s.Path), s.FollowSymlinks); err != nil {
		return nil, &handlers.KeyError{Key: "path", Err: err}
	}
	return m, nil
}

// configure is open without the folder.
func configure(s Settings, env handlers.Env) (*module, error) {
	its := around.Of(env)
	m := &module{log: env.Log(), index: slices.Clone(s.Index), listing: s.Listing,
		cacheControl: s.CacheControl,
		openFiles:    s.OpenFiles, files: budget, loops: env.Loops, facts: newFactsCache(),
		listings: newListings()}
	if !s.ScriptSources {
		m.scripts = its.Scripts
	}
	for _, name := range m.index {
		switch {
		case name == "" || strings.Contains(name, "/"):
			return nil, handlers.BadKey("index", "expected the name of a file, not %q", name)
		case m.source([]byte(name)):
			return nil, handlers.BadKey("index",
				"%q is a script, and its source would be sent (script_sources = true allows that)",
				name)
		}
	}
	if s.Fallback != "" {
		m.fallback = strings.TrimPrefix(s.Fallback, "/")
		switch {
		case !filepath.IsLocal(m.fallback):
			return nil, handlers.BadKey("fallback", "expected a file below path, not %q",
				s.Fallback)
		case m.source([]byte(m.fallback)):
			return nil, handlers.BadKey("fallback",
				"%q is a script, and its source would be sent (script_sources = true allows that)",
				s.Fallback)
		}
	}
	if !http1.ValidFieldValue(s.CacheControl) {
		return nil, handlers.BadKey("cache_control", "a header value has no control characters")
	}
	if m.coding = its.Compression; m.coding != nil {
		m.siblings = s.Precompressed
		if !ascii.HasToken(s.CacheControl, "no-transform") {
			m.cache = m.coding.Cache
		}
	}
	var err error
	if m.types, err = ownTypes(s.Types); err != nil {
		return nil, &handlers.KeyError{Key: "types", Err: err}
	}
	return m, nil
}

// budget has the descriptors of files that are kept at hand.
var budget = openfiles.Process

// module is a route's state.
type module struct {
	// Set once.
	log          *slog.Logger
	root         *root
	fsys         fs.FS  // in place of root, or nil
	id           uint64 // of fsys, in the keys of cache
	inMemory     bool   // fsys is, so its calls do not wait
	index        []string
	listing      bool
	fallback     string   // below the root, "" for none
	scripts      []string // endings of names that are refused; none: no name is
	cacheControl string
	types        map[string]string // from the configuration; lower case, with the dot
	coding       *coding.Policy    // nil: nothing is compressed
	siblings     bool              // files beside others may be these, compressed
	cache        *coding.Cache     // nil: nothing that was compressed is kept
	openFiles    int               // on all openCaches together
	files        *openfiles.Budget // whose descriptors they have
	loops        func() []*loop.Loop

	// Safe from any goroutine.
	facts      *metadataCache
	hashed     sync.Map     // name to *facts, of files without a time, which do not change
	openCaches sync.Map     // *loop.Loop to *openCache, those that are not empty
	lastLogged atomic.Int64 // Unix second
	listings   *listings
}

// source reports whether a file of that name may hold the source of a script that another route of
// the site runs.
func (m *module) source(name []byte) bool {
	return len(m.scripts) > 0 && names.Source(name, m.scripts)
}

// logUnreadable logs a file that exists and could not be served, once a second at most: many
// requests usually fail for the same reason.
func (m *module) logUnreadable(name []byte, err error) {
	if now := time.Now().Unix(); m.lastLogged.Swap(now) != now {
		m.log.Warn("serve_files: file not served", "name", string(name), "error", err)
	}
}

func ownTypes(types map[string]string) (map[string]string, error) {
	own := make(map[string]string, len(types))
	for ext, mediaType := range types {
		key := "." + strings.ToLower(strings.TrimPrefix(ext, "."))
		if key == "." || strings.ContainsAny(key[1:], "./") {
			return nil, fmt.Errorf("%q is not an extension, such as .txt", ext)
		}
		if _, twice := own[key]; twice {
			return nil, fmt.Errorf("%s: named twice", key)
		}
		if !strings.Contains(mediaType, "/") || !http1.ValidFieldValue(mediaType) {
			return nil, fmt.Errorf("%s: expected a media type, such as text/plain, not %q", ext,
				mediaType)
		}
		own[key] = mediaType
	}
	return own, nil
}
