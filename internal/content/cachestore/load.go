package cachestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// addFile makes a file known. The caller holds s.mu.
func (s *Store) addFile(e *entry, f *file) {
	f.entry, e.filed = e, true
	e.files = append(e.files, f)
	if f.object == nil {
		s.setCold(e, true)
	}
	f.in.cost = blocks(f.total)
	s.memory.used += fileCost
	files := &f.disk.files
	files.add(f)
	for busy := int64(0); (s.diskFiles()-busy)*fileCost > s.memory.limit/2; {
		if !files.step(busy > 0) { // a large disk of small files must not take all memory
			busy++
		}
	}
	s.memory.shrink()
}

// forget removes an object's file, if there is one. The caller holds s.mu.
func (s *Store) forget(f *file) {
	if f != nil && f.disk.files.remove(f) {
		s.remove(f)
	}
}

// lose removes a file and its object. The caller holds s.mu.
func (s *Store) lose(f *file) {
	if f.disk.files.remove(f) {
		s.fileEvicted(f)
	}
}

// fileEvicted removes a file that is no member of disk.files any more, and its object. The caller
// holds s.mu.
func (s *Store) fileEvicted(f *file) {
	if o := f.object; o != nil {
		s.unlist(o)
	}
	s.remove(f)
}

// remove removes a file. The caller holds s.mu.
func (s *Store) remove(f *file) {
	d, e := f.disk, f.entry
	f.object = nil
	s.memory.used -= fileCost
	if i := slices.Index(e.files, f); i >= 0 {
		e.files = slices.Delete(e.files, i, i+1)
	}
	s.tidy(e)
	d.mu.Lock()
	f.removed = true
	if f.shared != nil && f.shared.refs.Load() > 1 {
		f.shared.leave(f.in.cost)
	}
	d.closeKept(f)
	d.mu.Unlock()
	d.unlink(f.hash, f.name())
}

// unload forgets the head of a file. The caller holds Store.mu.
func (s *Store) unload(f *file) {
	f.object = nil
	s.setCold(f.entry, true)
}

// load is the reading of an entry's heads.
type load struct{ done loop.Promise[struct{}] }

// warm waits until the heads of a key's files are in memory.
func (s *Store) warm(t *loop.Thread, hash uint64, key string) {
	d := s.disk
	s.mu.Lock()
	e := s.entryOf(hash, key)
	if e == nil || !e.cold {
		s.mu.Unlock()
		return
	}
	l := e.load
	if l == nil {
		if !d.usable() || s.closed {
			s.mu.Unlock()
			return
		}
		l = new(load)
		e.load = l
		d.do(func() {
			s.loadAll(e)
			s.mu.Lock()
			e.load = nil
			s.tidy(e)
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
	var cold []*file
	var names []string
	for _, f := range e.files {
		if f.object == nil {
			cold = append(cold, f)
			names = append(names, f.name())
		}
	}
	s.mu.Unlock()
	for i, f := range cold {
		r, err := f.disk.readFile(names[i])
		if err == nil && s.hash([]byte(r.key)) != e.hash {
			err = errDamaged
		}
		if err != nil {
			f.disk.lost(f, err)
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
	s.judgeCold(e)
}

// judgeCold notes whether an entry has files whose heads are not in memory. The caller holds s.mu.
func (s *Store) judgeCold(e *entry) {
	s.setCold(e, slices.ContainsFunc(e.files, func(f *file) bool { return f.object == nil }))
}

func (d *disk) readFile(name string) (*record, error) {
	f, err := d.openRoot().Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := d.readHead(f)
	if err == errDamaged { // or written anew just before it was opened
		r, err = d.readHead(f)
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
		e.key = r.key
	}
	list := s.objects(e.hash, r.key)
	var before *Object
	for _, x := range list {
		if x.Vary() != r.head.Vary {
			continue
		}
		if of := x.file(); of == nil || of.id > f.id { // of two the newer one stays
			s.lose(f)
			return
		}
		before = x
	}
	if before == nil && len(list) >= MaxVariants || e.key != r.key {
		s.lose(f)
		return
	}
	if f.body == 0 { // objects that were found before are in use
		f.size, f.body = r.size, r.body
	}
	s.ids++
	a := &answer{key: r.key, hash: e.hash, id: s.ids, seen: r.seen, staleAt: r.stale, head: r.head,
		file: f}
	if before != nil {
		s.put(a, before, before.where(), 0)
	} else {
		s.put(a, nil, inSmall, 0)
	}
	s.examineLocked(e.hash, e.key)
}

// scan finds the files that are there, by their names. Files with a number above last are this
// process's own.
func (d *disk) scan(root *os.Root, last uint64) {
	s := d.store
	for i := range 256 {
		if d.closed.Load() {
			return
		}
		dir := fmt.Sprintf("%02x", i)
		f, err := root.Open(dir)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				d.unread("open", err)
			}
			continue
		}
		for {
			names, err := f.Readdirnames(64)
			d.found(root, dir, names, last)
			if err != nil {
				if err != io.EOF {
					d.unread("readdir", err)
				}
				break
			}
		}
		f.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.scanning = false; s.crowded() {
		s.sweep()
	}
}

// unread notes that there may be files which are not known.
func (d *disk) unread(call string, err error) {
	d.failed(call, err)
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	d.partly = true
}

// found makes files known.
func (d *disk) found(root *os.Root, dir string, names []string, last uint64) {
	s := d.store
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
			e := s.entries.first(hash)
			if e == nil {
				e = s.enter(hash, "")
			}
			s.addFile(e, &file{disk: d, hash: hash, id: id, total: total})
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
