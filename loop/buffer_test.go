package loop_test

import (
	"testing"

	"github.com/lwango/lwango/loop"
)

// TestBuffers: no two threads have the same buffer, and the loop gives out again what was its own.
func TestBuffers(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(*loop.Thread) {
			a, b := l.Layer().TakeBuffer(), l.Layer().TakeBuffer()
			if a == b {
				t.Error("two have the same buffer")
			}
			l.Layer().PutBuffer(a)
			l.Layer().PutBuffer(b)
			if l.Layer().TakeBuffer() != a || l.Layer().TakeBuffer() == a {
				t.Error("the loop has not kept one buffer")
			}
		})
		mustRun(t, l)
	})
}
