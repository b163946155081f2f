package cachestore_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// TestStaleSince: an object knows when it was purged softly, also after a restart, and also if its
// head was only on disk then.
func TestStaleSince(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := onDisk(t, folder)
	settle(t, s)
	put(t, s, "/memory", cachestore.Head{Tags: "t"}, "x")
	run(t, 1, func(th *loop.Thread) {
		for _, key := range []string{"/key", "/tag", "/late", "/fill"} {
			keep(t, th, s, key, cachestore.Head{Tags: "t" + key}, make([]byte, 5000))
		}
	})
	r, f := s.Begin(s.Key([]byte("/fill")), s.Lookup(nil, s.Key([]byte("/fill"))), anyone)
	defer r.Close()
	before := time.Now().Truncate(time.Second)
	for _, p := range []cachestore.Purge{{Lines: [][]byte{[]byte("/key")}},
		{Tags: []string{"t", "t/tag"}},
		{Lines: [][]byte{[]byte("/fill")}}} {
		p.Soft = true
		must.Do(t, s.Purge(p))
	}
	after := time.Now()
	check := func(keys ...string) {
		t.Helper()
		run(t, 1, func(th *loop.Thread) {
			for _, key := range keys {
				list := s.Lookup(th, s.Key([]byte(key)))
				if len(list) != 1 || !list[0].Stale() {
					t.Errorf("%s: not stale: %v", key, list)
					continue
				}
				if at := list[0].StaleSince(); at.Before(before) || at.After(after) {
					t.Errorf("%s: stale since %v, and not %v", key, at, before)
				}
			}
		})
	}
	check("/memory", "/key", "/tag")
	if o := f.Freshen(s.Lookup(nil, s.Key([]byte("/fill")))[0], cachestore.Head{}); !o.Stale() ||
		o.StaleSince().Before(before) || o.StaleSince().After(after) {
		t.Errorf("what was purged while it came is stale since %v", o.StaleSince())
	}
	settle(t, s)
	s.Close()
	s = onDisk(t, folder)
	settle(t, s)
	check("/key", "/tag", "/fill")
	if o := s.Lookup(nil, s.Key([]byte("/late"))); len(o) > 0 {
		t.Error("its head is in memory already")
	}
	must.Do(t, s.Purge(cachestore.Purge{Tags: []string{"t/late"}, Soft: true}))
	after = time.Now()
	s.Close()
	s = onDisk(t, folder)
	settle(t, s)
	check("/key", "/tag", "/fill", "/late")
}
