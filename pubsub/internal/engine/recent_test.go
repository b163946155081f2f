package engine_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/pubsub/internal/engine"
)

// A double is known after any number of messages with other keys, if its key has had one lately.
func TestDoublesAmongManyTopics(t *testing.T) {
	var r engine.Recent
	fresh := func(key string, number uint64) bool {
		is, _ := r.Fresh(key, number, 0)
		return is
	}
	for n := range uint64(100000) {
		if !fresh(fmt.Sprint("other", n), 1) {
			t.Fatalf("the first of %d", n)
		}
		if n%1000 == 0 && !fresh("one", n+1) || fresh("one", n/1000*1000+1) {
			t.Fatalf("at %d", n)
		}
	}
	if r.Forget("one"); !fresh("one", 1) {
		t.Error("not forgotten")
	}
}

// A whole stream that is read again gives no doubles, even if each of its messages is of another
// process.
func TestDoublesAmongManyOrigins(t *testing.T) {
	const stream = 1<<13 + 100
	var r engine.Recent
	for again := range 2 {
		for n := range stream {
			if fresh, _ := r.Fresh(fmt.Sprint("origin", n), 1, 1); fresh != (again == 0) {
				t.Fatalf("message %d, the first time: %v", n, again == 0)
			}
		}
	}
}

// What is missing between two messages of an origin is counted once. An origin may begin anew.
func TestMissing(t *testing.T) {
	var r engine.Recent
	for i, row := range []struct {
		key           string
		number, count uint64
		fresh         bool
		lost          int
	}{
		{"x", 2, 7, true, 0}, // the first one that is read
		{"x", 2, 7, false, 0},
		{"x", 1, 9, false, 0}, // an old one
		{"y", 1, 1, true, 0},
		{"x", 3, 8, true, 0},
		{"x", 7, 12, true, 3},
		{"x", 6, 11, false, 0},
		{"x", 8, 13, true, 0},
		{"x", 9, 1, true, 0}, // it had forgotten the topic
		{"x", 10, 3, true, 1},
		{"x", 11, 0, true, 0}, // it does not count
		{"x", 12, 9, true, 5},
		{"x", 13, 1 << 63, true, 1<<31 - 1},
	} {
		if fresh, lost := r.Fresh(row.key, row.number, row.count); fresh != row.fresh ||
			lost != row.lost {
			t.Errorf("row %d: %v, %d", i, fresh, lost)
		}
	}
}
