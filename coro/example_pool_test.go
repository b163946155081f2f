package coro_test

import (
	"fmt"

	"github.com/lwango/lwango/coro"
)

// task is a Task that counts how often its coroutine was used.
type task struct{}

func (task) Run(c *coro.Coro) coro.Value {
	n, _ := c.Local.(int)
	c.Local = n + 1
	fmt.Println("task", n+1, "of this coroutine")
	return coro.Make(coro.Abort, 0)
}

// A Pool hands out the coroutine that was used last, with what was left in its Local.
func ExamplePool() {
	var pool coro.Pool
	for now := range int64(3) {
		c := pool.Get()
		c.Start(task{})
		pool.Put(c, now)
	}
	fmt.Println(pool.Len(), "is parked")
	pool.Close()
	// Output:
	// task 1 of this coroutine
	// task 2 of this coroutine
	// task 3 of this coroutine
	// 1 is parked
}
