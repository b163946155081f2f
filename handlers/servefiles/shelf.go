package servefiles

import (
	"slices"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
)

// shelf keeps files at hand for one loop: small ones as their contents, others as an open
// descriptor. It belongs to the loop, so it needs no lock.
//
// A file is taken from the shelf for a second. The first request after that opens it by its name
// again, and the shelf gets the new one; nothing is compared, so no comparison can be wrong. A file
// that was replaced, removed or put out of reach by its mode or by a link, or a small one that was
// rewritten, is served as it was for a second at most. An open descriptor is asked for its state
// each time: what is sent from it must have the length and the entity tag that the head has
// announced.
//
// A file is put on the shelf only
//
//   - when it is asked for twice within a second. A client that asks for each file of a large tree
//     in turn fills no shelf.
//   - if there is room: on the shelf, and for its descriptor among those of the process that are kept
//     at hand (openfiles). No file makes way for another: a client that asks for thousands of files,
//     twice each, makes those of others cost what they cost without a shelf, and no more.
//   - if it did not change in the last two seconds. An answer with a Date later than Last-Modified
//     makes the date a strong validator (RFC 9110 section 8.8.2.2). So a file that changes twice
//     within one second must not be served from the shelf in the next one.
//
// A thread of the loop takes down what is too old. It and the shelf end when the shelf is empty, or
// when the loop stops.
type shelf struct {
	of    *module
	loop  *loop.Loop
	files map[string]*opened
}

var keptFor = time.Second // for how long a file is taken from the shelf

const (
	settled = 2 * time.Second // the time since the last change of a file on the shelf, at least

	closesPerTurn = 256 // a bound for the time that closing takes: each takes a microsecond
)

// shelf returns the shelf of l, or nil if there is none.
func (m *module) shelf(l *loop.Loop) *shelf {
	if m.openFiles <= 0 {
		return nil
	}
	s, _ := m.shelves.Load(l)
	kept, _ := s.(*shelf)
	return kept
}

// take returns the file of that name, with one user more. If there is one that is too old, it takes
// that down, and says so by was.
func (s *shelf) take(name []byte) (f *opened, was bool) {
	if s == nil {
		return nil, false
	}
	f = s.files[string(name)]
	switch {
	case f == nil:
		return nil, false
	case s.loop.Time().Before(f.until) && (f.fd < 0 || f.unchanged()):
		f.users++
		return f, true
	}
	s.down(f)
	return nil, true
}

// keep puts f on the shelf of l, if it may be there. It is called on a thread of l, which may wait.
func (m *module) keep(l *loop.Loop, f *opened) {
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
	s := m.shelf(l)
	f.users++
	f.until = now.Add(keptFor)
	if s != nil {
		s.files[f.facts.name] = f
		return
	}
	s = &shelf{of: m, loop: l, files: map[string]*opened{f.facts.name: f}}
	m.shelves.Store(l, s)
	l.Start((*tender)(s))
}

// room reports whether there is a place for f on the shelf of l.
func (m *module) room(l *loop.Loop, f *opened) bool {
	s := m.shelf(l)
	return !l.Stopping() && (s == nil || s.files[f.facts.name] == nil && len(s.files) < m.share(l))
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

// tender is a shelf as its thread sees it, which takes down what is too old. The loop may kill the
// thread before it has run at all, so it is Ended, and no deferred call, that clears the shelf.
type tender shelf

// Run implements loop.Task.
func (td *tender) Run(t *loop.Thread) coro.Code {
	s := (*shelf)(td)
	for stopped := false; len(s.files) > 0 && !stopped; {
		i, _ := t.AwaitAny(keptFor, s.loop.Stopped())
		stopped = i >= 0
		closed := 0
		for _, f := range s.files {
			if !stopped && s.loop.Time().Before(f.until) {
				continue
			}
			s.down(f)
			if closed++; closed%closesPerTurn == 0 {
				t.Yield()
			}
		}
	}
	return coro.Abort
}

// Left implements loop.Task.
func (*tender) Left() {}

// Ended implements loop.Task. Responses that send from the shelf's files close them when they are
// done.
func (td *tender) Ended() {
	s := (*shelf)(td)
	s.of.shelves.Delete(s.loop)
	for _, f := range s.files {
		s.down(f)
	}
}

// release closes the files that no response sends from, and reports whether there were any with a
// descriptor.
func (s *shelf) release() (any bool) {
	if s == nil {
		return false
	}
	for _, f := range s.files {
		if f.fd >= 0 && f.users == 1 {
			s.down(f)
			any = true
		}
	}
	return any
}

func (s *shelf) down(f *opened) {
	delete(s.files, f.facts.name)
	if f.fd >= 0 {
		s.of.files.Drop(1)
	}
	_ = f.Close()
}
