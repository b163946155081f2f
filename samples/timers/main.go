// Timers runs two green threads that sleep, on a loop without HTTP.
package main

import (
	"fmt"
	"log"
	"time"

	"github.com/lwango/lwango/loop"
)

func main() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	l.Go(sleeper("work", 1*time.Second, 3*time.Second))
	l.Go(sleeper("work2", 1*time.Second, 2*time.Second))
	if err := l.Run(); err != nil { // it returns when both have ended
		log.Fatal(err)
	}
}

// sleeper is a thread that sleeps several times. Both threads print without a lock: they take turns
// on one loop.
func sleeper(name string, times ...time.Duration) func(t *loop.Thread) {
	return func(t *loop.Thread) {
		for _, d := range times {
			fmt.Println(name, "sleeps", d)
			if err := t.Sleep(d); err != nil {
				log.Print(name, ": ", err)
				return
			}
		}
		fmt.Println(name, "is done")
	}
}
