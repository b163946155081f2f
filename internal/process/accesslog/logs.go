package accesslog

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
)

// Logs are the logs of a server, by path. Tables that name the same path share one. Any goroutine
// may call its methods: a stop closes the logs while another goroutine obeys signals.
type Logs struct {
	log, own *slog.Logger
	hook     func(*conn.AccessEntry)
	shared   shared

	mu     sync.Mutex // no call that may wait for a file is made under it
	open   map[string]*writer
	ending []*writer // that Retire has ended and that may still write
}

// shared is what all logs of a server count together.
type shared struct {
	generation atomic.Uint32 // how often lines were taken out: see conn.Share
	lost       atomic.Int64  // lines that were not written
}

// New returns the logs of a server, none of which is open. Errors of an access log go to log, and
// messages about what the server does with it to own. hook gets the entry of each request as well;
// nil: none.
func New(log, own *slog.Logger, hook func(*conn.AccessEntry)) *Logs {
	return &Logs{log: log, own: own, hook: hook, open: map[string]*writer{}}
}

// Lost returns how many lines were not written since New.
func (l *Logs) Lost() int64 { return l.shared.lost.Load() }

// Default returns the log of sites without a table of their own: all, the table of the whole
// server, or, if that is nil, one that only calls the hook; nil without a hook.
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

// Open opens the files and sockets of the tables, even open ones: a rotation may have moved the old
// file away.
func (l *Logs) Open(tables []*Config) (_ Sinks, err error) {
	sinks := Sinks{}
	for _, c := range tables {
		if c.Off() || sinks[c.Path] != nil {
			continue
		}
		if sinks[c.Path], err = openSink(c.Path, accessLines, l.log); err != nil {
			delete(sinks, c.Path)
			sinks.Close()
			return nil, c.Table.Wrong("path", err)
		}
	}
	return sinks, nil
}

// Close closes sinks that are not used, and removes the files that Open has made.
func (s Sinks) Close() {
	for _, to := range s {
		if f, ok := to.(*fileSink); ok {
			f.removeUnused()
		}
		_ = to.close()
	}
}

// Use gives the tables their logs, which write to sinks from now on. It waits for stuckWait at most
// for files that do not take their last lines.
func (l *Logs) Use(tables []*Config, sinks Sinks) {
	l.reopenTo(sinks)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range tables {
		if c.hook = l.hook; c.Off() {
			continue
		}
		if l.open[c.Path] == nil {
			l.open[c.Path] = newWriter(c.Path, sinks[c.Path], &l.shared, l.log)
		}
		c.to = l.open[c.Path]
	}
}

// reopenTo makes the open logs write to sinks. It returns the sinks without a log.
func (l *Logs) reopenTo(sinks Sinks) (unused Sinks) {
	var taken []<-chan struct{}
	unused = Sinks{}
	l.mu.Lock()
	for path, to := range sinks {
		if w := l.open[path]; w != nil {
			taken = append(taken, w.reopen(to))
		} else {
			unused[path] = to
		}
	}
	l.mu.Unlock()
	if !allWithin(taken, stuckWait) {
		l.log.Warn("access log: the old file does not take its last lines, the new one must wait")
	}
	return unused
}

// Reopen opens all files anew, since a log rotation may have moved the old ones away.
func (l *Logs) Reopen() {
	sinks := Sinks{}
	l.mu.Lock()
	paths := slices.Sorted(maps.Keys(l.open))
	l.mu.Unlock()
	for _, path := range paths {
		to, err := openSink(path, accessLines, l.log)
		if err != nil {
			l.own.Error("access log: cannot be reopened, the old file stays", "path", path,
				"error", err)
			continue
		}
		sinks[path] = to
	}
	for path, to := range l.reopenTo(sinks) { // that log was closed meanwhile
		_ = to.close()
		delete(sinks, path)
	}
	for _, path := range slices.Sorted(maps.Keys(sinks)) {
		l.own.Info("access log reopened", "path", path)
	}
}

// Retire ends the logs that no table in force has. Requests that are under way are logged in
// fallback, the log of the whole server; nil: their lines are lost.
func (l *Logs) Retire(tables []*Config, fallback *Config) {
	l.mu.Lock()
	ended := l.end(tables, fallback)
	l.mu.Unlock()
	l.await(ended, stuckWait)
}

// end ends the logs that no table has, and returns them. It is called under the lock.
func (l *Logs) end(tables []*Config, fallback *Config) (ended []*writer) {
	for path, w := range l.open {
		if !slices.ContainsFunc(tables, func(c *Config) bool { return c.Path == path }) {
			w.end(fallback)
			ended = append(ended, w)
			delete(l.open, path)
		}
	}
	l.ending = append(slices.DeleteFunc(l.ending, (*writer).isDone), ended...)
	return ended
}

// await waits for limit at most until the logs have written their last lines.
func (l *Logs) await(ended []*writer, limit time.Duration) {
	done := make([]<-chan struct{}, len(ended))
	for i, w := range ended {
		done[i] = w.done
	}
	if allWithin(done, limit) {
		return
	}
	for _, w := range ended {
		if !w.isDone() {
			l.log.Error("access log: the last lines could not be written in time", "path", w.path,
				"dropped", w.droppedLines())
		}
	}
}

// Close writes the last lines and ends all logs.
func (l *Logs) Close() { l.CloseWithin(stuckWait) }

// CloseWithin is Close with another limit for the wait, which includes logs that were ended before.
func (l *Logs) CloseWithin(limit time.Duration) {
	l.mu.Lock()
	l.end(nil, nil)
	all := slices.Clone(l.ending)
	l.mu.Unlock()
	l.await(all, limit)
}

// stuckWait is how long a reload, and the end, wait for files that do not take their last lines.
const stuckWait = 2 * time.Second

// allWithin waits until all are closed, for limit at most, and reports whether they are.
func allWithin(all []<-chan struct{}, limit time.Duration) bool {
	late := time.NewTimer(limit)
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
