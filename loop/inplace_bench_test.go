package loop_test

import (
	"testing"

	"github.com/lwango/lwango/loop"
)

// BenchmarkRunInPlace is what a function in place costs a thread that goes on at once.
func BenchmarkRunInPlace(b *testing.B) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		b.Fatal(err)
	}
	l.Go(func(th *loop.Thread) {
		for n := 0; n < b.N; {
			if !th.Layer().MayRunInPlace() {
				th.Yield()
				continue
			}
			if _, returned := th.Layer().RunInPlace(func(loop.InPlace) {}); returned {
				n++
			}
		}
	})
	if err := l.Run(); err != nil {
		b.Fatal(err)
	}
}
