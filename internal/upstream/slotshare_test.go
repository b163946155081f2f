package upstream_test

import (
	"context"
	"net/netip"
	"testing"

	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// TestPressed: a slot is pressed by the requests that wait of a client network with fewer slots,
// and of its own, and not by a crowd that has more.
func TestPressed(t *testing.T) {
	c := newCrowded(t, 4, 0)
	defer c.end()
	c.answer("crowd0")
	l := c.r.loops.All[0]
	look, pressed, ended := make(chan bool), make(chan bool), make(chan bool)
	_ = l.Post(func() {
		l.Layer().Start(&client{netip.MustParseAddr("192.0.2.2"), func(th *loop.Thread) {
			defer close(ended)
			lease := c.r.Lease()
			s, _, err := lease.Connect(th, upstream.Reused)
			if err != nil {
				t.Error(err)
				return
			}
			defer lease.Close(s)
			for {
				again, err := loop.Await(th, -1, func(context.Context) (bool, error) { return <-look, nil })
				if !again || err != nil {
					return
				}
				pressed <- lease.CrowdedFor(th, 0)
			}
		}})
	})
	slow := func(what string, want bool) {
		t.Helper()
		look <- true
		if got := <-pressed; got != want {
			t.Errorf("%s: pressed is %v", what, got)
		}
	}
	slow("nobody waits", false)
	c.waits("192.0.2.1", "more of the crowd")
	slow("a crowd with three slots waits", false)
	c.waits("192.0.2.3", "another")
	slow("one without a slot waits", true)
	c.answer("crowd1")
	c.next("another")
	slow("one with as many slots has come", false)
	c.waits("192.0.2.2", "its own")
	slow("its own client waits", true)
	close(look)
	<-ended
}
