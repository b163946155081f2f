package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/handlers/limit"
	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/internal/process/tcpproxy"
	"github.com/lwango/lwango/internal/tls/certs"
	"github.com/lwango/lwango/pubsub"
)

// TextName is the name of Source.Text in messages, as the program's field is called.
const TextName = "Config"

// Source is where a configuration comes from.
type Source struct {
	File     string   // path of the file; empty: none is read
	Text     string   // a configuration in the place of File; "": none
	FS       fs.FS    // has File, and what is included; nil: the system's files
	Listen   []string // addresses that replace those of the file, as -l has them
	Root     string   // a folder to serve, which replaces the sites of the file, as -r has it
	Modules  *handlers.Registry
	Routes   []handlers.Route // compiled-in routes, for every site
	Topics   *pubsub.Hub      // what handlers publish and subscribe to; nil: nothing
	Broker   pubsub.Broker    // what [pubsub] url is for; nil: none
	DNS      certs.TXTRecords // for ACME; nil: none
	Logger   *slog.Logger     // for modules; never nil
	Counters *Counters        // the numbers of routes; nil: nothing is counted by route

	Hub   *tcpproxy.Hub // what streams share over reloads; nil: nothing
	Cache *cache.Store  // where routes keep answers; nil: nowhere
	// Limits has the counts that processes share, over reloads; nil: it is a check.
	Limits *limit.Store

	Patterns *handlers.Mux       // compiled-in patterns, for every site; nil: none
	Around   handlers.Middleware // the program's own, around every choice of a route; nil: none

	// Code has the settings of a program that starts a server in code. Its fields that are not zero
	// replace the keys of the file, and a negative Grace means maxGrace. nil: the server is the
	// process.
	Code *Config

	Wrong error // about the program's fields; nil: none

	AccessLog func(*conn.AccessEntry) // the program's; nil: none

	// Confining says that the process is to be confined according to [confine]. FoldersMade says that
	// a start would have made all folders; it is for -t in a confined process.
	Confining, FoldersMade bool

	Obtain certs.Options // for tests

	// InForce has the certificates in force, of a reload: files that have not changed since are not
	// read again.
	InForce certs.Set

	// by host and port, where the kernel has chosen that; of a reload
	ChosenPorts map[string]sockets.Address
}

// Load reads and checks a whole configuration and builds its handlers. An error in the file is a
// settings.Errors with all errors of the file. A panic, such as one of a module's Build, becomes an
// error as well, and its stack is logged: it must not end a server that reads its configuration
// again.
func (s Source) Load() (c *Config, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Logger.Error("panic while the configuration is read", "panic", p, "stack",
				string(debug.Stack()))
			c, err = nil, fmt.Errorf("panic while the configuration is read: %v", p)
		}
	}()
	switch {
	case s.Wrong != nil:
		return nil, s.Wrong
	case s.File != "" && s.Text != "":
		return nil, errors.New("a configuration has a File or a text, not both")
	case s.FS != nil && s.File == "" && s.Text == "":
		return nil, errors.New("FS: a file system needs the File in it, or a text")
	case s.Text != "":
		return s.Parse(TextName, s.Text)
	case s.File == "":
		return s.Parse("", "")
	}
	text, err := s.files().first(s.File)
	if err != nil {
		return nil, err
	}
	return s.Parse(s.File, string(text))
}

// files returns the files that the configuration is read from.
func (s Source) files() files {
	if s.FS != nil {
		return fsFiles{s.FS}
	}
	return osFiles{}
}

