package servefiles

import (
	"slices"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
)

// openCache keeps files at hand for one loop: small ones as their contents, others as an open
// descriptor. It belongs to the loop, so it needs no lock.
//
// A file is taken from the cache for a second. The first request after that opens it by its name
// again, and the cache gets the new one; nothing is compared, so no comparison can be wrong. A file
// that was replaced, removed or put out of reach by its mode or by a link, or a small one that was
// rewritten, is served as it was for a second at most. An open descriptor is asked for its state
// each time: what is sent from it must have the length and the entity tag that the head has
// announced.
//
// A file is put in the cache only
//
//   - when it is asked for twice within a second. A client that asks for each file of a large tree
//     in turn fills no cache.
//   - if there is room: in the cache, and for its descriptor among those of the process that are
//     kept at hand (openfiles). No file makes way for another: a client that asks for thousands of
//     files, twice each, makes those of others cost what they cost without a cache, and no more.
//   - if it did not change in the last two seconds. An answer with a Date later than Last-Modified
//     makes the date a strong validator (RFC 9110 section 8.8.2.2). So a file that changes twice
//     within one second must not be served from the cache in the next one.
//
// A thread of the loop closes what is too old. It and the cache end when the cache is empty, or
// when the loop stops.
type openCache struct {
	of    *module
	loop  *loop.Loop
	files map[string]*regularFile
}

var cachedFor = time.Second // for how long a file is taken from the cache

const (
	settled = 2 * time.Second // the time since the last change of a file in the cache, at least

	closesPerTurn = 256 // a bound for the time that closing takes: each takes a microsecond
)

// openCache returns that of l, or nil if there is none.
func (m *module) openCache(l *loop.Loop) *openCache {
	if m.openFiles <= 0 {
		return nil
	}
	c, _ := m.openCaches.Load(l)
	cache, _ := c.(*openCache)
	return cache
}

// take returns the file of that name, with one user more. If there is one that is too old, it
// closes that, and says so by was.
func (c *openCache) take(name []byte) (f *regularFile, was bool) {
	if c == nil {
		return nil, false
	}
	f = c.files[string(name)]
	switch {
	case f == nil:
		return nil, false
	case c.loop.Time().Before(f.until) && (f.fd < 0 || f.unchanged()):
		f.users++
		return f, true
	}
	c.remove(f)
	return nil, true
}

// cacheOpen puts f into the openCache of l, if it may be there. It is called on a thread of l,
// which may wait.
func (m *module) cacheOpen(l *loop.Loop, f *regularFile) {
	now, modified := l.Time(), time.Unix(f.facts.mtime.Unix())
	if !f.facts.dated() {
		modified = time.Unix(0, f.changed)
	}
	if now.Sub(modified) < settled || !m.room(l, f) {
		return
	}
	if f.facts.size <= smallBody && (!f.load() || !m.room(l, f)) { // load may have waited for a disk
		return
	}
	if f.fd >= 0 && (m.files.Last(f.fd) || !m.files.Keep(1)) {
		return
	}
	c := m.openCache(l)
	f.users++
	f.until = now.Add(cachedFor)
	if c != nil {
		c.files[f.facts.name] = f
		return
	}
	c = &openCache{of: m, loop: l, files: map[string]*regularFile{f.facts.name: f}}
	m.openCaches.Store(l, c)
	l.Layer().Start((*cacheSweeper)(c))
}

// room reports whether there is a place for f in the cache of l.
func (m *module) room(l *loop.Loop, f *regularFile) bool {
	c := m.openCache(l)
	return !l.Stopping() && (c == nil || c.files[f.facts.name] == nil && len(c.files) < m.share(l))
}

// share returns how many files l may keep. Those of all loops are openFiles together.
func (m *module) share(l *loop.Loop) int {
	loops := m.loops()
	n := max(len(loops), 1)
	share := m.openFiles / n
	if i := slices.Index(loops, l); 0 <= i && i < m.openFiles%n {
		share++
	}
	return share
}

// cacheSweeper is an openCache as its thread sees it, which closes what is too old. The loop may
// kill the thread before it has run at all, so it is Ended, and no deferred call, that clears the
// cache.
type cacheSweeper openCache

// Run implements loop.Task.
func (cs *cacheSweeper) Run(t *loop.Thread) coro.Code {
	c := (*openCache)(cs)
	for stopped := false; len(c.files) > 0 && !stopped; {
		i, _ := t.AwaitAny(cachedFor, c.loop.Stopped())
		stopped = i >= 0
		closed := 0
		for _, f := range c.files {
			if !stopped && c.loop.Time().Before(f.until) {
				continue
			}
			c.remove(f)
			if closed++; closed%closesPerTurn == 0 {
				t.Yield()
			}
		}
	}
	return coro.Abort
}

// ClientGone implements loop.Task.
func (*cacheSweeper) ClientGone() {}

// Ended implements loop.Task. Responses that send from the cache's files close them when they are
// done.
func (cs *cacheSweeper) Ended() {
	c := (*openCache)(cs)
	c.of.openCaches.Delete(c.loop)
	for _, f := range c.files {
		c.remove(f)
	}
}

// release closes the files that no response sends from, and reports whether there were any with a
// descriptor.
func (c *openCache) release() (any bool) {
	if c == nil {
		return false
	}
	for _, f := range c.files {
		if f.fd >= 0 && f.users == 1 {
			c.remove(f)
			any = true
		}
	}
	return any
}

func (c *openCache) remove(f *regularFile) {
	delete(c.files, f.facts.name)
	if f.fd >= 0 {
		c.of.files.Drop(1)
	}
	_ = f.Close()
}
