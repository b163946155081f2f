package nats_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/pubsub/nats"
)

// A double is known after any number of messages with other keys, if its key has had one lately.
func TestDoublesAmongManyTopics(t *testing.T) {
	fresh := nats.Fresh()
	for n := range uint64(100000) {
		if !fresh(fmt.Sprint("other", n), 1) {
			t.Fatalf("the first of %d", n)
		}
		if n%1000 == 0 && !fresh("one", n+1) || fresh("one", n/1000*1000+1) {
			t.Fatalf("at %d", n)
		}
	}
}
