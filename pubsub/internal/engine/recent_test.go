package engine_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/pubsub/internal/engine"
)

// A double is known after any number of messages with other keys, if its key has had one lately.
func TestDoublesAmongManyTopics(t *testing.T) {
	var r engine.Recent
	for n := range uint64(100000) {
		if !r.Fresh(fmt.Sprint("other", n), 1) {
			t.Fatalf("the first of %d", n)
		}
		if n%1000 == 0 && !r.Fresh("one", n+1) || r.Fresh("one", n/1000*1000+1) {
			t.Fatalf("at %d", n)
		}
	}
	if r.Forget("one"); !r.Fresh("one", 1) {
		t.Error("not forgotten")
	}
}
