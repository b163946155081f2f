package coro_test

import (
	"fmt"

	"github.com/lwango/lwango/coro"
)

// counter is a Task that yields twice.
type counter struct{}

func (counter) Run(c *coro.Coro) coro.Value {
	fmt.Println("one")
	c.Yield(coro.Make(coro.WantRead, 0))
	fmt.Println("two")
	c.Yield(coro.Make(coro.AsyncAwaitRead, 5))
	fmt.Println("three")
	return coro.Make(coro.Abort, 0)
}

// The loop starts a task, and resumes it after each value that it has yielded.
func Example() {
	c := coro.New(coro.Direct, nil)
	v := c.Start(counter{})
	fmt.Println(v.Code())
	v = c.Resume()
	fmt.Println(v.Code(), v.FD())
	v = c.Resume()
	fmt.Println(v.Code(), c.Parked())
	c.Close()
	// Output:
	// one
	// WantRead
	// two
	// AsyncAwaitRead 5
	// three
	// Abort true
}
