package cachestore

import (
	"bytes"
	"strings"
)

// dropLine has a purge of a line take effect on all that is kept and comes with it, and on nothing
// else. soft is the Unix time of a soft purge, 0 of another one. It reports false, and does
// nothing, where the purge has to be remembered instead: for files whose keys are not known or that
// would be there again after a restart, and where keys of the line are not all in its bucket. The
// caller holds s.mu.
func (s *Store) dropLine(line []byte, soft uint32) bool {
	if !s.disksReady() || s.scanning() || s.partly() {
		return false
	}
	first, second, _ := bytes.Cut(line, []byte("\n"))
	if bytes.IndexByte(second, '\n') >= 0 {
		return true // it is purged by two lines at most
	}
	hash := s.sum(first)
	near := s.table.near(hash)
	if s.table.strayed[near/shared].Load() > 0 || s.leaving[lineOf(hash)] > 0 {
		return false
	}
	known := true
	var found []*Object
	s.table.each(&s.memory.slots, near, func(o *Object) bool {
		if lineOf(o.hash) == lineOf(hash) && beginsWithLine(o.key(), line) {
			known = o.file() == nil
			found = append(found, o)
		}
		return known
	})
	if !known {
		return false
	}
	var fills []*Fill
	for e := *s.entries.ofLine(hash); e != nil; e = e.behind {
		switch {
		case lineOf(e.hash) != lineOf(hash):
		case e.key == "", beginsWithLine(e.key, line) && e.onDisk():
			return false
		case beginsWithLine(e.key, line):
			fills = append(append(fills, e.fills...), e.apart...)
		}
	}
	for _, f := range fills {
		f.purge(soft)
	}
	for _, o := range found {
		if soft == 0 {
			s.gone.Add(1)
			s.discard(o)
		} else {
			o.staleAt.CompareAndSwap(0, soft)
		}
	}
	return true
}

// beginsWithLine reports whether the first line of a key is that one, or its first two are.
func beginsWithLine(key string, line []byte) bool {
	rest, ok := strings.CutPrefix(key, string(line))
	return ok && (rest == "" || rest[0] == '\n')
}

// onDisk reports whether there are files, or there may be when a fill has ended. The caller holds
// Store.mu.
func (e *entry) onDisk() bool {
	for _, fills := range [...][]*Fill{e.fills, e.apart} {
		for _, f := range fills {
			f.mu.Lock()
			out := f.out
			f.mu.Unlock()
			if out != nil {
				return true
			}
		}
	}
	return len(e.files) > 0
}
