package cachestore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestSweepEnds: a sweep ends although purges of lines come all the time.
func TestSweepEnds(t *testing.T) {
	t.Parallel()
	s := store(t, 64<<20)
	for i := range 20_000 {
		put(t, s, fmt.Sprint("/", i), cachestore.Head{}, "body")
	}
	must.Do(t, s.Purge(cachestore.Purge{Tags: []string{"x"}}))
	line := cachestore.Purge{Lines: [][]byte{[]byte("/x")}}
	for end := time.Now().Add(wait.Patience); s.Sweeping(); {
		if must.Do(t, s.Purge(line)); time.Now().After(end) {
			t.Fatal("the sweep goes on and on")
		}
	}
}

// TestManyLinesWithoutFolder: the marks of lines are bounded while the folder is another process's,
// and none of its files comes back that one of them was for.
func TestManyLinesWithoutFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	first := onDisk(t, folder)
	settle(t, first)
	run(t, 1, func(th *loop.Thread) { keep(t, th, first, "k", cachestore.Head{}, make([]byte, 1000)) })
	second := onDisk(t, folder, func(o *cachestore.Options) { o.Wait = true })
	lines := [][]byte{[]byte("k")}
	for i := range cachestore.MaxLines {
		lines = append(lines, fmt.Append(nil, i))
	}
	must.Do(t, second.Purge(cachestore.Purge{Lines: lines}))
	wait.Until(t, "few marks are left", func() bool { return second.Marks() <= cachestore.MaxLines })
	must.Do(t, second.Purge(cachestore.Purge{Lines: [][]byte{[]byte("x")}}))
	first.Close()
	settle(t, second)
	run(t, 1, func(th *loop.Thread) {
		if list := second.Lookup(th, second.Key([]byte("k"))); len(list) > 0 {
			t.Error("a file came back that was purged")
		}
	})
	second.Check()
}
