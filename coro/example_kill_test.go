package coro_test

import (
	"fmt"

	"github.com/lwango/lwango/coro"
)

// careful is a Task that has something to clean up, and that would go on for ever.
type careful struct{}

func (careful) Run(c *coro.Coro) coro.Value {
	c.Defer(func() { fmt.Println("cleaned up") })
	for {
		func() {
			defer func() { _ = recover() }() // does not keep it alive
			c.Yield(coro.Make(coro.Yield, 0))
			fmt.Println("goes on")
		}()
	}
}

// A coroutine that waits can be killed. Its deferred calls run, and nothing else of it.
func ExampleCoro_Kill() {
	c := coro.New(coro.Direct, nil)
	c.Start(careful{})
	c.Resume()
	c.Kill()
	fmt.Println("dead:", c.Dead())
	c.Dispose()
	// Output:
	// goes on
	// cleaned up
	// dead: true
}
