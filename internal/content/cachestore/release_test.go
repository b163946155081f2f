package cachestore_test

import (
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// TestRelease: a fill is used again only if it is over, its reader is closed, and nobody else has
// it.
func TestRelease(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		joined, asked bool // another one has joined, or has looked at the head
		open, coming  bool // the reader is not closed, or the fill is not over
		want          bool
	}{
		{name: "over", want: true},
		{name: "joined", joined: true},
		{name: "looked at", asked: true},
		{name: "read", open: true},
		{name: "coming", coming: true},
	} {
		s := store(t, 1<<20)
		r, f := s.Begin(s.Key([]byte("key")), nil, anyone)
		f.Start(cachestore.Head{Fields: "a"}, -1)
		must.Do(t, f.Write(nil, []byte("body"), -1))
		if test.joined || test.asked {
			other, fill := s.Begin(s.Key([]byte("key")), nil, func(*cachestore.Head) bool {
				return test.joined
			})
			must.Do(t, other.Close())
			if fill != nil {
				fill.Abort(cachestore.ErrUnread)
			}
		}
		if !test.coming {
			must.Get(f.Commit())(t)
		}
		if !test.open {
			must.Do(t, r.Close())
		}
		if f.Release() != test.want {
			t.Errorf("%s: released: %t", test.name, !test.want)
		}
		if test.want { // what comes next has nothing of it
			r, next := s.Begin(s.Key([]byte("other")), nil, anyone)
			if next.Readers() != 1 || r.Length() != -1 || next.Keep(true) != true {
				t.Errorf("%s: a fill that was used has %d readers", test.name, next.Readers())
			}
			next.Abort(cachestore.ErrUnread)
			must.Do(t, r.Close())
		}
		s.Check()
	}
}

// TestEntryThatHadFile: the entry of a key that has had a file is not used for another key: who
// reads the heads of all files, beside the requests, may have it still.
func TestEntryThatHadFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := onDisk(t, folder)
	run(t, 1, func(th *loop.Thread) { keep(t, th, s, "/k", cachestore.Head{}, make([]byte, 5000)) })
	settle(t, s)
	s.Close()
	s = onDisk(t, folder) // which has found the file
	settle(t, s)
	run(t, 1, func(th *loop.Thread) {
		k := s.Key([]byte("/k"))
		r, f := s.Begin(k, s.Lookup(th, k), anyone)
		s.Remove(s.Lookup(th, k)[0])
		f.Abort(cachestore.ErrUnread)
		must.Do(t, r.Close())
		if n := s.Spare(); n > 0 {
			t.Error("it can be used again")
		}
	})
	s.Check()
}
