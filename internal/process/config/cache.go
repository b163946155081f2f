package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/modules/around"
	"golang.org/x/sys/unix"
)

// Cache is the value of `cache` in a site or a route: a table, true or false. A table stands for
// true.
type Cache struct {
	Table settings.Table `toml:",table"`
	On    *bool          `toml:",switch"`

	cache.Settings `toml:",inline" default:"-"`
}

// CacheStore is [cache]: where the answers are that routes keep.
type CacheStore struct {
	Table settings.Table `toml:",table"`
	// Memory is for answers in memory.
	Memory handlers.Size `toml:"memory" min:"1MiB" max:"1TiB" default:"64MiB"`
	// Disk is a folder for large answers, which are there after a restart; without it, all are in
	// memory.
	Disk string `toml:"disk"`
	// DiskSize is for answers on disk.
	DiskSize handlers.Size `toml:"disk_size" min:"1MiB" max:"1024TiB" default:"1GiB"`
	// MaxObject is the largest answer that is kept; 0B: an eighth of the place for it.
	MaxObject handlers.Size `toml:"max_object" min:"0B" max:"1TiB"`
}

// cacheOptions returns the options of the store.
func (c *Config) cacheOptions() cache.Options {
	s := &c.CacheStore
	o := cache.Options{Memory: int64(s.Memory), MaxObject: int64(s.MaxObject), Logger: c.logger}
	if o.Folder = c.cacheFolder(); o.Folder != "" {
		o.Disk = int64(s.DiskSize)
	}
	return o
}

// cacheFolder returns the folder in which routes keep large answers, or "".
func (c *Config) cacheFolder() string {
	if !c.caches || c.CacheStore.Disk == "" {
		return ""
	}
	return confpath.Join(c.Dir, c.CacheStore.Disk)
}

// CloseCache closes the store of the routes that keep answers, if c has any: another process uses
// the folder from now on.
func (c *Config) CloseCache() {
	if c.caches && c.store != nil {
		c.store.Close()
	}
}

// CheckCacheFolder is for -t, which makes no folders: it returns an error if a start could not make
// the folder of [cache], or could not use it. A process that is to be confined makes the folder
// before that, and checks it afterwards.
func (c *Config) CheckCacheFolder(confined bool) error {
	folder := c.cacheFolder()
	if folder == "" {
		return nil
	}
	_, err := os.Lstat(folder)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && confined:
		err = nil
	case missing:
		around := filepath.Dir(folder)
		err = unix.Faccessat(unix.AT_FDCWD, around, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		if err == unix.ENOENT {
			err = fmt.Errorf("there is no folder %s", around)
		} else if err != nil {
			err = &fs.PathError{Op: "mkdir", Path: folder, Err: err}
		}
	case err == nil && (confined || c.Confine == nil):
		err = cache.CheckFolder(folder)
	}
	if err != nil {
		return c.CacheStore.Table.Wrong("disk", err)
	}
	return nil
}

// makeCacheFolder makes the folder, if it is missing, for a user and a group; -1: the process's
// own. A folder that cannot be used is an error of the start or the reload. made is the folder, if
// it was missing.
func (c *Config) makeCacheFolder(user, group int) (made []string, _ error) {
	folder := c.cacheFolder()
	if folder == "" {
		return nil, nil
	}
	err := os.Mkdir(folder, 0o700)
	if err == nil {
		made = []string{folder}
	}
	switch {
	case err == nil && user >= 0:
		err = os.Lchown(folder, user, group)
	case errors.Is(err, fs.ErrExist) && user < 0:
		err = cache.CheckFolder(folder)
	case errors.Is(err, fs.ErrExist):
		err = nil // that user checks it
	}
	if err != nil {
		return made, c.CacheStore.Table.Wrong("disk", err)
	}
	return made, nil
}

// cached puts the cache around the handler of a route, if the route or its site has one. module are
// the traits of the module that has made the handler.
func (c *Config) cached(s Source, site *Site, r *Route, h conn.Handler, module handlers.Trait,
	env handlers.Env) conn.Handler {
	in := r.Around.Cache
	if in == nil && module&handlers.Uncached == 0 {
		in = site.Around.Cache
	}
	if in == nil || in.On != nil && !*in.On {
		return h
	}
	c.caches, r.cache = true, in
	if s.Cache == nil { // nothing is going to be served
		s.Cache = cache.NewStore()
	}
	its := around.Of(env)
	its.Buffering = module&handlers.Buffering != 0
	env.Process = its
	m, err := cache.New(s.Cache, in.Settings, env)
	if err != nil {
		reportAt(in.Table, "", err)
		return h
	}
	return m(h)
}
