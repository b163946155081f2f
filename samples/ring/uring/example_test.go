package uring_test

import (
	"fmt"
	"log"
	"os"
	"runtime"

	"github.com/lwango/lwango/samples/ring/uring"
)

// A file is read by a ring, or without one where io_uring is forbidden.
func ExampleRing() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := uring.New(8, 16)
	if err != nil {
		log.Print(err) // it says why
		fmt.Printf("%.34s\n", orExit(os.ReadFile("doc.go")))
		return
	}
	defer r.Close()
	f := orExit(os.Open("doc.go"))
	defer f.Close()
	p := orExit(uring.Map(4096))
	e := r.Next()
	e.Read(int(f.Fd()), p, 0)
	for done := false; !done; {
		if err := r.Enter(1, -1); err != nil {
			log.Fatal(err)
		}
		r.Reap(func(c uring.Completion) { done = c.Result > 0 })
	}
	fmt.Printf("%.34s\n", p)
	_ = uring.Unmap(p) // not before the completion
	// Output:
	// // Package uring is io_uring(7) by
}

func orExit[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
