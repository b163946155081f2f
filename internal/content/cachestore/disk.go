package cachestore

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another process uses the folder.
var ErrLocked = errors.New("another process uses the folder")

// disk is a folder with files: `lock`, which a process holds that uses the folder; `state`, the
// seed of the hash and the number of times that the folder was opened; `purges`, what was purged;
// `new`, files that are being written; `old`, folders that are being removed; and 256 folders with
// the objects' files. What it does, workers do: goroutines beside the loops, a few at most.
type disk struct {
	store  *Store
	files  fileQueues // guarded by Store.mu
	path   string
	seed   [16]byte // of the hash; k0 and k1 are its halves
	k0     uint64
	k1     uint64
	hashed bool // they are set

	ready  atomic.Bool // the folder is this process's
	closed atomic.Bool
	left   chan struct{} // closed once the lock is given back
	heads  sync.RWMutex  // a head is read, or written anew
	serial atomic.Uint64

	checked atomic.Uint64 // bytes of bodies that were read to check them
	count   atomic.Uint64 // how often the folder was opened

	writing sync.Mutex // held while the file purges is written
	marks   *os.File   // nil: the folder is another process's still
	logged  int64      // bytes that were written to it

	noted    *marksBatch // that is going to be written; guarded by Store.mu, as are the next
	noting   bool        // a goroutine writes them
	scanning bool        // files are looked for
	partly   bool        // and not all were found, as the disk has failed

	mu       sync.Mutex // held briefly; it may be locked below Store.mu and a Fill's
	root     *os.Root
	lock     *os.File
	jobs     []func()
	workers  int
	keptOpen []*file // that are open, the first of them for the longest time
	warned   time.Time
	slow     time.Time // a thread has waited in vain
	renewed  time.Time
}

// maxWorkers is how many calls of the disk run at a time.
const maxWorkers = 4

// maxJobs is how many wait before fills and lookups do without the disk.
const maxJobs = 4096

// do has a worker call f. Any goroutine may call it.
func (d *disk) do(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.doLocked(f)
}

func (d *disk) doLocked(f func()) {
	d.jobs = append(d.jobs, f)
	if d.workers < maxWorkers {
		d.workers++
		go d.work()
	}
}

func (d *disk) work() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.jobs) > 0 {
		f := d.jobs[0]
		d.jobs[0] = nil
		d.jobs = d.jobs[1:]
		d.mu.Unlock()
		f()
		d.mu.Lock()
	}
	d.jobs = nil
	if d.workers--; d.workers == 0 && d.closed.Load() {
		d.leave()
	}
}

func (d *disk) openRoot() *os.Root {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.root
}

// newDisk returns a disk of that many bytes, which is not open.
func newDisk(s *Store, path string, bytes int64) *disk {
	d := &disk{store: s, path: path, left: make(chan struct{})}
	d.files.ghosts = newGhosts(bytes / 16)
	d.files.evict, d.files.busy = s.fileEvicted, s.fileBusy
	return d
}

// open opens the folder, and makes it if need be. It takes the folder's lock, unless another
// process has it and wait is set.
func (d *disk) open(wait bool) error {
	switch err := d.attach(); {
	case err == nil:
	case wait && errors.Is(err, ErrLocked):
		d.hashBy()
		go d.retry()
	default:
		return err
	}
	return nil
}

// hashBy decides, once, what keys are hashed with: the folder's seed, or a new one if it has none.
func (d *disk) hashBy() {
	if d.hashed {
		return
	}
	if d.hashed = true; d.seed == [16]byte{} {
		rand.Read(d.seed[:])
	}
	d.k0 = binary.LittleEndian.Uint64(d.seed[:])
	d.k1 = binary.LittleEndian.Uint64(d.seed[8:])
}

// CheckFolder tells why a folder that exists cannot be the one of a store: it cannot be written to,
// or has files of others. A store removes what it does not know.
func CheckFolder(folder string) error {
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is no folder", folder)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, folder, unix.R_OK|unix.W_OK|unix.X_OK,
		unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "open", Path: folder, Err: err}
	}
	state, err := os.ReadFile(filepath.Join(folder, "state"))
	switch {
	case err == nil && len(state) >= len(magic) && string(state[:6]) == magic[:6]:
		return nil // a version's own
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	names, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, x := range names {
		if name := x.Name(); name != "lock" && name != "new" && name != "purges" {
			return fmt.Errorf("%s has other files, such as %q; expected an empty folder", folder, name)
		}
	}
	return nil
}

