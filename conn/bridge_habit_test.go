package conn

import (
	"testing"
	"time"
)

// Requests that differ in the names of things share a habit, and others do not. A handler that took
// long, or waited for its thread, has to answer at once for a while before it runs in place again.
func TestHabits(t *testing.T) {
	all := new(habits)
	of := all.of("GET", "/items/17/parts")
	if of != all.of("GET", "/items/18/parts") {
		t.Error("two items have two habits")
	}
	for _, other := range []struct{ method, path string }{
		{"POST", "/items/17/parts"}, {"GET", "/login"}, {"GET", "/items/17"}, {"GET", "/"},
	} {
		if of == all.of(other.method, other.path) {
			t.Error(other, "has the habit of an item's parts")
		}
	}
	prove := func(n int) {
		t.Helper()
		for range n {
			if of.short() {
				t.Fatal("it runs in place too early")
			}
			of.note(time.Microsecond, false)
		}
		if !of.short() {
			t.Fatal("it does not run in place")
		}
	}
	prove(fewProofs)
	of.note(time.Millisecond, false)
	prove(fewProofs)
	of.note(0, true)
	prove(fewProofs)
	of.noteInPlace(0, false)
	of.note(time.Second, true)
	prove(2 * fewProofs)
	of.noteInPlace(time.Millisecond, true)
	prove(4 * fewProofs)
	for range 20 {
		of.noteInPlace(0, false)
	}
	prove(manyProofs)
	for range forgiven {
		of.noteInPlace(time.Microsecond, true)
	}
	of.note(time.Millisecond, false)
	prove(manyProofs / 2)
}
