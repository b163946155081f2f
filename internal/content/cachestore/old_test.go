package cachestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestOldVersion: a store does not wait for the end of what another version has left in its folder,
// and is rid of it all the same, even if it has been closed before.
func TestOldVersion(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	old := filepath.Join(folder, "old")
	body := bytes.Repeat([]byte("0123456789"), 50)
	s := onDisk(t, folder)
	run(t, 1, func(th *loop.Thread) { keep(t, th, s, "/k", cachestore.Head{Fields: "f"}, body) })
	settle(t, s)
	s.Close()
	dir := must.Get(os.Open(filepath.Dir(files(t, folder)[0])))(t)
	defer dir.Close()
	must.Write(t, filepath.Join(folder, "state"), "lwcache1")
	s = onDisk(t, folder)
	// The kernel knows where the folder is, or was until it was removed.
	at := must.Get(os.Readlink(fmt.Sprint("/proc/self/fd/", dir.Fd())))(t)
	if filepath.Dir(at) != old {
		t.Errorf("it was removed first: %s", at)
	}
	isRid := func() bool {
		_, err := os.Lstat(old)
		return errors.Is(err, fs.ErrNotExist)
	}
	wait.Until(t, "what is old is removed", isRid)
	if left := files(t, folder); len(left) > 0 {
		t.Error(left)
	}
	run(t, 1, func(th *loop.Thread) {
		if got := get(t, th, s, "/k"); len(got) > 0 {
			t.Error("what another version has kept is found")
		}
		keep(t, th, s, "/k", cachestore.Head{Fields: "f"}, body)
	})
	settle(t, s)
	s.Close()

	must.Write(t, filepath.Join(old, "ab-1", "1-2-3"), "left by a store that was closed meanwhile")
	s = onDisk(t, folder)
	wait.Until(t, "what is left is removed", isRid)
	run(t, 1, func(th *loop.Thread) {
		wait.Until(t, "what is kept is found", func() bool { return len(get(t, th, s, "/k")) == 1 })
	})
}
