package cachestore

import (
	"hash/crc32"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// output is the file of a Fill whose body goes to disk. Guarded by the fill's lock.
type output struct {
	disk     *disk
	record   record
	name     string // while it is not published
	file     *File  // nil: it is not there yet
	written  int64  // of the body
	crc      uint32
	queued   bool // a worker has the fill, or is going to have it
	failed   bool
	dropped  bool  // file is given up
	reserved int64 // bytes of disk.files; guarded by Store.mu
}

// slowDisk is how long Write waits for the disk. Then the answer is not kept.
const slowDisk = 2 * time.Second

// toDisk has the body go to disk from now on, if there is one. What is in memory already is
// written, too. The filling goroutine calls it.
func (f *Fill) toDisk(head *Head) bool {
	s := f.store
	d := s.diskFor()
	if d == nil {
		return false
	}
	o := &output{disk: d,
		record: record{head: *head, note: s.noteOf(head), key: f.entry.key, seen: f.since}}
	o.record.body = o.record.room()
	f.mu.Lock()
	f.out = o
	f.mu.Unlock()
	return f.reserve(max(f.length, chunk))
}

// reserveAtOnce is how many bytes of disk are reserved at a time, at least, where there is much
// room.
const reserveAtOnce = 1 << 20

// reserve takes room on the disk for a body of n bytes.
func (f *Fill) reserve(n int64) bool {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	need := blocks(f.out.record.body+n) - f.out.reserved
	if need <= 0 {
		return true
	}
	files := &f.out.disk.files
	need = max(need, min(reserveAtOnce, files.limit/64))
	if !files.reserve(need, false) {
		return false
	}
	f.out.reserved += need
	return true
}

// schedule has a worker write what is there. The caller holds f.mu.
func (f *Fill) schedule() {
	if o := f.out; o != nil && !o.queued {
		o.queued = true
		o.disk.do(f.output)
	}
}

// output writes what has come, on a worker, and publishes the file once all has come.
func (f *Fill) output() {
	for {
		f.mu.Lock()
		o := f.out
		trimmed := !f.done && f.trim() // finish has given back what it has forgotten
		kept := f.kept && !o.failed && !f.done
		var at int64
		var pieces [][]byte
		if kept {
			at, pieces = f.unwritten()
		}
		left := len(pieces) == 0
		if !kept || left && f.end == nil {
			o.queued = false
			f.mu.Unlock()
			if trimmed {
				f.release()
			}
			if !kept {
				f.abandon()
			}
			return
		}
		file := o.file
		if file != nil {
			file.acquire() // drop may give it up meanwhile
		}
		f.mu.Unlock()
		if trimmed {
			f.release()
		}
		var err error
		switch {
		case file == nil:
			err = f.create()
		case !left:
			err = f.writeOut(at, pieces)
			file.Close()
		default:
			f.publish()
			file.Close()
			return
		}
		if err != nil {
			o.disk.failed("write", err)
			f.failOutput()
		}
	}
}

// unwritten returns the next bytes to write, and the offset of the first one in the body. The
// caller holds f.mu.
func (f *Fill) unwritten() (at int64, pieces [][]byte) {
	at = f.out.written
	for off := at; off < f.size && len(pieces) < 16; {
		i := off - f.base
		piece := f.chunks[i/chunk][i%chunk:]
		pieces = append(pieces, piece)
		off += int64(len(piece))
	}
	return at, pieces
}

func (f *Fill) create() error {
	d := f.out.disk
	name, file, err := d.create()
	if err != nil {
		return err
	}
	if f.length > 0 { // says now whether there is room, and where
		err := unix.Fallocate(int(file.Fd()), 0, 0, f.out.record.body+f.length)
		if err == unix.ENOSPC || err == unix.EDQUOT || err == unix.EFBIG {
			_ = d.openRoot().Remove(name)
			file.Close()
			return err
		}
	}
	open := &File{file: file, disk: d}
	open.refs.Store(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.name, f.out.file = name, open
	return nil
}

func (f *Fill) writeOut(at int64, pieces [][]byte) error {
	o := f.out
	for _, p := range pieces {
		if _, err := o.file.file.WriteAt(p, o.record.body+at); err != nil {
			return err
		}
		at += int64(len(p))
		crc := crc32.Update(o.crc, castagnoli, p)
		f.mu.Lock()
		o.crc, o.written = crc, at
		if at > f.goal {
			f.wakeWriter()
		}
		f.mu.Unlock()
	}
	return nil
}

// failOutput gives the file up. Readers go on: what was written can be read, and the rest is in
// memory.
func (f *Fill) failOutput() {
	f.Keep(false)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.failed = true
	f.wakeWriter()
}

// abandon removes the file of a fill that is not kept, and ends the fill if all has come.
func (f *Fill) abandon() {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.out
	if o.name != "" {
		name := o.name
		o.name = ""
		o.disk.do(func() { _ = o.disk.openRoot().Remove(name) })
	}
	if f.end != nil {
		f.finish(nil, f.end)
	}
	f.drop()
}

// publish makes an object of a file to which all was written, on a worker.
func (f *Fill) publish() {
	s, o := f.store, f.out
	d := o.disk
	s.mu.Lock()
	f.mu.Lock()
	good := !f.purged && !s.closed && f.kept
	s.purges.seq++
	id := s.purges.seq
	o.record.size, o.record.crc, o.record.stale = f.size, o.crc, f.stale
	f.mu.Unlock()
	s.mu.Unlock()
	total := o.record.body + o.record.size
	name := fileName(f.entry.hash, id, total)
	if good {
		b, err := o.record.encode()
		if err == nil {
			_, err = o.file.file.WriteAt(b, 0)
		}
		if err == nil {
			err = o.file.file.Truncate(total)
		}
		if err == nil {
			err = d.publish(o.name, name)
		}
		if err != nil {
			d.failed("publish", err)
			good = false
		}
	}
	if !good {
		f.failOutput()
		f.abandon()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	o.name = ""
	if f.purged || s.closed {
		if f.purged {
			d.unlink(f.entry.hash, name)
		}
		f.finish(nil, io.EOF)
		return
	}
	x := &file{disk: d, hash: f.entry.hash, id: id, total: total, size: f.size, body: o.record.body,
		verified: true}
	x.entry = s.enter(f.entry.hash, f.entry.key)
	d.files.release(o.reserved, 0)
	o.reserved = 0
	d.mu.Lock()
	d.keepOpen(x, o.file) // before it can be found: a reader would open it once more
	d.mu.Unlock()
	a := &answer{key: f.entry.key, hash: f.entry.hash, seen: f.since, staleAt: f.stale,
		head: *f.head.Load(),
		file: x}
	s.addFile(x.entry, x)
	s.keep(a)
	s.examineLocked(a.hash, a.key)
	f.finish(x.object, io.EOF)
}

// drop gives up the open file if nobody reads from it any more. The caller holds f.mu.
func (f *Fill) drop() {
	if o := f.out; o != nil && o.file != nil && f.done && len(f.readers) == 0 && !o.dropped {
		o.dropped = true
		o.file.Close()
	}
}

// fromFile reads bytes of the body that are not in memory any more.
func (r *Reader) fromFile(o *File, p []byte, off int64) (int, error) {
	n, err := readWarm(r.thread, o.file, p, off)
	if err == io.EOF && n == 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// rewrite has a worker write the head of an object anew, after a 304.
func (s *Store) rewrite(f *file) { f.disk.do(func() { s.rewriteNow(f) }) }

// rewriteNow writes the head of an object anew. If there is no room for it, the old one stays:
// after a restart, the object is validated once more.
func (s *Store) rewriteNow(f *file) {
	d := f.disk
	d.heads.Lock()
	defer d.heads.Unlock()
	s.mu.Lock()
	o := f.object
	if o == nil || f.in.where() == nowhere {
		s.mu.Unlock()
		return
	}
	name := f.name()
	head := o.Head()
	fresh := record{head: head, note: s.noteOf(&head), key: o.key(), stale: o.staleAt.Load(),
		seen: o.seen.Load()}
	s.mu.Unlock()
	file, err := d.openRoot().OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return // it was evicted
	}
	defer file.Close()
	b := make([]byte, fixedHead)
	if _, err := file.ReadAt(b, 0); err != nil {
		return
	}
	fresh.sameBody(b)
	if b, err = fresh.encode(); err != nil {
		return
	}
	if _, err = file.WriteAt(b, 0); err != nil {
		d.failed("write", err)
	}
}
