package loop_test

import (
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// TestResolveOn: what a thread hands to another one of its loop goes on in the same turn; a thread
// of another loop is told, too.
func TestResolveOn(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		other := must.Get(loop.New(loop.Options{}))(t)
		waits := make(chan bool, 1)
		var p loop.Promise[int]
		other.Go(func(th *loop.Thread) {
			waits <- true
			if v, err := p.Await(th, -1); v != 7 || err != nil {
				t.Errorf("on another loop: %d, %v", v, err)
			}
		})
		ended := start(t, other)
		<-waits
		var polls int64
		l.Go(func(th *loop.Thread) {
			v, err := p.Await(th, -1)
			if v != 7 || err != nil {
				t.Errorf("%d, %v", v, err)
			}
			if now := l.Stats().Waits; now != polls {
				t.Errorf("%d polls for events in between", now-polls)
			}
		})
		l.Go(func(*loop.Thread) { // behind the one above
			if polls = l.Stats().Waits; !p.ResolveOn(l, 7) || p.ResolveOn(l, 8) {
				t.Error("not settled once")
			}
		})
		mustRun(t, l)
		ended()
	})
}
