package cachestore_test

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
)

// TestPassesThrough: answers that are not kept, and that nobody reads for now, evict nothing, and
// there is little of each in memory once there are many.
func TestPassesThrough(t *testing.T) {
	t.Parallel()
	const limit, fills = 8 << 20, 40
	s := store(t, limit)
	for i := 0; s.Stats().MemoryBytes < limit-200<<10; i++ {
		put(t, s, fmt.Sprint("/", i), cachestore.Head{}, string(make([]byte, 90<<10)))
	}
	before := s.Stats()
	ls := loops.Start(t, modes.Mode{Loops: 1, Handoff: coro.Direct}, nil, nil)
	ended := make(chan error, fills)
	var readers []*cachestore.Reader
	for i := range fills {
		r, f := s.Begin(s.Key([]byte(fmt.Sprint("private ", i))), nil, anyone)
		readers = append(readers, r)
		ls.Go(0, func(th *loop.Thread) {
			f.Start(cachestore.Head{}, -1)
			f.Keep(false)
			err := f.Write(th, make([]byte, 4<<20), time.Minute)
			f.Abort(io.EOF)
			ended <- err
		})
	}
	ls.Skip(time.Second)
	s.Check()
	during := s.Stats()
	if during.MemoryObjects != before.MemoryObjects || during.Evicted > before.Evicted {
		t.Errorf("before %+v, and now %+v", before, during)
	}
	if n := during.MemoryBytes - before.MemoryBytes; n > limit/2+fills*200<<10 || n < limit/2 {
		t.Errorf("%d bytes of fills are in memory", n)
	}
	for _, r := range readers {
		r.Close()
	}
	for range fills {
		if err := <-ended; err != cachestore.ErrUnread {
			t.Error(err)
		}
	}
	s.Check()
	if n := s.Stats().MemoryBytes; n != before.MemoryBytes {
		t.Errorf("%d bytes are left", n-before.MemoryBytes)
	}
}

// TestTrickleBehindLeader: a reader holds up the client of the one that fills for a second at most.
// Without such a client, it takes its time.
func TestTrickleBehindLeader(t *testing.T) {
	t.Parallel()
	const patience, pause = time.Minute, 50 * time.Second
	for _, leads := range []bool{true, false} {
		s := store(t, 8<<20)
		ls := loops.Start(t, modes.Mode{Loops: 2, Handoff: coro.Direct}, nil, nil)
		first, f := s.Begin(s.Key([]byte("k")), nil, anyone)
		follows, _ := s.Begin(s.Key([]byte("k")), nil, anyone)
		first.Close()
		f.Lead(leads)
		var wrote, read atomic.Bool
		ended := make(chan error, 2)
		ls.Go(0, func(th *loop.Thread) {
			f.Start(cachestore.Head{}, -1)
			f.Keep(false)
			err := f.Write(th, make([]byte, 1600<<10), patience)
			f.Abort(io.ErrUnexpectedEOF)
			wrote.Store(true)
			ended <- err
		})
		ls.Go(1, func(th *loop.Thread) {
			defer follows.Close()
			follows.Bind(th, -1)
			for {
				if _, err := io.ReadFull(follows, make([]byte, 70<<10)); err != nil {
					read.Store(true)
					ended <- err
					return
				}
				_ = th.Sleep(pause)
			}
		})
		ls.Skip(time.Second)
		if wrote.Load() != leads || read.Load() {
			t.Errorf("leads %t: after a second the writer has ended %t, the reader %t", leads, wrote.Load(),
				read.Load())
		}
		for range 5 {
			ls.Skip(pause)
		}
		if wrote.Load() != leads || read.Load() != leads {
			t.Errorf("leads %t: the writer has ended %t, the reader %t", leads, wrote.Load(), read.Load())
		}
		for range 20 {
			ls.Skip(pause)
		}
		cut := 0
		for range 2 {
			if err := <-ended; err == cachestore.ErrSlow {
				cut++
			}
		}
		if leads != (cut == 1) {
			t.Errorf("leads %t: %d are cut off", leads, cut)
		}
		s.Check()
	}
}

// TestTrickle: a reader that reads something from time to time, and still holds up another one for
// long, is cut off; two that are equally slow hold up nobody.
func TestTrickle(t *testing.T) {
	t.Parallel()
	const patience, pause = time.Minute, 50 * time.Second
	for _, equal := range []bool{false, true} {
		s := store(t, 8<<20)
		ls := loops.Start(t, modes.Mode{Loops: 2, Handoff: coro.Direct}, nil, nil)
		body := bytes.Repeat([]byte("0123456789abcdef"), 100<<10)
		ended := make(chan error, 3)
		slow := func(r *cachestore.Reader) func(*loop.Thread) {
			return func(th *loop.Thread) {
				defer r.Close()
				r.Bind(th, -1)
				for {
					_, err := io.ReadFull(r, make([]byte, 70<<10))
					if err != nil {
						ended <- err
						return
					}
					_ = th.Sleep(pause)
				}
			}
		}
		r1, f := s.Begin(s.Key([]byte("k")), nil, anyone)
		r2, _ := s.Begin(s.Key([]byte("k")), nil, anyone)
		ls.Go(0, func(th *loop.Thread) {
			f.Start(cachestore.Head{}, -1)
			f.Keep(false)
			err := f.Write(th, body, patience)
			f.Abort(io.ErrUnexpectedEOF)
			ended <- err
		})
		ls.Go(1, slow(r1))
		if equal {
			ls.Go(1, slow(r2))
		} else {
			ls.Go(1, func(th *loop.Thread) {
				defer r2.Close()
				r2.Bind(th, -1)
				n, err := io.Copy(io.Discard, struct{ io.Reader }{r2})
				if n != int64(len(body)) {
					t.Errorf("%d bytes", n)
				}
				ended <- err
			})
		}
		var errs []error
		for i := 0; len(errs) < 3; i++ {
			ls.Skip(pause)
			for more := true; more; {
				select {
				case err := <-ended:
					errs = append(errs, err)
				default:
					more = false
				}
			}
			if i == 5 && !equal && len(errs) != 3 {
				t.Errorf("after %d pauses: %v", i, errs)
			}
		}
		cut := 0
		for _, err := range errs {
			if err == cachestore.ErrSlow {
				cut++
			}
		}
		if equal && cut > 0 || !equal && cut != 1 {
			t.Errorf("equal %v: %v", equal, errs)
		}
	}
}
