package websocket

import (
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
)

// pinged is a link that counts pings, and whose peer reads.
type pinged struct {
	conn.HijackedConn
	pings int
	read  int64
}

func (p *pinged) TryWrite(b []byte) (int, error) { p.pings++; return len(b), nil }
func (p *pinged) Progress() int64                { return p.read }

// TestKeepAliveTells: whoever has pings sent looks again after each, since it may have waited for
// room.
func TestKeepAliveTells(t *testing.T) {
	loops.Run(t, func(th *loop.Thread) {
		link := &pinged{}
		c := &Conn{activeState: &activeState{link: link}, thread: th,
			set: &Upgrader{PingInterval: time.Minute, IdleTimeout: 3 * time.Minute}}
		for n := 1; n < 4; n++ {
			th.Loop().Layer().AdvanceClock(4 * time.Minute)
			th.Yield()
			if left, err := c.keepAlive(); left != 0 || err != nil || link.pings != n {
				t.Errorf("%v, %v after %d pings", left, err, link.pings)
			}
			if left, err := c.keepAlive(); left <= 0 || err != nil || link.pings != n {
				t.Errorf("%v, %v after %d pings, at rest", left, err, link.pings)
			}
			link.read += 1 << 20
		}
	})
}
