package cachestore

import (
	"bytes"
	"strings"
)

// Purge says what is purged: one of the four.
type Purge struct {
	Key    []byte   // this key
	Prefix []byte   // keys that begin with that
	Tags   []string // objects with one of these tags
	All    bool

	Soft bool // they become stale instead of gone
}

// Purge purges what is kept and what is on its way: nothing that was begun before is found
// afterwards, also after a restart. Memory is given back a little later. found reports whether there
// was something under a Key; it is true for the other kinds. With a folder, the call writes to disk,
// so threads call it off their loops. The error is the disk's: then a restart may bring back what
// was purged.
func (s *Store) Purge(p Purge) (found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p.Key) > 0 {
		return s.purgeKey(p), nil
	}
	s.purges.record(p)
	s.purged.Store(s.purges.now)
	s.sweep()
	return true, nil
}

func (s *Store) purgeKey(p Purge) (found bool) {
	e := s.table.find(s.hash(p.Key), p.Key)
	if e == nil {
		return false
	}
	for _, o := range e.list() {
		found = true
		if p.Soft {
			o.stale.Store(true)
		} else {
			s.gone.Add(1)
			s.discard(o)
		}
	}
	if m := e.more.Load(); m != nil {
		for _, f := range m.fills {
			found = true
			f.spoil(p.Soft)
		}
	}
	return found
}

// purges remembers what was purged, by numbers that grow. An object is examined once it is looked
// up: its number is that of the last purge when its filling began. So a purge walks through nothing
// that others wait for. The holder of Store.mu uses it.
type purges struct {
	now      uint64
	all      marks
	tags     map[string]marks
	prefixes []prefixMark
	sweeping bool
}

// marks are the numbers of the last hard and soft purge of one thing.
type marks struct{ hard, soft uint64 }

type prefixMark struct {
	prefix string
	marks
}

func (m *marks) set(n uint64, soft bool) {
	if soft {
		m.soft = n
	} else {
		m.hard = n
	}
}

func (p *purges) record(x Purge) {
	p.now++
	switch {
	case x.All:
		p.all.set(p.now, x.Soft)
	case x.Prefix != nil:
		for i := range p.prefixes {
			if p.prefixes[i].prefix == string(x.Prefix) {
				p.prefixes[i].set(p.now, x.Soft)
				return
			}
		}
		m := prefixMark{prefix: string(bytes.Clone(x.Prefix))}
		m.set(p.now, x.Soft)
		p.prefixes = append(p.prefixes, m)
	default:
		for _, tag := range x.Tags {
			m := p.tags[tag]
			m.set(p.now, x.Soft)
			p.tags[tag] = m
		}
	}
}

// judge says what purges after number since have done to an object.
func (p *purges) judge(since uint64, key, tags string) (hard, soft bool) {
	last := p.all
	last.later(since, key, tags, p)
	return last.hard > since, last.soft > since
}

func (m *marks) later(since uint64, key, tags string, p *purges) {
	for i := range p.prefixes {
		if x := &p.prefixes[i]; max(x.hard, x.soft) > since && strings.HasPrefix(key, x.prefix) {
			m.hard, m.soft = max(m.hard, x.hard), max(m.soft, x.soft)
		}
	}
	if len(p.tags) == 0 {
		return
	}
	for tag := range strings.SplitSeq(tags, " ") {
		if x, ok := p.tags[tag]; ok && tag != "" {
			m.hard, m.soft = max(m.hard, x.hard), max(m.soft, x.soft)
		}
	}
}

// examine has the purges take effect on the objects of an entry.
func (s *Store) examine(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.examineLocked(e)
}

func (s *Store) examineLocked(e *entry) {
	for _, o := range e.list() {
		since := o.seen.Load()
		if since >= s.purges.now {
			continue
		}
		hard, soft := s.purges.judge(since, e.key, o.head.Tags)
		if hard {
			s.gone.Add(1)
			s.discard(o)
			continue
		}
		if soft {
			o.stale.Store(true)
		}
		o.seen.Store(s.purges.now)
	}
}
