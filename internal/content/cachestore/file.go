package cachestore

import (
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/loop"
)

// file is an object's file, whether its head is in memory or not.
type file struct {
	disk   *disk
	entry  *entry // guarded by Store.mu, as are object and in
	object *Object
	in     links // of disk.files
	hash   uint64
	id     uint64
	total  int64 // bytes

	size int64 // of the body, as is body, its offset; set with the first object
	body int64

	// Guarded by disk.mu.
	shared   *File // nil: it is not open
	opening  *loop.Promise[struct{}]
	used     bool // it was, since it came to the end of disk.keptOpen
	verified bool // the body was read, or written, in this process
	removed  bool // it is not in disk.keptOpen, and does not come there
}

// fileCost is what a file and its entry take of memory, in bytes, about.
const fileCost = 256

func (f *file) hit()         { f.in.hit() }
func (f *file) name() string { return fileName(f.hash, f.id, f.total) }

// blocks is what a file takes of the disk, in bytes.
func blocks(total int64) int64 { return (total+4095)&^4095 + 512 }

// File is the open file of an object, which all that send from it share. A caller of Open closes it
// once.
type File struct {
	file *os.File
	refs atomic.Int32
	disk *disk
	gone int64 // bytes that count in disk.files.gone until it is closed; guarded by Store.mu
}

// leave counts n bytes of a file that is removed while it is sent. The caller holds Store.mu, and
// somebody has the file open.
func (f *File) leave(n int64) {
	f.gone += n
	f.disk.files.leave(n)
}

// free closes the file, which nobody has any more. It waits for the disk.
func (f *File) free() {
	f.file.Close()
	s := f.disk.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.gone > 0 {
		f.disk.files.settle(f.gone)
		f.gone = 0
	}
}

// Fd returns the descriptor, for pread(2) and sendfile(2) alone.
func (f *File) Fd() uintptr { return f.file.Fd() }

// Close gives the file back. The last one to do so may make the kernel free its blocks, which takes
// time, so a goroutine beside the loops does that.
func (f *File) Close() error {
	if f.refs.Add(-1) == 0 {
		f.disk.do(f.free)
	}
	return nil
}

// acquire counts one more user, unless the file is closed.
func (f *File) acquire() bool {
	for {
		n := f.refs.Load()
		if n == 0 {
			return false
		}
		if f.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// diskWait is how long a thread waits for heads or a file at most. A disk that is slower than that
// is as good as none, for slowFor.
const (
	diskWait = 2 * time.Second
	slowFor  = 10 * time.Second
)

// usable reports whether the disk is there, and quick enough.
func (d *disk) usable() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.usableLocked()
}

func (d *disk) usableLocked() bool {
	since := time.Since(d.slow)
	return d.ready.Load() && len(d.jobs) <= maxJobs && (since < 0 || since > slowFor)
}

// late notes that a thread has waited for the disk in vain, if that is what the error says. checked
// is that of the disk when the thread began to wait: while a long body is read to check it, others
// wait for long as well, and the disk does not hang.
func (d *disk) late(err error, checked uint64) {
	if err != loop.ErrDeadlineExceeded || d.checked.Load() != checked {
		return
	}
	d.mu.Lock()
	d.slow = time.Now()
	d.mu.Unlock()
	d.failed("wait", err)
}

// open is Object.Open.
func (f *file) open(t *loop.Thread) (*File, error) {
	d := f.disk
	for range 3 {
		d.mu.Lock()
		if open := f.shared; open != nil && open.acquire() {
			f.used = true
			d.mu.Unlock() // a defer in a loop would be on the heap
			return open, nil
		}
		if !d.usableLocked() {
			d.mu.Unlock()
			return nil, ErrGone
		}
		checked := d.checked.Load()
		p := f.opening
		if p == nil {
			p = new(loop.Promise[struct{}])
			f.opening = p
			d.doLocked(func() { d.openFile(f, f.name(), p) })
		}
		d.mu.Unlock()
		was := t.KeepWaiting(true) // a disk answers, and the client may have ended its own half only
		_, err := p.Await(t, diskWait)
		t.KeepWaiting(was)
		if err != nil {
			d.late(err, checked)
			return nil, err
		}
	}
	return nil, ErrGone
}

// openFile opens a file, checks it, and keeps it open.
func (d *disk) openFile(f *file, name string, p *loop.Promise[struct{}]) {
	o, err := d.openRoot().Open(name)
	if err == nil {
		d.mu.Lock()
		verified := f.verified
		d.mu.Unlock()
		if err = d.check(o, f, verified); err != nil {
			o.Close()
		}
	}
	d.mu.Lock()
	f.opening = nil
	if err == nil && f.removed {
		o.Close()
		err = fs.ErrNotExist
	}
	if err == nil {
		f.verified = true
		d.keepOpen(f, &File{file: o, disk: d})
	}
	d.mu.Unlock()
	if err != nil {
		d.lost(f, err)
		p.Reject(ErrGone)
		return
	}
	p.Resolve(struct{}{})
}

// Descriptors is how many a store with a folder holds at most that nobody sends: files, the folder,
// what workers have open.
const Descriptors = maxKeptOpen + 16

// maxKeptOpen is how many files are open at most that nobody sends.
const maxKeptOpen = 256

// keepOpen keeps a file open. The caller holds d.mu.
func (d *disk) keepOpen(f *file, open *File) {
	open.refs.Add(1)
	f.shared = open
	d.keptOpen = append(d.keptOpen, f)
	for len(d.keptOpen) > maxKeptOpen {
		first := d.keptOpen[0]
		if !first.used {
			d.closeKept(first)
			return
		}
		first.used = false
		d.keptOpen = append(d.keptOpen[1:], first)
	}
}

// closeKept gives up an open file. The caller holds d.mu.
func (d *disk) closeKept(f *file) {
	if i := slices.Index(d.keptOpen, f); i >= 0 {
		d.keptOpen = slices.Delete(d.keptOpen, i, i+1)
		open := f.shared
		f.shared = nil
		if open.refs.Add(-1) == 0 {
			d.doLocked(open.free)
		}
	}
}
