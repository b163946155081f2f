package reverseproxy

import (
	"sync/atomic"

	"github.com/lwango/lwango/conn"
)

// spoolMemory is how much of an answer is held in memory, at most. If there is more, it goes to a
// file.
const spoolMemory = 16 << 10

// maxSpoolMemory is how much memory all spools of the process have. Beyond it they begin with a
// file.
const maxSpoolMemory = 64 << 20

// spooled is how much memory all spools have.
var spooled atomic.Int64

// spool holds bytes for which the client has no room yet: a few in memory, more in a file without a
// name. So an answer whose client stands still holds hardly any memory. The file is a ring, so its
// size is bounded, whatever passes through it. The zero value is empty; size, memory and temp have
// to be set before the first write.
type spool struct {
	size   int64 // of the ring
	memory int   // how much of mem is used
	temp   func() (conn.TempFile, error)

	mem      []byte // counted in spooled
	off      int    // bytes of mem that were taken
	file     conn.TempFile
	r, w     int64  // bytes that were ever read from the file, and written to it
	overflow []byte // after all else: bytes that the file did not take
	err      error  // why it did not
}

// len returns how many bytes the spool holds.
func (s *spool) len() int64 { return int64(len(s.mem)-s.off) + s.w - s.r + int64(len(s.overflow)) }

// write adds p, for which the ring must have room. If no file can be had, or the file does not take
// it, p is held in memory. The error comes once, and means that the caller should not write more.
func (s *spool) write(p []byte) error {
	if s.err != nil {
		s.overflow = append(s.overflow, p...)
		return nil
	}
	if p, s.err = s.keep(p); s.err != nil {
		s.overflow = append(s.overflow, p...)
	}
	return s.err
}

// keep adds p to the memory or the file, and returns the part that it could not add. If p does not
// fit into the memory, all of it goes to the file.
func (s *spool) keep(p []byte) ([]byte, error) {
	if s.file == nil && len(s.mem)-s.off+len(p) <= s.memory && s.takeMemory() {
		if s.off > 0 {
			s.mem = s.mem[:copy(s.mem, s.mem[s.off:])]
			s.off = 0
		}
		s.mem = append(s.mem, p...)
		return nil, nil
	}
	if s.file == nil {
		f, err := s.temp()
		if err != nil {
			return p, err
		}
		f.Spare() // answers that no client reads must not take the room of uploads
		s.file = f
		if _, err := s.append(s.mem[s.off:]); err != nil {
			s.w = 0 // the memory keeps it
			return p, err
		}
		s.giveMemory()
	}
	return s.append(p)
}

// append adds p to the file, and returns the part that it could not add.
func (s *spool) append(p []byte) ([]byte, error) {
	for len(p) > 0 {
		at := s.w % s.size
		n, err := s.file.WriteAt(p[:min(int64(len(p)), s.size-at)], at)
		s.w += int64(n)
		p = p[n:]
		if err != nil {
			return p, err
		}
	}
	return nil, nil
}

// read takes the first bytes, as many as are at hand in one piece. An empty spool holds neither
// memory nor a file: a client that was slow once need not be slow again.
func (s *spool) read(p []byte) (n int, err error) {
	defer func() {
		if err == nil && s.len() == 0 {
			s.drop()
		}
	}()
	switch {
	case s.off < len(s.mem):
		n = copy(p, s.mem[s.off:])
		if s.off += n; s.off == len(s.mem) {
			s.giveMemory()
		}
		return n, nil
	case s.r == s.w:
		n = copy(p, s.overflow)
		s.overflow = s.overflow[n:]
		return n, nil
	}
	at := s.r % s.size
	n = int(min(int64(len(p)), s.w-s.r, s.size-at))
	if _, err := s.file.ReadAt(p[:n], at); err != nil {
		return 0, err
	}
	s.r += int64(n)
	return n, nil
}

// takeMemory reports whether the spool has its memory.
func (s *spool) takeMemory() bool {
	if s.mem != nil {
		return true
	}
	if n := int64(s.memory); spooled.Add(n) > maxSpoolMemory {
		spooled.Add(-n)
		return false
	}
	s.mem = make([]byte, 0, s.memory)
	return true
}

func (s *spool) giveMemory() {
	if s.mem != nil {
		spooled.Add(-int64(cap(s.mem)))
	}
	s.mem, s.off = nil, 0
}

// drop forgets all that the spool holds.
func (s *spool) drop() {
	s.giveMemory()
	if s.file != nil {
		_ = s.file.Close()
	}
	*s = spool{size: s.size, memory: s.memory, temp: s.temp, err: s.err}
}
