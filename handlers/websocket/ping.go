package websocket

import (
	"encoding/binary"
	"time"
)

// Ping sends a ping, and does not wait for the pong, whose time RoundTrip returns. Pongs arrive as
// messages do, while the thread reads or is in AwaitAny; they wait while a message before them is
// not read. Pings of Upgrader.PingInterval do not need it.
func (c *Conn) Ping() error {
	x := c.ensureExtra()
	x.pingSentAt = c.exactNow()
	return c.sendFrame(finBit|opPing, binary.BigEndian.AppendUint64(nil, uint64(x.pingSentAt)))
}

// RoundTrip returns how long the peer took to answer a Ping, the last one that was answered; 0:
// none was.
func (c *Conn) RoundTrip() time.Duration {
	if c.extra == nil {
		return 0
	}
	return c.extra.roundTrip
}

// ponged handles a pong. A pong that answers no Ping is only a sign of life.
func (c *Conn) ponged(payload []byte) {
	x := c.extra
	if x == nil || x.pingSentAt == 0 || len(payload) != 8 ||
		binary.BigEndian.Uint64(payload) != uint64(x.pingSentAt) {
		return
	}
	x.roundTrip = max(c.exactNow()-x.pingSentAt, 1)
	x.pingSentAt = 0
}
