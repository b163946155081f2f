package loop_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// Two threads share a loop, and take turns wherever they wait. Run returns when both have ended.
func Example() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		l.Go(func(t *loop.Thread) {
			for i := range 2 {
				fmt.Println(name, i)
				t.Yield() // or Sleep, or any other wait
			}
		})
	}
	if err := l.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// first 0
	// second 0
	// first 1
	// second 1
}

// runThread runs f as a thread on a loop of its own, as Example does.
func runThread(f func(t *loop.Thread)) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	l.Go(f)
	if err := l.Run(); err != nil {
		log.Fatal(err)
	}
}

// A thread waits for a descriptor by its bare number, here for a pipe. Any descriptor will do that
// is non-blocking and that epoll takes.
func ExampleThread_ReadFD() {
	runThread(func(t *loop.Thread) {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
			log.Fatal(err)
		}
		t.Go(func(t *loop.Thread) error {
			defer t.CloseFD(pipe[1])
			_, err := t.WriteFD(time.Minute, pipe[1], []byte("through a pipe"))
			return err
		})
		defer t.CloseFD(pipe[0])
		for buf := make([]byte, 99); ; {
			n, err := t.ReadFD(time.Minute, pipe[0], buf) // waits for the other thread
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Printf("%s\n", buf[:n])
		}
	})
	// Output:
	// through a pipe
	// EOF
}

// A descriptor is one of several things that a thread waits for, here a timerfd.
func ExampleReadable() {
	runThread(func(t *loop.Thread) {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			log.Fatal(err)
		}
		defer t.CloseFD(fd)
		soon := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(time.Millisecond))}
		if err := unix.TimerfdSettime(fd, 0, &soon, nil); err != nil {
			log.Fatal(err)
		}
		i, err := t.AwaitAny(time.Minute, t.Loop().Stopped(), loop.Readable(fd))
		fmt.Println("source", i, err)
	})
	// Output:
	// source 1 <nil>
}

// A pipe that is full can be written to as soon as its reader has taken something.
func ExampleWritable() {
	runThread(func(t *loop.Thread) {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
			log.Fatal(err)
		}
		defer t.CloseFD(pipe[0])
		defer t.CloseFD(pipe[1])
		page := make([]byte, os.Getpagesize())
		for _, err := unix.Write(pipe[1], page); err == nil; _, err = unix.Write(pipe[1], page) {
		}
		room := loop.Writable(pipe[1])
		_, err := t.AwaitAny(0, room)
		fmt.Println(err)
		t.Go(func(t *loop.Thread) error {
			_, err := t.ReadFD(time.Minute, pipe[0], page)
			return err
		})
		_, err = t.AwaitAny(time.Minute, room)
		fmt.Println(err)
	})
	// Output:
	// i/o timeout
	// <nil>
}

// A function that blocks runs off the loop, so that the loop's other threads go on.
func ExampleThread_Await() {
	runThread(func(t *loop.Thread) {
		var size int64 // a result may be captured, and be used if there is no error
		err := t.Await(time.Minute, func(context.Context) error {
			info, err := os.Stat("example_test.go")
			if err == nil {
				size = info.Size()
			}
			return err
		})
		fmt.Println(size > 0, err)
	})
	// Output:
	// true <nil>
}

// A thread waits until the first of several things is ready. It asks that one for what it has.
func ExampleThread_AwaitAny() {
	runThread(func(t *loop.Thread) {
		var answer loop.Promise[string]
		go answer.Resolve("forty-two") // from any goroutine
		never := t.After(time.Hour)
		switch i, err := t.AwaitAny(time.Minute, never, &answer); {
		case err != nil: // the limit, or the client has left, or the thread was canceled
			fmt.Println(err)
		case i == 1:
			fmt.Println(answer.Value())
		}
	})
	// Output:
	// forty-two <nil>
}

// A thread starts others and waits until all of them have a result.
func ExampleThread_AwaitAll() {
	runThread(func(t *loop.Thread) {
		square := func(n int) *loop.Promise[int] {
			return loop.Go(t, func(t *loop.Thread) (int, error) {
				if err := t.Sleep(time.Millisecond); err != nil {
					return 0, err
				}
				return n * n, nil
			})
		}
		two, three := square(2), square(3)
		if err := t.AwaitAll(time.Minute, two, three); err != nil { // neither fails
			fmt.Println(err)
			return
		}
		a, _ := two.Value()
		b, _ := three.Value()
		fmt.Println(a + b)
	})
	// Output:
	// 13
}

// Any thread can wait for the end of another one, also beside other things.
func ExampleThread_End() {
	runThread(func(t *loop.Thread) {
		worker := t.Loop().Go(func(t *loop.Thread) {
			_ = t.Sleep(time.Millisecond)
			fmt.Println("done")
		})
		if i, err := t.AwaitAny(time.Minute, worker.End(), t.After(time.Hour)); i == 0 && err == nil {
			fmt.Println("ended")
		}
	})
	// Output:
	// done
	// ended
}

// The threads of a scope have ended when Scope returns. The first error cancels the others.
func ExampleThread_Scope() {
	runThread(func(t *loop.Thread) {
		err := t.Scope(func() error {
			t.Go(func(t *loop.Thread) error {
				err := t.Sleep(time.Hour)
				fmt.Println(err)
				return err
			})
			t.Go(func(t *loop.Thread) error { return errors.New("no luck") })
			return nil
		})
		fmt.Println(err)
	})
	// Output:
	// thread canceled: context canceled
	// no luck
}

// A promise is settled once, by any goroutine, and any number of threads on any loops wait for it.
func ExamplePromise() {
	runThread(func(t *loop.Thread) {
		var ready loop.Promise[int]
		for range 2 {
			t.Go(func(t *loop.Thread) error {
				n, err := ready.Await(t, time.Minute)
				fmt.Println(n, err)
				return err
			})
		}
		fmt.Println(ready.Value())
		go ready.Resolve(7)
	})
	// Output:
	// 0 promise is pending
	// 7 <nil>
	// 7 <nil>
}

// Functions that block run side by side off the loop, each with a promise of its result.
func ExampleCall() {
	runThread(func(t *loop.Thread) {
		host := loop.Call(t, os.Hostname)
		dir := loop.Call(t, os.Getwd)
		if err := t.AwaitAll(time.Minute, host, dir); err != nil {
			fmt.Println(err)
			return
		}
		_, err := host.Value()
		_, err2 := dir.Value()
		fmt.Println(err, err2)
	})
	// Output:
	// <nil> <nil>
}

// A thread receives from a Go channel.
func ExampleFromChan() {
	runThread(func(t *loop.Thread) {
		ch := make(chan string)
		go func() {
			defer close(ch)
			ch <- "one"
			ch <- "two"
		}()
		values := loop.FromChan(ch)
		for {
			if _, err := t.AwaitAny(time.Minute, values); err != nil {
				fmt.Println(err)
				return
			}
			v, ok := values.Value()
			if !ok {
				fmt.Println("closed")
				return
			}
			fmt.Println(v)
		}
	})
	// Output:
	// one
	// two
	// closed
}

// Any goroutine can call a function on a loop, where all that belongs to the loop may be used.
func ExampleLoop_Post() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	counter := 0 // the loop's
	l.Go(func(t *loop.Thread) {
		_, err := t.AwaitAny(-1, l.Stopped())
		fmt.Println("counted", counter, err)
	})
	go func() {
		for range 3 {
			_ = l.Post(func() { counter++ })
		}
		l.Stop(time.Second) // comes after them
	}()
	if err := l.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// counted 3 <nil>
}
