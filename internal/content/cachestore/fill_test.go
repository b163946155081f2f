package cachestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

func anyone(*cachestore.Head) bool { return true }

// store makes a store of so many bytes of memory.
func store(t testing.TB, memory int64) *cachestore.Store {
	return must.Get(cachestore.New(cachestore.Options{Memory: memory}))(t)
}

// put keeps an answer.
func put(t testing.TB, s *cachestore.Store, key string, h cachestore.Head,
	body string) *cachestore.Object {
	t.Helper()
	for {
		r, f := s.Begin(s.Key([]byte(key)), s.Lookup(nil, s.Key([]byte(key))),
			func(*cachestore.Head) bool { return false })
		if r == nil {
			continue
		}
		defer r.Close()
		f.Start(h, int64(len(body)))
		must.Do(t, f.Write(nil, []byte(body), -1))
		o := must.Get(f.Commit())(t)
		return o
	}
}

// run runs functions as threads of several loops, and waits for them.
func run(t *testing.T, loops int, fs ...func(*loop.Thread)) {
	t.Helper()
	begin(t, loops, fs...)()
}

// begin is run, and waits where the returned function is called.
func begin(t *testing.T, loops int, fs ...func(*loop.Thread)) (wait func()) {
	t.Helper()
	ended := make(chan error, loops)
	for i := range loops {
		l := must.Get(loop.New(loop.Options{}))(t)
		for j := i; j < len(fs); j += loops {
			l.Go(fs[j])
		}
		go func() { ended <- l.Run() }()
	}
	return func() {
		for range loops {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
}

// TestFilledOnce: of many threads of several loops that miss together one fills, and all others
// read what comes.
func TestFilledOnce(t *testing.T) {
	t.Parallel()
	for _, end := range []error{nil, io.ErrUnexpectedEOF} {
		s := store(t, 1<<20)
		key, body := []byte("k"), bytes.Repeat([]byte("0123456789abcdef"), 5000)
		var fills, read atomic.Int32
		const threads = 100
		fs := make([]func(*loop.Thread), threads)
		for i := range fs {
			fs[i] = func(th *loop.Thread) {
				r, f := s.Begin(s.Key(key), s.Lookup(th, s.Key(key)), anyone)
				if r == nil {
					t.Error("there was nothing to look up again")
					return
				}
				defer r.Close()
				if f != nil {
					fills.Add(1)
					for f.Readers() < threads {
						th.Sleep(time.Millisecond)
					}
					f.Start(cachestore.Head{Status: 200, Fields: "a: b\r\n"}, -1)
					for i := 0; i < len(body); i += 1000 {
						must.Do(t, f.Write(th, body[i:i+1000], -1))
						th.Yield()
					}
					if end != nil {
						f.Abort(end)
					} else if _, err := f.Commit(); err != nil {
						t.Error(err)
					}
				}
				h, err := r.Head(th, -1)
				if err != nil || h.Fields != "a: b\r\n" {
					t.Errorf("head %v, %v", h, err)
					return
				}
				r.Bind(th, -1)
				got, err := io.ReadAll(r)
				if !bytes.Equal(got, body) || err != end {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				read.Add(1)
			}
		}
		run(t, 3, fs...)
		if fills.Load() != 1 || read.Load() != threads {
			t.Errorf("%d fills, %d have read", fills.Load(), read.Load())
		}
		if n := len(s.Lookup(nil, s.Key(key))); (n == 1) != (end == nil) {
			t.Errorf("%d objects", n)
		}
		if x := s.Stats(); x.Filling != 0 {
			t.Errorf("%d fills are left", x.Filling)
		}
	}
}

// TestNotKept: what is cut, too long or of another length is not kept, and readers are told.
func TestNotKept(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	for name, fill := range map[string]func(f *cachestore.Fill) error{
		"cut": func(f *cachestore.Fill) error {
			f.Start(cachestore.Head{}, 4)
			f.Abort(gone)
			return gone
		},
		"early": func(f *cachestore.Fill) error { f.Abort(gone); return gone },
		"short": func(f *cachestore.Fill) error {
			f.Start(cachestore.Head{}, 4)
			must.Do(t, f.Write(nil, []byte("abc"), -1))
			_, err := f.Commit()
			return err
		},
		"long": func(f *cachestore.Fill) error {
			f.Start(cachestore.Head{}, 4)
			err := f.Write(nil, []byte("abcde"), -1)
			f.Abort(err)
			return err
		},
		"given up": func(f *cachestore.Fill) error {
			f.Start(cachestore.Head{}, 4)
			f.Keep(false)
			must.Do(t, f.Write(nil, []byte("abcd"), -1))
			_, err := f.Commit()
			if err != cachestore.ErrNotKept {
				t.Error(err)
			}
			return io.EOF
		},
	} {
		s := store(t, 1<<20)
		before := s.Stats()
		r, f := s.Begin(s.Key([]byte("k")), nil, anyone)
		err := fill(f)
		r.Bind(nil, -1)
		if _, got := io.Copy(io.Discard, r); got != err && (got != nil || err != io.EOF) {
			t.Errorf("%s: the reader got %v, want %v", name, got, err)
		}
		if l := s.Lookup(nil, s.Key([]byte("k"))); len(l) > 0 {
			t.Errorf("%s: it is kept", name)
		}
		r.Close()
		after := s.Stats()
		if after.Dropped = 0; before != after {
			t.Errorf("%s: %+v is left", name, after)
		}
	}
}

// TestWhole: an answer that is there at once is kept, and those that wait read it; one that is
// purged has not begun, nor has one that is too long or not to be kept, which does not begin
// either.
func TestWhole(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		length  int
		before  func(*cachestore.Store, *cachestore.Fill)
		begins  bool
		refused bool // by Start as well
	}{
		{"short", 100, nil, true, false},
		{"empty", 0, nil, true, false},
		{"a chunk", 64 << 10, nil, true, false},
		{"more than a chunk", 64<<10 + 1, nil, false, false},
		{"too long", 33 << 10, func(s *cachestore.Store, _ *cachestore.Fill) {
			s.Configure(cachestore.Options{Memory: 1 << 20, MaxObject: 32 << 10})
		}, false, true},
		{"not kept", 100, func(_ *cachestore.Store, f *cachestore.Fill) { f.Keep(false) }, false, true},
		{"purged", 100, func(s *cachestore.Store, _ *cachestore.Fill) {
			must.Do(t, s.Purge(cachestore.Purge{Lines: [][]byte{[]byte("k")}}))
		}, false, false},
		{"softly", 100, func(s *cachestore.Store, _ *cachestore.Fill) {
			must.Do(t, s.Purge(cachestore.Purge{Lines: [][]byte{[]byte("k")}, Soft: true}))
		}, true, false},
	} {
		s := store(t, 1<<20)
		body := strings.Repeat("x", tt.length)
		key := s.Key([]byte("k"))
		r, f := s.Begin(key, nil, anyone)
		joined, _ := s.Begin(key, nil, anyone)
		read := begin(t, 1, func(th *loop.Thread) {
			h, err := joined.Head(th, -1)
			if tt.refused {
				if err != cachestore.ErrAgain || joined.Close() != nil {
					t.Errorf("%s: %v, %v", tt.name, h, err)
				}
				return
			}
			joined.Bind(th, -1)
			got, more := io.ReadAll(joined)
			if err != nil || more != nil || h.Fields != "f" || string(got) != body ||
				joined.Length() != int64(tt.length) {
				t.Errorf("%s: head %v, %v, %d bytes, %v", tt.name, h, err, len(got), more)
			}
			if err := joined.Close(); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		})
		if tt.before != nil {
			tt.before(s, f)
		}
		h, o := f.Whole(cachestore.Head{Fields: "f"}, []byte(body))
		if (h != nil) != tt.begins || (o != nil) != tt.begins {
			t.Errorf("%s: %v, %v", tt.name, h, o)
		}
		if h == nil {
			if f.Start(cachestore.Head{Fields: "f"}, int64(tt.length)) == nil {
				f.Abort(cachestore.ErrAgain)
			} else {
				must.Do(t, f.Write(nil, []byte(body), -1))
				o, _ = f.Commit()
			}
		}
		read()
		must.Do(t, r.Close())
		l := s.Lookup(nil, key)
		if (o != nil) != (len(l) == 1) || o != nil && l[0].Stale() != (tt.name == "softly") {
			t.Errorf("%s: kept %v, found %v", tt.name, o, l)
		}
		if x := s.Stats(); x.Filling != 0 || x.Fills != uint64(len(l)) || x.Dropped != 1-uint64(len(l)) {
			t.Errorf("%s: %+v", tt.name, x)
		}
		s.Check()
	}
}

// TestNotForAll: readers who ask for another variant fill for themselves, beside.
func TestNotForAll(t *testing.T) {
	t.Parallel()
	s := store(t, 1<<20)
	key := []byte("k")
	wants := func(v string) func(*cachestore.Head) bool {
		return func(h *cachestore.Head) bool { return h.Vary == v }
	}
	early := s.Key(key)
	r1, f1 := s.Begin(s.Key(key), nil, wants("a"))
	r2, f2 := s.Begin(s.Key(key), nil, wants("b"))
	if f2 != nil {
		t.Fatal("two fill before a head has come")
	}
	f1.Start(cachestore.Head{Vary: "a"}, -1)
	h := must.Get(r2.Head(nil, -1))(t)
	if h.Vary != "a" {
		t.Fatal(h)
	}
	r2.Close()
	if r2, f2 = s.Begin(s.Key(key), nil, wants("b")); f2 == nil {
		t.Fatal("it joins an answer that is another's")
	}
	f2.Start(cachestore.Head{Vary: "b"}, -1)
	if _, f := s.Begin(s.Key(key), nil, wants("b")); f != nil {
		t.Fatal("it does not join the second one")
	}
	must.Get(f1.Commit())(t)
	must.Get(f2.Commit())(t)
	r1.Close()
	r2.Close()
	var got []string
	for _, o := range s.Lookup(nil, s.Key(key)) {
		got = append(got, o.Head().Vary)
	}
	if fmt.Sprint(got) != "[b a]" {
		t.Error(got)
	}
	if r, f := s.Begin(early, nil, anyone); r != nil || f != nil {
		t.Error("Begin does not see that there is something by now")
	}
}

// TestTooLong: an answer that is too long to be kept passes through a window to two readers, of
// whom one is cut off that does not read.
func TestTooLong(t *testing.T) {
	t.Parallel()
	s := store(t, 8<<20)
	const total = 12 << 20
	r, f := s.Begin(s.Key([]byte("k")), nil, anyone)
	idle, _ := s.Begin(s.Key([]byte("k")), nil, anyone)
	var most int64
	ls := loops.Start(t, modes.Mode{Loops: 2, Handoff: coro.Direct}, nil, nil)
	done := make(chan bool, 2)
	ls.Go(0, func(th *loop.Thread) {
		defer func() { done <- true }()
		f.Start(cachestore.Head{}, -1)
		piece := bytes.Repeat([]byte("x"), 20<<10)
		for n := 0; n < total; n += len(piece) {
			if err := f.Write(th, piece[:min(len(piece), total-n)], time.Minute); err != nil {
				t.Error(err)
			}
			most = max(most, s.Stats().MemoryBytes)
		}
		if _, err := f.Commit(); err != cachestore.ErrNotKept {
			t.Error(err)
		}
	})
	ls.Go(1, func(th *loop.Thread) {
		defer func() { done <- true }()
		r.Bind(th, -1)
		n, err := io.Copy(io.Discard, struct{ io.Reader }{r})
		if n != total || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
	ls.Skip(2 * time.Minute)
	<-done
	<-done
	r.Close()
	if most > 4<<20 {
		t.Errorf("%d bytes were in memory", most)
	}
	if n, err := idle.Read(make([]byte, 10)); err != cachestore.ErrSlow {
		t.Errorf("%d, %v for a reader that has not read", n, err)
	}
	idle.Close()
	if err := f.Write(nil, []byte("x"), -1); err != cachestore.ErrUnread {
		t.Errorf("%v", err)
	}
}

// TestFreshen: a 304 gives a kept body another head, and sends readers to look up again.
func TestFreshen(t *testing.T) {
	t.Parallel()
	s := store(t, 1<<20)
	old := put(t, s, "k", cachestore.Head{Fields: "old"}, strings.Repeat("x", 1000))
	begin := func() (*cachestore.Reader, *cachestore.Fill) {
		return s.Begin(s.Key([]byte("k")), s.Lookup(nil, s.Key([]byte("k"))), anyone)
	}
	r, f := begin()
	o := f.Freshen(old, cachestore.Head{Fields: "new"})
	if _, err := r.Head(nil, -1); err != cachestore.ErrAgain {
		t.Error(err)
	}
	r.Close()
	l := s.Lookup(nil, s.Key([]byte("k")))
	if len(l) != 1 || l[0] != o || o.Head().Fields != "new" || o.Size() != 1000 {
		t.Fatalf("%v", l)
	}
	r, f = begin()
	if f.Freshen(old, cachestore.Head{}) != nil {
		t.Error("what is not kept any more is freshened")
	}
	r.Close()
	r, f = begin()
	must.Do(t, s.Purge(cachestore.Purge{Lines: [][]byte{[]byte("k")}}))
	if f.Freshen(o, cachestore.Head{}) != nil || len(s.Lookup(nil, s.Key([]byte("k")))) > 0 {
		t.Error("what is purged comes back")
	}
	r.Close()
	if n := s.Stats().MemoryObjects; n != 0 {
		t.Errorf("%d objects", n)
	}
}
