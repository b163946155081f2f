package cachestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// withFile opens a store that has a file of "/u".
func withFile(t *testing.T, folder string) *cachestore.Store {
	t.Helper()
	s := onDisk(t, folder)
	settle(t, s)
	run(t, 1, func(th *loop.Thread) {
		keep(t, th, s, "/u", cachestore.Head{}, make([]byte, 5000))
	})
	settle(t, s)
	return s
}

// found returns how many variants of "/u" a process finds that begins with what there is of a
// folder now, as after a kill.
func found(t *testing.T, folder string) (n int) {
	t.Helper()
	again := filepath.Join(t.TempDir(), "again")
	must.Do(t, os.CopyFS(again, os.DirFS(folder)))
	s := onDisk(t, again)
	settle(t, s)
	run(t, 1, func(th *loop.Thread) { n = len(s.Lookup(th, s.Key([]byte("/u")))) })
	s.Close()
	return n
}

// TestPurgeOfLeavingFile: a file that another answer has displaced is on disk still, as the disk
// hangs. A purge of its line holds after a restart.
func TestPurgeOfLeavingFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := withFile(t, folder)
	goOn := s.Stall()
	put(t, s, "/u", cachestore.Head{}, "short")
	if n := found(t, folder); n != 1 {
		t.Errorf("%d are found before the purge, want the file", n)
	}
	must.Do(t, s.Purge(line("/u")))
	if n := found(t, folder); n > 0 {
		t.Error("what was purged is found after a restart")
	}
	goOn()
	settle(t, s)
	must.Do(t, s.Purge(line("/u/2")))
	if n := s.Marks(); n != 1 {
		t.Errorf("%d purges are remembered, want that of /u", n)
	}
	s.Check()
}

// stays has the disk refuse to remove a file, until the returned function is called.
func stays(t *testing.T, name string) (goOn func()) {
	aside := filepath.Join(t.TempDir(), "aside")
	must.Do(t, os.Rename(name, aside))
	must.Do(t, os.MkdirAll(filepath.Join(name, "in"), 0o700)) // unlinkat and rmdir refuse that
	return func() {
		must.Do(t, os.RemoveAll(name))
		must.Do(t, os.Rename(aside, name))
	}
}

// TestPurgeOfFileThatStays: the same where the disk refuses to remove the file. It is tried again
// with the next one.
func TestPurgeOfFileThatStays(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := withFile(t, folder)
	name := files(t, folder)[0]
	goOn := stays(t, name)
	put(t, s, "/u", cachestore.Head{}, "short")
	settle(t, s)
	goOn()
	must.Do(t, s.Purge(line("/u")))
	if n := found(t, folder); n > 0 {
		t.Error("what was purged is found after a restart")
	}
	run(t, 1, func(th *loop.Thread) {
		keep(t, th, s, "/v", cachestore.Head{}, make([]byte, 5000))
	})
	put(t, s, "/v", cachestore.Head{}, "short")
	wait.Until(t, "both are removed", func() bool { return len(files(t, folder)) == 0 })
	settle(t, s)
	before := s.Marks()
	must.Do(t, s.Purge(line("/u")))
	must.Do(t, s.Purge(line("/v")))
	if n := s.Marks(); n != before {
		t.Errorf("%d purges are remembered, want %d: there is no file", n, before)
	}
	s.Check()
}

// TestManyPurgesBesideFileThatStays: when there are too many marks, they are forgotten, though
// there is a file that nobody knows of. It is not found after a restart.
func TestManyPurgesBesideFileThatStays(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := withFile(t, folder)
	name := files(t, folder)[0]
	goOn := stays(t, name)
	put(t, s, "/u", cachestore.Head{}, "short")
	settle(t, s)
	must.Do(t, s.Purge(line("/u")))
	var tags []string
	for i := range cachestore.MaxMarks + 10 {
		tags = append(tags, fmt.Sprint("t", i))
	}
	must.Do(t, s.Purge(cachestore.Purge{Tags: tags}))
	settle(t, s)
	if n := s.Marks(); n > 0 {
		t.Errorf("%d marks are left", n)
	}
	put(t, s, "/w", cachestore.Head{}, "short")
	if n := len(s.Lookup(nil, s.Key([]byte("/w")))); n != 1 {
		t.Error("what has come since is gone")
	}
	goOn()
	if n := found(t, folder); n > 0 {
		t.Error("what was purged is found after a restart")
	}
}

// TestPurgeOfUnreadFolder: a purge of a line holds after a restart, though its file was not found
// as the disk had failed.
func TestPurgeOfUnreadFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	withFile(t, folder).Close()
	dir := filepath.Dir(files(t, folder)[0])
	aside := filepath.Join(t.TempDir(), "aside")
	must.Do(t, os.Rename(dir, aside))
	must.Write(t, dir, "no folder")
	s := onDisk(t, folder)
	settle(t, s)
	must.Do(t, s.Purge(line("/u")))
	s.Close()
	must.Do(t, os.Remove(dir))
	must.Do(t, os.Rename(aside, dir))
	if n := found(t, folder); n > 0 {
		t.Error("what was purged is found after a restart")
	}
}
