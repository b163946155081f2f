package accesslog

import (
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
)

// Logs are the logs of a server, by path. Tables that name the same path share one. Its methods are
// for one goroutine.
type Logs struct {
	log, own *slog.Logger
	hook     func(*conn.AccessEntry)

	open   map[string]*writer
	rounds atomic.Uint32
}

// New returns the logs of a server, none of which is open. Errors of a log go to log, and what the
// server itself does with it to own. hook gets the entry of each request as well; nil: none.
func New(log, own *slog.Logger, hook func(*conn.AccessEntry)) *Logs {
	return &Logs{log: log, own: own, hook: hook, open: map[string]*writer{}}
}

// Default returns what logs the requests of the sites without a table of their own: all, the table
// of the whole server, or, if that is nil, what calls the hook alone; nil: nothing.
func (l *Logs) Default(all *Config) conn.AccessLog {
	switch {
	case all != nil:
		return all
	case l.hook != nil:
		return &Config{hook: l.hook}
	}
	return nil
}

// Sinks are files and sockets that Open has opened, for Use.
type Sinks map[string]sink

// Open opens what the tables write to, also what is open already: a rotation may have moved the old
// file away.
func (l *Logs) Open(tables []*Config) (_ Sinks, err error) {
	sinks := Sinks{}
	for _, c := range tables {
		if sinks[c.Path] != nil {
			continue
		}
		if sinks[c.Path], err = openSink(c.Path, l.log); err != nil {
			delete(sinks, c.Path)
			sinks.Close()
			return nil, c.Table.Wrong("path", err)
		}
	}
	return sinks, nil
}

// Close closes sinks that are not used.
func (s Sinks) Close() {
	for _, to := range s {
		_ = to.close()
	}
}

// Use gives the tables their logs, which write to sinks from now on. It waits some time for a file
// that does not take its last lines.
func (l *Logs) Use(tables []*Config, sinks Sinks) {
	l.reopenTo(sinks)
	for _, c := range tables {
		if l.open[c.Path] == nil {
			l.open[c.Path] = newWriter(c.Path, sinks[c.Path], &l.rounds, l.log)
		}
		c.to, c.hook = l.open[c.Path], l.hook
	}
}

// reopenTo lets the open logs write to sinks.
func (l *Logs) reopenTo(sinks Sinks) {
	var taken []<-chan struct{}
	for path, to := range sinks {
		if w := l.open[path]; w != nil {
			taken = append(taken, w.reopen(to))
		}
	}
	if !inTime(taken) {
		l.log.Warn("access log: the old file does not take its last lines, the new one must wait")
	}
}

// Reopen opens all files anew, since a log rotation may have moved the old ones away.
func (l *Logs) Reopen() {
	sinks := Sinks{}
	for _, path := range slices.Sorted(maps.Keys(l.open)) {
		to, err := openSink(path, l.log)
		if err != nil {
			l.own.Error("access log: cannot be reopened, the old file stays", "path", path,
				"error", err)
			continue
		}
		sinks[path] = to
	}
	l.reopenTo(sinks)
	for _, path := range slices.Sorted(maps.Keys(sinks)) {
		l.own.Info("access log reopened", "path", path)
	}
}

// Retire ends the logs that no table in force has. Requests that are under way have their lines in
// instead, the log of the whole server; nil: they are lost.
func (l *Logs) Retire(tables []*Config, instead *Config) {
	var ended []*writer
	var done []<-chan struct{}
	for path, w := range l.open {
		if !slices.ContainsFunc(tables, func(c *Config) bool { return c.Path == path }) {
			w.end(instead)
			ended, done = append(ended, w), append(done, w.done)
			delete(l.open, path)
		}
	}
	if inTime(done) {
		return
	}
	for _, w := range ended {
		select {
		case <-w.done:
		default:
			l.log.Error("access log: the last lines could not be written in time", "path", w.path,
				"dropped", w.lost())
		}
	}
}

// Close writes the last lines and ends all logs.
func (l *Logs) Close() { l.Retire(nil, nil) }

// stuckWait is how long a reload, and the end, wait for what does not take the last lines.
const stuckWait = 2 * time.Second

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
