package loop_test

import (
	"testing"

	"github.com/lwango/lwango/loop"
)

// TestBuffers: no two threads have the same buffer, and the loop gives out again what was its own.
func TestBuffers(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(*loop.Thread) {
			a, b := l.TakeBuffer(), l.TakeBuffer()
			if a == b {
				t.Error("two have the same buffer")
			}
			l.PutBuffer(a)
			l.PutBuffer(b)
			if l.TakeBuffer() != a || l.TakeBuffer() == a {
				t.Error("the loop has not kept one buffer")
			}
		})
		mustRun(t, l)
	})
}
