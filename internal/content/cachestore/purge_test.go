package cachestore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestPurge: what each kind of purge reaches, hard and soft, of what is kept and what is on its
// way.
func TestPurge(t *testing.T) {
	t.Parallel()
	tags := map[string]string{"/a/1": "x y", "/a/2": "y", "/ab": "xy", "/b": "x"}
	for _, test := range []struct {
		name  string
		purge cachestore.Purge
		want  string // that are purged
	}{
		{"unknown line", cachestore.Purge{Lines: [][]byte{[]byte("/a/3")}}, ""},
		{"lines", cachestore.Purge{Lines: [][]byte{[]byte("/a/1"), []byte("/a")}}, "/a/1"},
		{"prefix", cachestore.Purge{Prefixes: [][]byte{[]byte("/a/")}}, "/a/1 /a/2"},
		{"tag", cachestore.Purge{Tags: []string{"x"}}, "/a/1 /b"},
		{"tags", cachestore.Purge{Tags: []string{"xy", "y"}}, "/a/1 /a/2 /ab"},
		{"unknown tag", cachestore.Purge{Tags: []string{"", "z"}}, ""},
		{"all", cachestore.Purge{All: true}, "/a/1 /a/2 /ab /b"},
	} {
		for _, soft := range []bool{false, true} {
			s := store(t, 1<<20)
			fills := make(map[string]*cachestore.Fill)
			for key, tags := range tags {
				put(t, s, key, cachestore.Head{Tags: tags}, "body")
				r, f := s.Begin(s.Key([]byte(key)), s.Lookup(nil, s.Key([]byte(key))), anyone)
				defer r.Close()
				f.Start(cachestore.Head{Tags: tags, Vary: "later"}, -1)
				fills[key] = f
			}
			test.purge.Soft = soft
			must.Do(t, s.Purge(test.purge))
			for key := range tags {
				o, err := fills[key].Commit()
				purged := strings.Contains(" "+test.want+" ", " "+key+" ")
				list := s.Lookup(nil, s.Key([]byte(key)))
				switch {
				case purged && soft:
					if len(list) != 2 || !list[0].Stale() || !list[1].Stale() {
						t.Errorf("%s, soft: %s: %v, not stale", test.name, key, list)
					}
				case purged:
					if len(list) > 0 || err != cachestore.ErrNotKept || o != nil {
						t.Errorf("%s: %s: %v, %v", test.name, key, list, err)
					}
				case len(list) != 2 || list[0].Stale() || list[1].Stale():
					t.Errorf("%s: %s: %v of another one's purge", test.name, key, list)
				}
				put(t, s, key, cachestore.Head{Tags: tags[key]}, "anew")
				if list = s.Lookup(nil, s.Key([]byte(key))); list[0].Stale() {
					t.Errorf("%s: %s: what comes afterwards is purged", test.name, key)
				}
			}
		}
	}
}

// TestPurgeGivesBack: the memory of what was purged comes back, although nobody asks for it.
func TestPurgeGivesBack(t *testing.T) {
	t.Parallel()
	s := store(t, 8<<20)
	before := s.Stats()
	for i := range 1000 {
		put(t, s, fmt.Sprint("/", i), cachestore.Head{Tags: "x"}, strings.Repeat("b", 1000))
	}
	must.Do(t, s.Purge(cachestore.Purge{Tags: []string{"x"}}))
	wait.Until(t, "all objects are gone", func() bool { // but for two slabs, which are being filled
		n := s.Stats()
		return n.MemoryObjects == 0 && n.MemoryBytes <= before.MemoryBytes+100<<10
	})
	if x := s.Stats(); x.Purged != 1000 {
		t.Errorf("%+v", x)
	}
}

// TestManyPurges: the marks of purges go when they have taken effect, fills that last or not.
func TestManyPurges(t *testing.T) {
	t.Parallel()
	s := store(t, 8<<20)
	r, f := s.Begin(s.Key([]byte("k")), nil, anyone)
	defer r.Close()
	for i := range 3 * cachestore.MaxMarks {
		must.Do(t, s.Purge(cachestore.Purge{Tags: []string{fmt.Sprint(i)}}))
	}
	wait.Until(t, "few marks are left", func() bool { return s.Marks() <= cachestore.MaxMarks })
	f.Start(cachestore.Head{Tags: "1"}, -1)
	if _, err := f.Commit(); err != cachestore.ErrNotKept {
		t.Errorf("what was purged while it came: %v", err)
	}
	must.Do(t, s.Purge(cachestore.Purge{Tags: []string{"z"}}))
	wait.Until(t, "no marks are left", func() bool { return s.Marks() == 0 })
}

// TestPurgeOfOwner: a purge of first lines reaches all keys that have them, and one of an owner
// none of another one's.
func TestPurgeOfOwner(t *testing.T) {
	t.Parallel()
	keys := []string{"/a\none\n1", "/a\none\n2", "/a\ntwo\n1", "/ab\none\n1", "/a"}
	for _, test := range []struct {
		name  string
		purge cachestore.Purge
		want  string // indices of those that are purged
	}{
		{"line", cachestore.Purge{Lines: [][]byte{[]byte("/a")}}, "0124"},
		{"two lines", cachestore.Purge{Lines: [][]byte{[]byte("/a\none")}}, "01"},
		{"three lines are no two", cachestore.Purge{Lines: [][]byte{[]byte(keys[0])}}, ""},
		{"prefix", cachestore.Purge{Prefixes: [][]byte{[]byte("/a")}}, "01234"},
		{"prefix of an owner", cachestore.Purge{Prefixes: [][]byte{[]byte("/a")}, Owner: []byte("one")},
			"013"},
		{"prefix of nobody", cachestore.Purge{Prefixes: [][]byte{[]byte("/a")}, Owner: []byte{}}, "4"},
		{"tag", cachestore.Purge{Tags: []string{"x"}}, "01234"},
		{"tag of an owner", cachestore.Purge{Tags: []string{"y", "x"}, Owner: []byte("two")}, "2"},
	} {
		s := store(t, 1<<20)
		for _, key := range keys {
			put(t, s, key, cachestore.Head{Tags: "x"}, "body")
		}
		must.Do(t, s.Purge(test.purge))
		got := ""
		for i, key := range keys {
			if len(s.Lookup(nil, s.Key([]byte(key)))) == 0 {
				got += fmt.Sprint(i)
			}
		}
		if got != test.want {
			t.Errorf("%s: %q are purged, want %q", test.name, got, test.want)
		}
	}
}

// TestManyLines: the marks of lines are bounded.
func TestManyLines(t *testing.T) {
	t.Parallel()
	s := store(t, 8<<20)
	put(t, s, "/", cachestore.Head{}, "body")
	for i := range 2 * cachestore.MaxLines {
		must.Do(t, s.Purge(cachestore.Purge{Lines: [][]byte{fmt.Append(nil, i)}}))
	}
	wait.Until(t, "few marks are left", func() bool { return s.Marks() <= cachestore.MaxLines })
	if len(s.Lookup(nil, s.Key([]byte("/")))) == 0 {
		t.Error("what was not purged is gone")
	}
}
