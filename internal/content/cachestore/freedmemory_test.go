package cachestore_test

import (
	"bytes"
	"runtime"
	"testing"
	"weak"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/must"
)

// TestEndedFillIsFreed: a fill that has ended goes although another one of its key comes still, and
// the first bytes of a long body go although the rest of it comes still.
func TestEndedFillIsFreed(t *testing.T) {
	t.Parallel()
	s := store(t, 8<<20)
	key := []byte("k")
	first := func() weak.Pointer[cachestore.Fill] {
		r, f := s.Begin(s.Key(key), nil, anyone)
		defer r.Close()
		f.Alone()
		return weak.Make(f)
	}()
	r, f := s.Begin(s.Key(key), nil, anyone)
	defer r.Close()
	first.Value().Abort(cachestore.ErrNotKept)
	runtime.GC()
	if first.Value() != nil {
		t.Error("the fill that has ended is in memory")
	}
	f.Start(cachestore.Head{}, -1)
	f.Keep(false)
	piece := bytes.Repeat([]byte("b"), 64<<10)
	must.Do(t, f.Write(nil, piece, -1))
	begin := f.FirstChunk()
	for range 3 {
		must.Do(t, f.Write(nil, piece, -1))
		must.Get(r.Skip(int64(len(piece))))(t)
	}
	must.Do(t, f.Write(nil, piece, -1)) // forgets what was read
	runtime.GC()
	if begin.Value() != nil {
		t.Error("what was read is in memory")
	}
	runtime.KeepAlive(f)
	f.Abort(cachestore.ErrNotKept)
}
