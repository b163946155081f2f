package http2_test

import (
	"io"
	"testing"

	"github.com/lwango/lwango/internal/wire/http2"
)

// TestRoom: the room of a stream is what its window and the connection's take, behind what waits
// already, of itself and of all others.
func TestRoom(t *testing.T) {
	w := http2.NewWire()
	w.Window, w.InitialWindow = 10_000, 6_000
	a, b, c := &http2.Sender{ID: 1}, &http2.Sender{ID: 3}, &http2.Sender{ID: 5}
	for _, s := range []*http2.Sender{a, b, c} {
		w.Add(s, nobody{})
	}
	waits := func(s *http2.Sender, n int) {
		s.Pending = append(s.Pending, make([]byte, n)...)
		w.Allow(s, len(s.Pending))
	}
	is := func(when string, inA, inB, inC int64) {
		t.Helper()
		if x, y, z := w.Room(a), w.Room(b), w.Room(c); x != inA || y != inB || z != inC {
			t.Errorf("%s: room %d, %d, %d, want %d, %d, %d", when, x, y, z, inA, inB, inC)
		}
	}
	update := func(s *http2.Sender, n uint32) {
		t.Helper()
		var h http2.Header
		if s != nil {
			h.Stream = s.ID
		}
		if code := w.WindowUpdate(h, s,
			[]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}); code != http2.NoError {
			t.Error(code)
		}
	}
	is("at first", 6_000, 6_000, 6_000)
	waits(a, 1_000)
	is("one waits", 5_000, 6_000, 6_000)
	waits(a, 4_000)
	is("it has more", 1_000, 5_000, 5_000)
	waits(b, 9_000)
	is("another one has more than its window", 0, 0, 0)
	w.Window += 2_000
	is("the connection's window grows", 1_000, 0, 1_000)
	update(b, 1_500)
	is("and that stream's", 0, 0, 0)
	update(nil, 10_000)
	is("there is room", 1_000, 0, 6_000)
	w.Unqueue(b)
	b.Pending, b.Allowed = nil, 0
	is("it has given up", 1_000, 7_500, 6_000)
	w.Remove(a)
	is("one has ended", 1_000, 7_500, 6_000)
	waits(c, 6_000)
	if _, err := w.Send(io.Discard); err != nil || w.Window != 16_000 {
		t.Error(err, w.Window)
	}
	is("all was sent", 1_000, 7_500, 0)
	w.Window = 3_000
	is("the connection's window is small", 1_000, 3_000, 0)
}

// TestAllowNothing: a stream that waits for its turn, and of which nothing may go out any more, has
// none.
func TestAllowNothing(t *testing.T) {
	w := http2.NewWire()
	s := &http2.Sender{ID: 1, Pending: make([]byte, 100)}
	w.Add(s, nobody{})
	w.Allow(s, 50)
	w.Allow(s, 0)
	if any, err := w.Send(io.Discard); any || err != nil {
		t.Error("a frame of nothing was sent", err)
	}
	w.Allow(s, 60)
	if any, err := w.Send(io.Discard); !any || err != nil || len(s.Pending) != 40 {
		t.Error(any, err, len(s.Pending))
	}
}
