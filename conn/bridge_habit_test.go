package conn

import (
	"testing"
	"time"
)

// Requests that differ in the names of things share a habit, and others do not. After some requests
// on goroutines one is tried in place. Handlers that answer at once may be late now and then, and
// others have goroutines for longer and longer.
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
	tried := func(after int) { // 1 ms: others are on the same processor
		t.Helper()
		for range after {
			if of.short() {
				t.Fatal("it runs in place too early")
			}
			of.note(time.Millisecond, false)
		}
		if !of.short() {
			t.Fatal("it is not tried in place")
		}
	}
	for range 2 * fewPassed {
		of.note(10*time.Millisecond, false)
		of.note(0, true)
	}
	for n := fewPassed; n <= manyPassed; n *= 2 {
		tried(n)
		of.noteInPlace(0, false)
	}
	for range 2 {
		tried(manyPassed)
		for range 10 {
			of.noteInPlace(time.Millisecond, true)
		}
	}
	tried(manyPassed)
	for range 1000 {
		of.noteInPlace(time.Microsecond, true)
	}
	of.noteInPlace(0, false)
	if !of.short() {
		t.Error("1 late answer of 1000")
	}
	of.noteInPlace(0, false)
	of.noteInPlace(0, false) // on another loop, at the same time
	tried(2 * fewPassed)
}
