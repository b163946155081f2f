package cachestore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestPurgeOfHangingDisk: a purge takes effect although the disk hangs, and is over once it is
// written.
func TestPurgeOfHangingDisk(t *testing.T) {
	t.Parallel()
	s := onDisk(t, t.TempDir())
	settle(t, s)
	for _, p := range []cachestore.Purge{{Lines: [][]byte{[]byte("/a")}}, {Tags: []string{"t"}}} {
		run(t, 1, func(th *loop.Thread) {
			keep(t, th, s, "/a", cachestore.Head{Tags: "t"}, make([]byte, 5000))
		})
		settle(t, s)
		goOn := s.StallPurges()
		purged := make(chan error, 1)
		go func() {
			purged <- s.Purge(p)
		}()
		wait.Until(t, "it is purged", func() bool { return len(s.Lookup(nil, s.Key([]byte("/a")))) == 0 })
		select {
		case err := <-purged:
			t.Errorf("it is over before it is written: %v", err)
		default:
		}
		goOn()
		if err := <-purged; err != nil {
			t.Error(err)
		}
	}
}

// TestPurgeWaits: a purge does not wait without limit for a disk that hangs.
func TestPurgeWaits(t *testing.T) {
	ci.Only(t, "it waits for two seconds")
	t.Parallel()
	s := onDisk(t, t.TempDir())
	settle(t, s)
	defer s.StallPurges()()
	if err := s.Purge(cachestore.Purge{All: true}); err == nil {
		t.Error("no error")
	}
}

// TestLongCheck: while a body is read for long to check it, the disk does not hang; if nothing is
// read, it does, and a file is not even waited for.
func TestLongCheck(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		s := onDisk(t, t.TempDir())
		settle(t, s)
		run(t, 1, func(th *loop.Thread) { keep(t, th, s, "/old", cachestore.Head{}, make([]byte, 5000)) })
		settle(t, s)
		s.CloseKept()
		settle(t, s)
		goOn := s.Stall()
		ls := loops.Start(t, modes.Mode{Loops: 1, Handoff: coro.Direct}, nil, nil)
		opened := make(chan error, 1)
		ls.Go(0, func(th *loop.Thread) {
			_, _, err := s.Lookup(th, s.Key([]byte("/old")))[0].Open(th)
			opened <- err
		})
		over := make(chan struct{})
		var checking sync.WaitGroup
		if !hangs { // also if a busy machine takes seconds until the clock is put forward here
			checking.Go(func() {
				for {
					select {
					case <-over:
						return
					case <-time.After(time.Millisecond):
						s.Checks()
					}
				}
			})
		}
		ls.Skip(time.Second)
		if !hangs {
			s.Checks()
		}
		ls.Skip(2 * time.Second)
		if err := <-opened; err != loop.ErrDeadlineExceeded {
			t.Errorf("a file is opened: %v", err)
		}
		close(over)
		checking.Wait()
		if hangs {
			ls.Go(0, func(th *loop.Thread) {
				_, _, err := s.Lookup(th, s.Key([]byte("/old")))[0].Open(th)
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

// TestMarksDoNotWait: many purges take effect at once, although the disk hangs, and are written at
// once.
func TestMarksDoNotWait(t *testing.T) {
	t.Parallel()
	s := onDisk(t, t.TempDir())
	settle(t, s)
	put(t, s, "/a", cachestore.Head{}, "a")
	put(t, s, "/b", cachestore.Head{Tags: "t"}, "b")
	goOn := s.StallPurges()
	marked := s.Mark(cachestore.Purge{Lines: [][]byte{[]byte("/a")}},
		cachestore.Purge{Tags: []string{"t"}})
	if len(s.Lookup(nil, s.Key([]byte("/a"))))+len(s.Lookup(nil, s.Key([]byte("/b")))) > 0 {
		t.Error("something is left")
	}
	goOn()
	if err := marked.Wait(); err != nil {
		t.Error(err)
	}
}
