package cachestore_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// TestSkip: a reader jumps over what has come, wherever that is, and waits for the rest.
func TestSkip(t *testing.T) {
	t.Parallel()
	body := make([]byte, 3<<20)
	for i := range body {
		body[i] = byte(i / 1000)
	}
	for _, s := range []*cachestore.Store{store(t, 64<<20), onDisk(t, t.TempDir())} {
		r, f := s.Begin(s.Key([]byte("k")), nil, anyone)
		const skip = 2<<20 + 12345
		jumps := 0
		run(t, 1, func(th *loop.Thread) {
			f.Start(cachestore.Head{}, -1)
			must.Do(t, f.Write(th, body[:1<<20], -1))
			for jumps == 0 {
				_ = th.Sleep(time.Millisecond)
			}
			must.Do(t, f.Write(th, body[1<<20:], -1))
			_, _ = f.Commit()
		}, func(th *loop.Thread) {
			must.Get(r.Head(th, -1))(t)
			r.Bind(th, -1)
			for left := int64(skip); left > 0; jumps++ {
				n, err := r.Skip(left)
				if n <= 0 || err != nil {
					t.Errorf("%d, %v", n, err)
					return
				}
				left -= n
			}
			got, err := io.ReadAll(struct{ io.Reader }{r})
			if err != nil || !bytes.Equal(got, body[skip:]) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if n, err := r.Skip(1); n != 0 || err != io.EOF {
				t.Errorf("at the end: %d, %v", n, err)
			}
		})
		if jumps > 1000 {
			t.Errorf("%d jumps", jumps)
		}
		r.Close()
		s.Check()
	}
}

// TestMatchBeside: what does not match a caller is found out without the lock of the store.
func TestMatchBeside(t *testing.T) {
	t.Parallel()
	s := store(t, 1<<20)
	want := func(v string, locked *int) func(*cachestore.Head) bool {
		return func(h *cachestore.Head) bool {
			if s.Locked() {
				*locked++
			}
			return h.Vary == v
		}
	}
	var locked int
	for i := range 20 {
		r, f := s.Begin(s.Key([]byte("k")), nil, want(fmt.Sprint(i), &locked))
		if f == nil {
			t.Fatal("it joins another variant")
		}
		defer r.Close()
		defer f.Abort(io.EOF)
		f.Start(cachestore.Head{Vary: fmt.Sprint(i)}, -1)
	}
	if locked > 0 {
		t.Errorf("%d calls of match under the lock", locked)
	}
	r, f := s.Begin(s.Key([]byte("k")), nil, want("7", &locked))
	if f != nil || locked > 1 {
		t.Errorf("it does not join; %d calls under the lock", locked)
	}
	r.Close()
}
