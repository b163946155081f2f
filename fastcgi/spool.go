package fastcgi

import (
	"os"

	"github.com/lwango/lwango/internal/sysio"
)

// spoolMemory is how much of an answer is held in memory before it goes to a file.
const spoolMemory = 64 << 10

// spool holds what the client has no room for yet, in memory first, and what comes behind that in a file without a name,
// which is used as a ring: what it takes of the disk is bounded, whatever passes through it. The zero value holds
// nothing; size has to be set before there is more than spoolMemory.
type spool struct {
	size int64 // of the ring

	mem  []byte
	off  int // what was taken of it
	file *os.File
	r, w int64 // bytes of the file ever taken, and ever written
}

// len is how much there is.
func (s *spool) len() int64 { return int64(len(s.mem)-s.off) + s.w - s.r }

// write adds p, for which there has to be room in the ring.
func (s *spool) write(p []byte) error {
	if s.r == s.w && len(s.mem)-s.off+len(p) <= spoolMemory {
		if s.off > 0 {
			s.mem = s.mem[:copy(s.mem, s.mem[s.off:])]
			s.off = 0
		}
		s.mem = append(s.mem, p...)
		return nil
	}
	if s.file == nil {
		f, err := sysio.TempFile()
		if err != nil {
			return err
		}
		s.file = f
	}
	for len(p) > 0 {
		at := s.w % s.size
		n, err := s.file.WriteAt(p[:min(int64(len(p)), s.size-at)], at)
		if err != nil {
			return err
		}
		s.w += int64(n)
		p = p[n:]
	}
	return nil
}

// read takes what comes first, as much of it as is at hand in one piece.
func (s *spool) read(p []byte) (int, error) {
	if s.off < len(s.mem) {
		n := copy(p, s.mem[s.off:])
		if s.off += n; s.off == len(s.mem) {
			s.mem, s.off = s.mem[:0], 0
		}
		return n, nil
	}
	at := s.r % s.size
	n := min(int64(len(p)), s.w-s.r, s.size-at)
	if _, err := s.file.ReadAt(p[:n], at); err != nil {
		return 0, err
	}
	s.r += n
	return int(n), nil
}

// drop forgets what there is.
func (s *spool) drop() {
	if s.file != nil {
		_ = s.file.Close()
	}
	*s = spool{size: s.size}
}
