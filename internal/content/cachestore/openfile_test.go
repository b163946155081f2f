package cachestore_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/loop"
)

// TestFoundAtOnce: an answer that is found in the moment in which its file is complete is not
// opened once more: such a file was kept open twice, and the second time it was closed the
// process fell.
func TestFoundAtOnce(t *testing.T) {
	t.Parallel()
	s := onDisk(t, t.TempDir())
	body := bytes.Repeat([]byte("0123456789"), 50)
	const answers = 150
	var next atomic.Int32
	key := func(i int32) string { return fmt.Sprint("/", i) }
	run(t, 2, func(th *loop.Thread) {
		for i := range int32(answers) {
			next.Store(i)
			keep(t, th, s, key(i), cachestore.Head{Fields: "f"}, body)
		}
		next.Store(answers)
	}, func(th *loop.Thread) {
		for i := next.Load(); i < answers; i = next.Load() {
			for _, o := range s.Lookup(th, s.Key([]byte(key(i)))) {
				if b, err := bodyOf(th, o); err == nil && !bytes.Equal(b, body) {
					t.Error("another body")
				}
			}
		}
	})
	settle(t, s)
	s.CloseKept()
}
