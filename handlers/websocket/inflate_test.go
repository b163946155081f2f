package websocket_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestInflationGivesWay: short messages that become long ones are counted as what they become.
func TestInflationGivesWay(t *testing.T) {
	const many = 40
	for _, read := range []string{"whole", "in pieces", "under Serve"} {
		t.Run(read, func(t *testing.T) {
			passed, turns, done := -1, 0, make(chan struct{})
			u, m, got := &websocket.Upgrader{Compression: true}, direct, 0
			k := talk{open: func(c *websocket.Conn) {
				defer close(done)
				var err error
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
						return
					}
					if n == 0 {
						passed = turns
					}
				}
				passed = turns - passed
			}}
			if read == "under Serve" {
				m = serving(direct)
				k = talk{message: func(*websocket.Conn, int, []byte) {
					switch got++; got {
					case 1:
						passed = turns
					case many:
						passed = turns - passed
						close(done)
					}
				}}
			}
			s := start(t, m, talking(u, k))
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
