package cachestore_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

func line(text string) cachestore.Purge { return cachestore.Purge{Lines: [][]byte{[]byte(text)}} }

// TestLinesAreFound: purges of lines, however many, reach what there is of these lines and leave
// nothing to remember, so nobody walks through all keys on account of them.
func TestLinesAreFound(t *testing.T) {
	t.Parallel()
	s := store(t, 4<<20)
	for i := range 100 {
		put(t, s, fmt.Sprintf("/%d\nsite", i), cachestore.Head{}, "body")
	}
	for i := range cachestore.MaxLines + 1 {
		must.Do(t, s.Purge(line(fmt.Sprint("/", 50+i))))
	}
	if n := s.Marks(); n > 0 || s.Sweeping() {
		t.Errorf("%d purges are remembered; all keys are walked through: %t", n, s.Sweeping())
	}
	for i := range 100 {
		key := fmt.Appendf(nil, "/%d\nsite", i)
		if n := len(s.Lookup(nil, s.Key(key))); (n == 0) != (i >= 50) {
			t.Errorf("%s: %d are left", key, n)
		}
	}
	if x := s.Stats(); x.Purged != 50 || x.MemoryObjects != 50 {
		t.Errorf("%+v", x)
	}
	s.Check()
}

// TestManyKeysOfALine: a client that sends ever new fields makes ever new keys of a line. They make
// no bucket long, and a purge of the line reaches all of them.
func TestManyKeysOfALine(t *testing.T) {
	t.Parallel()
	for _, soft := range []bool{false, true} {
		s := store(t, 4<<20)
		const n = 500
		put(t, s, "/ab\nsite\n0", cachestore.Head{}, "body")
		for i := range n {
			put(t, s, fmt.Sprintf("/a\nsite\n%d", i), cachestore.Head{}, "body")
			put(t, s, fmt.Sprintf("/%d\nsite\n0", i), cachestore.Head{}, "body")
		}
		s.Check()
		for i := 0; i < n; i += 2 {
			s.Remove(s.Lookup(nil, s.Key(fmt.Appendf(nil, "/a\nsite\n%d", i)))[0])
		}
		s.Check()
		p := line("/a\nsite")
		p.Soft = soft
		must.Do(t, s.Purge(p))
		for i := range n {
			list := s.Lookup(nil, s.Key(fmt.Appendf(nil, "/a\nsite\n%d", i)))
			if left := i%2 > 0 && soft; (len(list) == 1) != left || left && !list[0].Stale() {
				t.Errorf("soft %t: %d: %v", soft, i, list)
			}
			if list = s.Lookup(nil, s.Key(fmt.Appendf(nil, "/%d\nsite\n0", i))); len(list) != 1 ||
				list[0].Stale() {
				t.Errorf("soft %t: of another line, %d: %v", soft, i, list)
			}
		}
		if list := s.Lookup(nil, s.Key([]byte("/ab\nsite\n0"))); len(list) != 1 || list[0].Stale() {
			t.Errorf("soft %t: of a line that begins as this one: %v", soft, list)
		}
		s.Check()
	}
}

// TestLineOfFills: a purge of a line reaches what is on its way, also where others may not join it:
// it has taken too long, or there are too many.
func TestLineOfFills(t *testing.T) {
	t.Parallel()
	s := store(t, 4<<20)
	var fills []*cachestore.Fill
	for i := range 70 {
		r, f := s.Begin(s.Key([]byte("/a\nsite")), nil, func(*cachestore.Head) bool { return false })
		defer r.Close()
		f.Start(cachestore.Head{Vary: fmt.Sprint(i)}, -1)
		if i == 0 {
			r.Unlist()
		}
		fills = append(fills, f)
	}
	s.Check()
	must.Do(t, s.Purge(line("/a")))
	for i, f := range fills {
		if _, err := f.Commit(); err != cachestore.ErrNotKept {
			t.Errorf("%d: %v", i, err)
		}
	}
	if list := s.Lookup(nil, s.Key([]byte("/a\nsite"))); len(list) > 0 || s.Marks() > 0 {
		t.Errorf("%d are kept, %d purges are remembered", len(list), s.Marks())
	}
	s.Check()
}

// TestLineOfFiles: with a folder, only purges of what is there are remembered, as it would be there
// again after a restart.
func TestLineOfFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := onDisk(t, folder)
	settle(t, s)
	run(t, 1, func(th *loop.Thread) {
		for _, key := range []string{"/a\nsite", "/b\nsite"} {
			keep(t, th, s, key, cachestore.Head{}, make([]byte, 5000))
		}
		put(t, s, "/c\nsite", cachestore.Head{}, "body")
	})
	settle(t, s)
	for _, x := range []string{"/a", "/c", "/d"} {
		must.Do(t, s.Purge(line(x)))
	}
	if n := s.Marks(); n != 1 {
		t.Errorf("%d purges are remembered, want that of /a", n)
	}
	s.Close()
	s = onDisk(t, folder)
	settle(t, s)
	must.Do(t, s.Purge(line("/b")))
	must.Do(t, s.Purge(line("/d")))
	if n := s.Marks(); n != 2 {
		t.Errorf("%d purges are remembered, want those of /a and /b", n)
	}
	run(t, 1, func(th *loop.Thread) {
		for _, key := range []string{"/a\nsite", "/b\nsite", "/c\nsite"} {
			if list := s.Lookup(th, s.Key([]byte(key))); len(list) > 0 {
				t.Errorf("%q: %v", key, list)
			}
		}
	})
}

// TestFoundLater: what is kept before the folder's files are found takes the place of a file of the
// same key, and is not there twice.
func TestFoundLater(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	first := onDisk(t, folder)
	second := onDisk(t, folder, func(o *cachestore.Options) { o.Wait = true })
	run(t, 1, func(th *loop.Thread) {
		keep(t, th, first, "/a\nsite", cachestore.Head{Fields: "old"}, make([]byte, 5000))
		put(t, second, "/a\nsite", cachestore.Head{Fields: "new"}, "body")
	})
	settle(t, first)
	first.Close()
	settle(t, second)
	run(t, 1, func(th *loop.Thread) {
		list := second.Lookup(th, second.Key([]byte("/a\nsite")))
		if len(list) != 1 || list[0].Head().Fields != "new" {
			t.Errorf("%d are found, want the new one", len(list))
		}
	})
	settle(t, second)
	if x := second.Stats(); x.DiskObjects != 0 {
		t.Errorf("%+v: the old one is there still", x)
	}
	second.Check()
}
