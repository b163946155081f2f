package cachestore

import (
	"errors"
	"io/fs"
	"time"
)

// leaving is a file that is being removed: the bits of its line, and its name.
type leaving struct {
	disk *disk
	line uint64
	name string
}

// unlink removes a file that no entry has. As long as it may be there, a restart would find it, so
// purges of its line are remembered (see dropLine). The caller holds s.mu.
func (d *disk) unlink(hash uint64, name string) {
	s := d.store
	x := leaving{d, lineOf(hash), name}
	s.leaving[x.line]++
	s.queueUnlink(x)
}

func (s *Store) queueUnlink(x leaving) {
	s.unlinks++
	x.disk.do(func() { s.unlinkNow(x) })
}

// unlinkNow removes a file, on a worker. One that the disk would not remove is tried again when it
// has removed another one.
func (s *Store) unlinkNow(x leaving) {
	err := x.disk.openRoot().Remove(x.name)
	good := err == nil || errors.Is(err, fs.ErrNotExist)
	if !good && !errors.Is(err, fs.ErrClosed) {
		x.disk.failed("unlink", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlinks--
	if !good {
		s.failing = append(s.failing, x)
		return
	}
	if s.leaving[x.line]--; s.leaving[x.line] == 0 {
		delete(s.leaving, x.line)
	}
	if len(s.failing) > 0 {
		again := s.failing[0]
		s.failing = s.failing[1:]
		s.queueUnlink(again)
	}
}

// awaitUnlinks waits until the files are gone that are being removed, or stay, but not for long.
func (s *Store) awaitUnlinks() {
	for last := time.Now().Add(slowDisk); time.Now().Before(last); time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		n := s.unlinks
		s.mu.Unlock()
		if n == 0 {
			return
		}
	}
}