// attach opens the folder and takes its lock. It reads the seed even if it does not get the lock.
func (d *disk) attach() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	if err := CheckFolder(d.path); err != nil {
		return err
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return err
	}
	lock, err := root.OpenFile("lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	switch {
	case err == unix.EWOULDBLOCK:
		_, _ = d.readState(root)
		lock.Close()
		root.Close()
		return fmt.Errorf("%s: %w", d.path, ErrLocked)
	case err == nil:
		err = d.take(root, lock)
	}
	if err != nil {
		if lock != nil {
			giveBack(lock)
		}
		root.Close()
		return fmt.Errorf("%s: %w", d.path, err)
	}
	return nil
}

// giveBack gives the lock back at once. Closing it would do so only when no process has it any more
// that was forked meanwhile and has not yet become another program.
func giveBack(lock *os.File) {
	_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
	lock.Close()
}

// stateSize is the length of the file state: magic, seed, count, CRC-32C.
const stateSize = 8 + 16 + 8 + 4

// readState reads the seed, if there is none yet, and the count.
func (d *disk) readState(root *os.Root) (count uint64, err error) {
	b, err := root.ReadFile("state")
	if err != nil {
		return 0, err
	}
	if len(b) != stateSize || string(b[:8]) != magic || crc32.Checksum(b[:stateSize-4], castagnoli) !=
		binary.LittleEndian.Uint32(b[stateSize-4:]) {
		return 0, errDamaged
	}
	seed := [16]byte(b[8:24])
	if d.seed != seed && d.seed != [16]byte{} {
		return 0, errDamaged // another one than what this process's keys are hashed with
	}
	d.seed = seed
	return binary.LittleEndian.Uint64(b[24:]), nil
}

// take reads the state, whatever it is, and counts one more. Files of an unknown state or of
// another version are set aside, to be removed.
func (d *disk) take(root *os.Root, lock *os.File) error {
	count, err := d.readState(root)
	d.hashBy()
	switch {
	case err == nil:
	case errors.Is(err, errDamaged):
		if err := setAside(root); err != nil {
			return err
		}
		fallthrough
	case errors.Is(err, fs.ErrNotExist): // and CheckFolder has seen that there are no objects
		count = 0
		_ = root.Remove("purges")
	default:
		return err
	}
	count++
	b := append([]byte(magic), d.seed[:]...)
	b = binary.LittleEndian.AppendUint64(b, count)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if err := root.RemoveAll("new"); err != nil {
		return err
	}
	if err := root.Mkdir("new", 0o700); err != nil {
		return err
	}
	if err := root.WriteFile("new/state", b, 0o600); err != nil {
		return err
	}
	if err := root.Rename("new/state", "state"); err != nil {
		return err
	}
	return d.begin(root, lock, count)
}