// Parse is Load for text that has been read already. Messages show name as it is, and relative
// paths begin in its folder; those of Text, and of a File in an FS, in the working directory.
func (s Source) Parse(name, text string) (*Config, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	c, err := s.decode(wd, name, text)
	if err != nil {
		return nil, err
	}
	for key, d := range map[string]*time.Duration{
		"grace": &c.Grace, "drain": &c.Drain, "watchdog": &c.Watchdog,
	} {
		if 0 <= *d && *d < time.Millisecond {
			c.Table.Errorf(key, "must be at least 1ms, or -1, which is no limit")
		}
	}
	c.checkConfine(s)
	if t := &c.CacheStore; t.Disk == "" && t.DiskSize != tags.Defaults[CacheStore]().DiskSize {
		t.Table.Errorf("disk_size", "it has no effect without disk")
	}
	inFile := c.TLS.ACME
	if err := s.override(c, wd); err != nil {
		return nil, err
	}
	for _, d := range []*time.Duration{&c.Grace, &c.Drain} { // see Config
		if *d < 0 {
			*d = maxGrace
		}
	}
	c.checkHeaders()
	c.checkMaps()
	c.checkAccessLogs()
	c.ErrorLog.check(c.Dir, s.Code != nil)
	c.checkPubsub(s.Broker)
	c.checkDebug()
	c.checkACME(s, c.TLS.ACME == inFile)
	c.checkListeners(s)
	c.checkSites()
	c.reader = certs.NewReader(s.InForce)
	c.checkTLS(s)
	if !s.replacesListeners() {
		c.checkObtains(s)
	}
	c.logger, c.store = s.Logger, s.Cache
	for _, set := range c.unusedSets {
		s.Logger.Warn("no site and no route uses a set of keys", "at", set.Position(""))
	}
	c.checkUpstreams(s)
	sites := c.buildSites(s)
	if c.cacheFolder() != "" {
		c.Descriptors += cache.Descriptors
	}
	if s.Root == "" {
		c.checkStreams(s)
		c.reportUpstreams()
	}
	c.checkSpool()
	if err := c.err(); err != nil {
		return nil, err
	}
	if len(s.Listen) > 0 {
		c.Listeners = nil
		for _, l := range s.Listen {
			addr, err := sockets.ParseAddress(l, wd)
			if err != nil {
				return nil, fmt.Errorf("-l: %w", err)
			}
			if slices.ContainsFunc(c.Listeners,
				func(o Listener) bool { return o.Address == addr }) {
				return nil, fmt.Errorf("-l: %s is listened to twice", l)
			}
			c.Listeners = append(c.Listeners, Listener{
				Endpoint: sockets.Endpoint{Listen: l, Address: addr}})
		}
	}
	if err := s.listeners(c, wd); err != nil {
		return nil, err
	}
	if s.replacesListeners() {
		c.checkObtains(s)
		if err := c.err(); err != nil {
			return nil, err
		}
	}
	if err := c.route(s, sites); err != nil {
		return nil, err
	}
	c.serveStreams()
	return c, c.checkApart()
}

// decode is the part of Parse that only reads keys. Errors of keys are in text.Err. It fails if the
// text is no TOML at all.
func (s Source) decode(wd, name, text string) (*Config, error) {
	c := Defaults()
	c.Dir = wd
	if name != "" && s.Text == "" && s.FS == nil {
		c.File = confpath.Join(wd, name)
		c.Dir = filepath.Dir(c.File)
	}
	f := settings.Parse(name, c.Dir, text)
	f.Top(c)
	include(f, s.files(), name, cmp.Or(c.File, s.File))
	if f.Broken() {
		return nil, f.Err() // the rest may be missing only because a text is not TOML
	}
	c.text = f
	c.unusedSets = takeSets(f)
	f.Root().Decode(c)
	f.Root().Remove("set") // what is in force stands where it is used
	c.Sets = nil
	for _, path := range []*string{&c.PIDFile, &c.SpoolDir} {
		if *path != "" {
			*path = confpath.Join(c.Dir, *path)
		}
	}
	return c, nil
}

// LoadForUpgrade is Load for -upgrade, which only needs pid_file. The new process reports all other
// errors: it may have what this process lacks, such as $CREDENTIALS_DIRECTORY.
func (s Source) LoadForUpgrade() (*Config, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var text []byte
	if s.File != "" {
		if text, err = confpath.ReadOnce(s.File, confpath.MaxFile); err != nil {
			return nil, err
		}
	}
	c, err := s.decode(wd, s.File, string(text))
	if err != nil {
		return nil, err
	}
	err = c.text.Err()
	var all settings.Errors
	if errors.As(err, &all) && (c.PIDFile == "" || // it may be in a file that cannot be included
		slices.ContainsFunc(all, func(e *settings.Error) bool { return e.Key == "pid_file" })) {
		return nil, err
	}
	return c, nil
}
