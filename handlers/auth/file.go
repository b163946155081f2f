package auth

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// file is an htpasswd file and its last good content. The first request after a second checks
// whether the file has changed; it and those that come meanwhile wait for that. A goroutine checks,
// because a disk may take its time.
type file struct {
	path  string
	log   *slog.Logger
	table atomic.Pointer[table]

	checked  atomic.Int64                           // when the last check ended, since epoch
	checking atomic.Pointer[loop.Promise[struct{}]] // nil: no goroutine checks
	late     atomic.Bool                            // the check takes too long to wait for it

	// Only the goroutine that checks has these.
	seen  stamp  // of the content that was read last, good or not
	wrong string // what was logged last; "": all was well
}

// They are variables only for the tests.
var (
	checkInterval = time.Second
	checkTimeout  = 5 * time.Second

	// meant is the age from which a file without users is meant to be so. Programs that write a file
	// in its place, such as Apache's htpasswd, empty it first.
	meant = 2 * time.Second
)

const (
	maxFile = 64 << 20 // bytes; beyond that the path is wrong

	// settleTime is the age from which a file with the same times is the same file. Two changes within
	// a tick of the filesystem's clock leave the same times.
	settleTime = 2 * time.Second
)

var epoch = time.Now()

// stamp tells contents apart.
type stamp struct {
	dev, ino       uint64
	size           int64
	changed, wrote unix.Timespec
	settled        bool // read when it was old enough
}

func stampOf(s *syscall.Stat_t) stamp {
	return stamp{dev: s.Dev, ino: s.Ino, size: s.Size,
		changed: unix.Timespec(s.Ctim), wrote: unix.Timespec(s.Mtim)}
}

// openFile reads the file for the first time.
func openFile(path string, log *slog.Logger) (*file, error) {
	f := &file{path: path, log: log}
	t, err := f.read()
	if err != nil {
		return nil, err
	}
	f.table.Store(t)
	f.checked.Store(int64(time.Since(epoch)))
	return f, nil
}

// current returns the content of the file, as it was at most a second ago. If the disk does not
// answer in time, or the content is wrong, it is the last good one.
func (f *file) current(t *loop.Thread) *table {
	p := f.checking.Load()
	if p == nil && t.Loop().Time().Sub(epoch)-time.Duration(f.checked.Load()) >= checkInterval {
		p = f.check()
	}
	if p != nil && !f.late.Load() {
		if _, err := p.Await(t, checkTimeout); err == loop.ErrDeadlineExceeded &&
			!f.late.Swap(true) {
			f.log.Error("auth: the disk does not say in time whether the file has changed, "+
				"its last content counts", "path", f.path)
		}
	}
	return f.table.Load()
}

// check has a goroutine check the file, unless one does already.
func (f *file) check() *loop.Promise[struct{}] {
	p := new(loop.Promise[struct{}])
	if !f.checking.CompareAndSwap(nil, p) {
		return f.checking.Load() // nil, if it has just ended
	}
	go func() {
		f.refresh()
		f.checked.Store(int64(time.Since(epoch)))
		f.late.Store(false)
		f.checking.Store(nil)
		p.Resolve(struct{}{})
	}()
	return p
}

// refresh reads the file again if it has changed. It logs each change, and each error once.
func (f *file) refresh() {
	var s syscall.Stat_t
	if f.seen.settled && syscall.Stat(f.path, &s) == nil {
		now := stampOf(&s)
		if now.settled = true; now == f.seen {
			return
		}
	}
	t, err := f.read()
	if err != nil {
		if err.Error() != f.wrong {
			f.wrong = err.Error()
			f.log.Error("auth: the file cannot be used, its last good content counts",
				"path", f.path, "error", err)
		}
		return
	}
	if len(t.all) == 0 && len(f.table.Load().all) > 0 &&
		time.Since(time.Unix(f.seen.changed.Unix())) < meant {
		f.seen.settled = false
		return
	}
	// If the users are the same, with the same hashes, the older table stays, with what its entries
	// have learned.
	changed := !slices.EqualFunc(f.table.Load().all, t.all, func(a, b *entry) bool {
		return a.name == b.name && a.hash == b.hash
	})
	if changed {
		f.table.Store(t)
	}
	if changed || f.wrong != "" {
		f.log.Info("auth: the file was read again", "path", f.path, "users", len(t.all))
	}
	f.wrong = ""
}

// read reads and parses the file, and sets seen.
func (f *file) read() (*table, error) {
	// Without O_NONBLOCK a FIFO would wait for its writer.
	file, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		f.seen = stamp{}
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		f.seen = stamp{}
		return nil, err
	}
	f.seen = stampOf(info.Sys().(*syscall.Stat_t))
	changed := time.Unix(f.seen.changed.Unix())
	f.seen.settled = time.Since(changed) >= settleTime
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", f.path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has more than %d MiB", f.path, maxFile>>20)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		f.seen = stamp{}
		return nil, err
	}
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", f.path, err)
	}
	return t, nil
}
