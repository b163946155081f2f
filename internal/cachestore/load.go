package cachestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// addFile makes a file known. The caller holds s.mu.
func (s *Store) addFile(e *entry, f *file) {
	f.entry = e
	m := s.extra(e)
	m.files = append(m.files, f)
	if f.object == nil {
		m.cold.Store(true)
	}
	f.in.cost = blocks(f.total)
	s.memory.used += fileCost
	s.files.add(f)
	for busy := int64(0); (s.files.small.n+s.files.main.n-busy)*fileCost > s.memory.limit/2; {
		if !s.files.step(busy > 0) { // a large disk of small files must not take all memory
			busy++
		}
	}
	s.memory.shrink()
}

// forget removes an object's file, if there is one. The caller holds s.mu.
func (s *Store) forget(f *file) {
	if f != nil && s.files.remove(f) {
		s.remove(f)
	}
}

// lose removes a file and its object. The caller holds s.mu.
func (s *Store) lose(f *file) {
	if s.files.remove(f) {
		s.fileEvicted(f)
	}
}

// fileEvicted removes a file that is no member of s.files any more, and its object. The caller holds
// s.mu.
func (s *Store) fileEvicted(f *file) {
	if o := f.object; o != nil && s.memory.remove(o) {
		f.entry.without(o)
	}
	s.remove(f)
}

// remove removes a file. The caller holds s.mu.
func (s *Store) remove(f *file) {
	d, e := s.disk, f.entry
	f.object = nil
	s.memory.used -= fileCost
	if m := e.more.Load(); m != nil {
		if i := slices.Index(m.files, f); i >= 0 {
			m.files = slices.Delete(m.files, i, i+1)
		}
	}
	s.slim(e)
	s.tidy(e)
	d.mu.Lock()
	f.removed = true
	if f.shared != nil && f.shared.refs.Load() > 1 {
		f.shared.leave(f.in.cost)
	}
	d.unshelve(f)
	d.mu.Unlock()
	s.unlink(f.hash, f.name())
}

// unload forgets the head of a file. The caller holds Store.mu.
func (s *Store) unload(f *file) {
	f.object = nil
	s.extra(f.entry).cold.Store(true)
}

// load is the reading of an entry's heads.
type load struct{ done loop.Promise[struct{}] }

// warm waits until the heads of an entry's files are in memory.
func (s *Store) warm(t *loop.Thread, e *entry) {
	d := s.disk
	s.mu.Lock()
	m := e.more.Load()
	if m == nil || !m.cold.Load() {
		s.mu.Unlock()
		return
	}
	l := m.load
	if l == nil {
		if !d.usable() || s.closed {
			s.mu.Unlock()
			return
		}
		l = new(load)
		m.load = l
		d.do(func() {
			s.loadAll(e)
			s.mu.Lock()
			m.load = nil
			s.table.all(e.hash, func(x *entry) { // e, or what has taken its place
				s.slim(x)
				s.tidy(x)
			})
			s.mu.Unlock()
			l.done.Resolve(struct{}{})
		})
	}
	s.mu.Unlock()
	checked := d.checked.Load()
	was := t.KeepWaiting(true) // see open
	_, err := l.done.Await(t, diskWait)
	t.KeepWaiting(was)
	d.late(err, checked)
}

