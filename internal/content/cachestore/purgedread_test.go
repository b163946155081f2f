package cachestore_test

import (
	"io"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
)

// TestPurgedIsCountedWhileRead: the bytes of an answer that was purged while it came count until
// those that follow have read them.
func TestPurgedIsCountedWhileRead(t *testing.T) {
	t.Parallel()
	s := store(t, 64<<20)
	const size = 1 << 20
	empty := s.Stats().MemoryBytes
	r, f := s.Begin(s.Key([]byte("/a")), nil, anyone)
	f.Start(cachestore.Head{Tags: "tag"}, size)
	if err := f.Write(nil, make([]byte, size), -1); err != nil {
		t.Fatal(err)
	}
	s.Mark(cachestore.Purge{Tags: []string{"tag"}})
	if _, err := f.Commit(); err != cachestore.ErrNotKept {
		t.Errorf("%v", err)
	}
	s.Check()
	if n := s.Stats().MemoryBytes - empty; n < size {
		t.Errorf("%d bytes are counted", n)
	}
	if n, err := io.Copy(io.Discard, struct{ io.Reader }{r}); n != size || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	r.Close()
	s.Check()
	if n := s.Stats().MemoryBytes - empty; n >= size {
		t.Errorf("%d bytes are left", n)
	}
}
