package cache_test

import (
	"testing"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/must"
)

// TestFolderBegins: a folder that comes into use while requests are served already begins empty, as
// they may have changed what is in it; at a start, what is in it is found.
func TestFolderBegins(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		before func(s *cache.Store, o cache.Options) error
		want   bool
	}{
		{"at the start", func(*cache.Store, cache.Options) error { return nil }, true},
		{"after memory", func(s *cache.Store, o cache.Options) error {
			o.Folder, o.Disk = "", 0
			return s.Configure(o)
		}, false},
		{"after another folder", func(s *cache.Store, o cache.Options) error {
			o.Folder = t.TempDir()
			return s.Configure(o)
		}, false},
		{"after no store", func(s *cache.Store, _ cache.Options) error {
			s.Missed()
			return nil
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			d := startOnDisk(t, folder)
			d.ask(t, "/a")
			d.settle(t, 1)
			d.store.Close()
			o := cache.Options{Memory: 4 << 20, Folder: folder, Disk: 64 << 20}
			must.Do(t, tt.before(d.store, o))
			must.Do(t, d.store.Configure(o))
			if tt.want {
				d.settle(t, 1)
			}
			if hit := d.ask(t, "/a"); hit != tt.want {
				t.Errorf("a hit: %t", hit)
			}
			d.settle(t, 1)
			d.store.Close()
			must.Do(t, d.store.Configure(o)) // what has come since is found
			d.settle(t, 1)
			if !d.ask(t, "/a") {
				t.Error("nothing is kept")
			}
		})
	}
}