// loadAll reads the heads of an entry's files, on a worker or another goroutine beside the loops.
func (s *Store) loadAll(e *entry) {
	s.mu.Lock()
	m := e.more.Load()
	if m == nil {
		s.mu.Unlock()
		return
	}
	var cold []*file
	var names []string
	for _, f := range m.files {
		if f.object == nil {
			cold = append(cold, f)
			names = append(names, f.name())
		}
	}
	s.mu.Unlock()
	for i, f := range cold {
		r, err := s.readFile(names[i])
		if err == nil && s.hash([]byte(r.key)) != e.hash {
			err = errDamaged
		}
		if err != nil {
			s.disk.lost(f, err)
			continue
		}
		o := s.options.Load()
		if o.Parse != nil {
			o.Parse(&r.head, r.note)
		}
		s.loaded(f, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.cold.Store(slices.ContainsFunc(m.files, func(f *file) bool { return f.object == nil }))
}

func (s *Store) readFile(name string) (*record, error) {
	f, err := s.disk.openRoot().Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := s.disk.readHead(f)
	if err == errDamaged { // or written anew just before it was opened
		r, err = s.disk.readHead(f)
	}
	return r, err
}

// loaded makes an object of a file and its head.
func (s *Store) loaded(f *file, r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.in.where() == nowhere || f.object != nil || s.closed {
		return
	}
	e := f.entry
	if e.key == "" {
		e = s.name(e, r.key)
	}
	o := &Object{head: r.head, entry: e, store: s, file: f}
	list := slices.Clone(e.list())
	for i, x := range list {
		if x.head.Vary == o.head.Vary { // of two the newer one stays
			if x.file == nil || x.file.id > f.id {
				s.lose(f)
				return
			}
			list = slices.Delete(list, i, i+1)
			s.memory.remove(x)
			s.forget(x.file)
			break
		}
	}
	if len(list) >= MaxVariants || e.key != r.key {
		s.lose(f)
		return
	}
	if f.object = o; f.body == 0 { // objects that were found before are in use
		f.size, f.body = r.size, r.body
	}
	o.seen.Store(r.seen)
	o.in.mark.Store(r.stale)
	o.in.cost = o.cost()
	e.set(append(list, o))
	s.memory.add(o)
	s.examineLocked(e)
}

// name gives an entry its key: another entry takes its place, as lookups compare keys without a
// lock. The caller holds s.mu.
func (s *Store) name(e *entry, key string) *entry {
	named := &entry{key: key, hash: e.hash}
	m := e.more.Load()
	named.more.Store(m)
	if m != nil {
		for _, f := range m.files {
			f.entry = named
		}
	}
	s.table.remove(e)
	s.table.add(named)
	return named
}

// scan finds the files that are there, by their names. Files with a number above last are this
// process's own.
func (s *Store) scan(root *os.Root, last uint64) {
	for i := range 256 {
		if s.disk.closed.Load() {
			return
		}
		dir := fmt.Sprintf("%02x", i)
		f, err := root.Open(dir)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				s.unread("open", err)
			}
			continue
		}
		for {
			names, err := f.Readdirnames(64)
			s.found(root, dir, names, last)
			if err != nil {
				if err != io.EOF {
					s.unread("readdir", err)
				}
				break
			}
		}
		f.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scanning = false; s.crowded() {
		s.sweep()
	}
}

// unread notes that there may be files which are not known.
func (s *Store) unread(call string, err error) {
	s.disk.failed(call, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partly = true
}

// found makes files known.
func (s *Store) found(root *os.Root, dir string, names []string, last uint64) {
	var bad []string
	s.mu.Lock()
	for _, name := range names {
		hash, id, total, ok := parseName(name)
		switch {
		case s.closed:
		case !ok || s.purges.gone(id) && id <= last:
			bad = append(bad, name)
		case id > last:
		default:
			var e *entry
			s.table.all(hash, func(x *entry) { e = x })
			if e == nil {
				e = &entry{hash: hash}
				s.extra(e)
				s.table.add(e)
			}
			s.addFile(e, &file{hash: hash, id: id, total: total})
		}
	}
	s.mu.Unlock()
	for _, name := range bad {
		_ = root.Remove(dir + "/" + name)
	}
}

// readWarm reads from a file that was written a moment ago. If the kernel has to ask the disk all
// the same, t waits.
func readWarm(t *loop.Thread, f *os.File, p []byte, off int64) (int, error) {
	if t != nil {
		if n, e := sysio.ReadCached(int(f.Fd()), p, off); e == 0 && n > 0 {
			return n, nil
		}
		if err := stream.Warm(t, int(f.Fd()), off, int64(len(p))); err != nil {
			return 0, err
		}
	}
	return f.ReadAt(p, off)
}
