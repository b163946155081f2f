package cachestore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/loop"
)

// TestAbortedWhileWritten: an answer that breaks off while a worker writes it is no failure of the
// disk: the file was closed below the writer, which counted and logged that.
func TestAbortedWhileWritten(t *testing.T) {
	t.Parallel()
	s := onDisk(t, t.TempDir())
	settle(t, s)
	body := make([]byte, 512<<10)
	run(t, 1, func(th *loop.Thread) {
		for i := range 200 {
			r, f := s.Begin(s.Key([]byte(fmt.Sprint("/", i))), nil, anyone)
			f.Start(cachestore.Head{}, -1)
			err := f.Write(th, body, -1)
			r.Close()
			f.Abort(errors.Join(err, cachestore.ErrUnread))
			th.Yield()
		}
	})
	settle(t, s)
	if n := s.Stats(); n.Failed > 0 {
		t.Errorf("%d failures of a sound disk", n.Failed)
	}
	s.Check()
}
