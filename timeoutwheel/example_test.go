package timeoutwheel_test

import (
	"fmt"

	"github.com/lwango/lwango/timeoutwheel"
)

// connection is ended when it was idle for 15 seconds.
type connection struct {
	name string
	idle timeoutwheel.Timer
}

func (c *connection) Expire() { fmt.Println(c.name, "was idle for too long") }

// A loop sleeps until the wheel needs it, and gives it the time.
func Example() {
	w := timeoutwheel.New(0)
	a, b := &connection{name: "a"}, &connection{name: "b"}
	a.idle.Init(a)
	b.idle.Init(b)
	w.Add(&a.idle, 15_000)
	w.Add(&b.idle, 15_000)

	w.Advance(9_000)
	w.Add(&b.idle, 9_000+15_000) // b has sent a request

	for at, ok := w.Next(); ok; at, ok = w.Next() {
		fmt.Println("sleep until", at)
		w.Advance(at)
	}
	// Output:
	// sleep until 15000
	// a was idle for too long
	// sleep until 24000
	// b was idle for too long
}
