package cachestore_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/cachestore"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
)

// TestLongCheck: while a body is read for long to check it, the disk does not hang; if nothing is
// read, it does, and a file is not even waited for.
func TestLongCheck(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		s := onDisk(t, t.TempDir())
		settle(t, s)
		run(t, 1, func(th *loop.Thread) { keep(t, th, s, "/old", cachestore.Head{}, make([]byte, 5000)) })
		settle(t, s)
		s.Unshelve()
		settle(t, s)
		goOn := s.Stall()
		ls := loops.Start(t, modes.Mode{Loops: 1, Handoff: coro.Direct}, nil, nil)
		opened := make(chan error, 1)
		ls.Go(0, func(th *loop.Thread) {
			_, _, err := s.Lookup(th, []byte("/old"))[0].Open(th)
			opened <- err
		})
		ls.Skip(time.Second)
		if !hangs {
			s.Checks()
		}
		ls.Skip(2 * time.Second)
		if err := <-opened; err != loop.ErrDeadlineExceeded {
			t.Errorf("a file is opened: %v", err)
		}
		if hangs {
			ls.Go(0, func(th *loop.Thread) {
				_, _, err := s.Lookup(th, []byte("/old"))[0].Open(th)
				opened <- err
			})
			if err := <-opened; err != cachestore.ErrGone {
				t.Errorf("a file is opened of a disk that hangs: %v", err)
			}
		}
		goOn()
		settle(t, s)
		run(t, 1, func(th *loop.Thread) {
			if o := keep(t, th, s, "/x", cachestore.Head{}, make([]byte, 5000)); (o == nil) != hangs {
				t.Errorf("hangs %v: %v is kept", hangs, o)
			}
		})
		if x := s.Stats(); (x.Failed > 0) != hangs {
			t.Errorf("hangs %v: %+v", hangs, x)
		}
	}
}
