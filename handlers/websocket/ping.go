package websocket

import (
	"encoding/binary"
	"time"
)

// Ping sends a ping to which RoundTrip will have the answer. It does not wait for it. Pongs come in
// as messages do, while the thread reads or is in AwaitAny; behind a message that is not read yet
// they wait. Upgrader.PingInterval has pings sent without it.
func (c *Conn) Ping() error {
	x := c.more()
	x.pinged = c.exactly()
	return c.sendFrame(finBit|opPing, binary.BigEndian.AppendUint64(nil, uint64(x.pinged)))
}

// RoundTrip returns how long the peer took to answer a Ping, the last one that was answered; 0:
// none was.
func (c *Conn) RoundTrip() time.Duration {
	if c.extra == nil {
		return 0
	}
	return c.extra.trip
}

// ponged takes a pong. One that answers no Ping is a sign of life and nothing else.
func (c *Conn) ponged(payload []byte) {
	x := c.extra
	if x == nil || x.pinged == 0 || len(payload) != 8 ||
		binary.BigEndian.Uint64(payload) != uint64(x.pinged) {
		return
	}
	x.trip = max(c.exactly()-x.pinged, 1)
	x.pinged = 0
}