// begin makes numbers that are larger than any before, takes over what was purged, and has the
// files looked for.
func (d *disk) begin(root *os.Root, lock *os.File, count uint64) error {
	marks, err := root.OpenFile("purges", os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(marks)
	if err != nil {
		marks.Close()
		return err
	}
	list, ok := parseMarks(b)
	d.writing.Lock()
	defer d.writing.Unlock()
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.purges
	p.unseen = 0
	mine := p.list() // since this process began, while it had no folder
	if d.noted != nil {
		d.noted.list = nil // they are among mine
	}
	p.seq = max(p.seq, count<<32)
	d.count.Store(count)
	for _, m := range list {
		p.add(m)
	}
	if !ok || p.lost { // something was purged, and it is not known what
		mine = append(mine, mark{kind: ofAll})
	}
	if !ok {
		err = marks.Truncate(0)
	}
	p.lost = false
	b = b[:0]
	for _, m := range mine {
		p.seq++
		m.n = p.seq
		p.add(m)
		b = appendMark(b, m)
	}
	if err == nil {
		_, err = marks.Write(b)
	}
	if err != nil {
		marks.Close()
		return err
	}
	s.purged.Store(p.now)
	if d.marks != nil {
		d.marks.Close()
	}
	d.marks = marks
	d.mu.Lock()
	d.root, d.lock = root, lock
	d.mu.Unlock()
	d.ready.Store(true)
	d.scanning, d.partly = true, false
	seq := p.seq
	go func() {
		d.scan(root, seq)
		d.removeOld(root)
	}()
	return nil
}

// retry takes the folder once the other process has left it.
func (d *disk) retry() {
	const pause, said = 100 * time.Millisecond, 50
	for i := 0; !d.closed.Load(); i++ {
		time.Sleep(pause)
		err := d.attach()
		if err == nil {
			return
		}
		if i == said { // an upgrade is over by then
			d.store.options.Load().Logger.Warn("cache: nothing is kept on disk yet", slog.Any("error", err))
		}
	}
}

// close leaves the folder to other processes, once the workers have done what there is to do. It
// waits for that, but not for long.
func (d *disk) close() {
	d.closed.Store(true)
	d.ready.Store(false)
	d.mu.Lock()
	if d.workers == 0 {
		d.leave()
	}
	d.mu.Unlock()
	select {
	case <-d.left:
	case <-time.After(slowDisk):
		return
	}
	closed := make(chan struct{})
	go func() { // a purge that is being written may hang
		defer close(closed)
		d.writing.Lock()
		defer d.writing.Unlock()
		if d.marks != nil {
			d.marks.Close()
			d.marks = nil
		}
	}()
	select {
	case <-closed:
	case <-time.After(slowDisk):
	}
}

// leave closes what is open, and gives the lock back, once. The caller holds d.mu.
func (d *disk) leave() {
	select {
	case <-d.left:
	default:
		for len(d.keptOpen) > 0 {
			d.closeKept(d.keptOpen[0])
		}
		if d.lock != nil {
			d.root.Close()
			giveBack(d.lock)
		}
		close(d.left)
	}
}

// failed counts and logs a failure of the disk.
func (d *disk) failed(what string, err error) {
	d.store.failed.Add(1)
	d.mu.Lock()
	now := time.Now()
	quiet := now.Sub(d.warned) < time.Minute && now.After(d.warned)
	if !quiet {
		d.warned = now
	}
	d.mu.Unlock()
	if !quiet {
		d.store.options.Load().Logger.Warn("cache: the disk fails", slog.String("call", what),
			slog.String("folder", d.path), slog.Any("error", err))
	}
}

// lost forgets a file that cannot be used.
func (d *disk) lost(f *file, err error) {
	switch {
	case errors.Is(err, errDamaged):
		d.store.damaged.Add(1)
	case errors.Is(err, fs.ErrNotExist): // evicted meanwhile, or the folder was removed
	case errors.Is(err, fs.ErrClosed): // the store is
	default:
		d.failed("open", err)
		if !errors.Is(err, unix.EIO) {
			d.store.mu.Lock() // it may be there again, as with too many open files
			defer d.store.mu.Unlock()
			if f.in.where() != nowhere && f.object == nil {
				d.store.unload(f)
			}
			return
		}
	}
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	d.store.lose(f)
}

// create makes a file that is not published yet.
func (d *disk) create() (name string, f *os.File, err error) {
	name = fmt.Sprintf("new/%x-%x", d.count.Load(), d.serial.Add(1))
	for try := range 3 {
		root := d.openRoot()
		f, err = root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if try > 0 || root.Mkdir("new", 0o700) != nil { // the whole folder was removed
			d.renew()
		}
	}
	return name, f, err
}

// renew makes the folder anew if it was removed.
func (d *disk) renew() {
	d.mu.Lock()
	again := time.Since(d.renewed) > time.Second || time.Since(d.renewed) < 0
	if again {
		d.renewed = time.Now()
	}
	old, lock := d.root, d.lock
	d.mu.Unlock()
	if again && !d.closed.Load() && d.attach() == nil {
		giveBack(lock)
		old.Close()
	}
}

// publish gives a file its name.
func (d *disk) publish(from, to string) error {
	root := d.openRoot()
	err := root.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		if err = root.Mkdir(to[:2], 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = root.Rename(from, to)
		}
	}
	return err
}
