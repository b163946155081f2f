package websocket_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
)

// TestServeSlowReaderOverUNIX: there progress counts from one call to the next.
func TestServeSlowReaderOverUNIX(t *testing.T) {
	ci.Without(t, invariants.Enabled, "a forced EAGAIN moves a write past the skip of the clock")
	message := make([]byte, 10<<10)
	b := &busy{open: func(c *websocket.Conn) {
		c.After(70*time.Second, func(c *websocket.Conn) { // it is in one call with the ping
			for range 2 {
				_ = c.WriteMessage(websocket.Binary, message)
			}
		})
	}}
	s := start(t, overUNIX, b.serve(&websocket.Upgrader{PingInterval: time.Minute,
		IdleTimeout: 2 * time.Minute, WriteTimeout: time.Hour}))
	c := upgrade(s)
	s.Skip(71 * time.Second)
	s.Settle()
	c.expect(bin(string(message)))
	s.Skip(70 * time.Second)
	c.expect(bin(string(message)), received{0x89, ""}, received{0x89, ""})
	c.Send(frame(0x8a, "") + bye)
	c.closed(1000)
}
