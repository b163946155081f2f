package websocket_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestInflationGivesWay: short messages that become long ones are counted as what they become.
func TestInflationGivesWay(t *testing.T) {
	const many = 40
	for _, read := range []string{"whole", "in pieces"} {
		t.Run(read, func(t *testing.T) {
			passed, turns, done := -1, 0, make(chan struct{})
			s := start(t, direct, func(req *conn.Request, resp *conn.Response) int {
				u := websocket.Upgrader{Compression: true}
				c, err := u.Upgrade(req, resp)
				if err != nil {
					return websocket.Status(err)
				}
				defer close(done)
				for n := range many {
					if read == "whole" {
						_, _, err = c.ReadMessage()
					} else {
						var r io.Reader
						if _, r, err = c.NextReader(); err == nil {
							_, err = io.Copy(io.Discard, r)
						}
					}
					if err != nil {
						t.Error(err)
						return 0
					}
					if n == 0 {
						passed = turns
					}
				}
				passed = turns - passed
				return 0
			})
			s.Loops.Go(0, func(th *loop.Thread) {
				for passed < 0 || turns < 1 {
					turns++
					th.Yield()
				}
				for {
					select {
					case <-done:
						return
					default:
						turns++
						th.Yield()
					}
				}
			})
			c := upgrade(s, offered)
			c.Send(strings.Repeat(frame(0xc2, packed(strings.Repeat("\x00", 60<<10))), many))
			select {
			case <-done:
			case <-time.After(wait.Patience):
				t.Fatal("not all were read")
			}
			if passed < many/8 {
				t.Errorf("others had their turn %d times", passed)
			}
		})
	}
}
