// Package chatrules is what the two chat servers of the benchmark have in common: one on net/http and
// gorilla/websocket, one on lwango. A text message into a room goes to all its members, its sender too, as it came;
// the echo sends it back. Neither compresses.
package chatrules

import (
	"runtime/debug"
	"time"
)

const (
	EchoPath    = "/ws-echo"
	RoomPath    = "/ws-room" // ?room=R
	CollectPath = "/collect"

	// Queue is how many messages wait for a member who does not read. One more, and the member is sent away.
	Queue = 64

	// MessageLimit is the longest message, in bytes.
	MessageLimit = 4 << 10

	// PingEvery is how often a member is asked for a sign of life, DeadAfter how long one who gives none is kept.
	PingEvery = 30 * time.Second
	DeadAfter = 40 * time.Second

	// WriteLimit is how long a message may take to leave.
	WriteLimit = 10 * time.Second
)

// Collect returns when no garbage is left and the kernel has the memory back: a sync.Pool outlives one collection, and
// a stack is halved by each that finds it too large.
func Collect() {
	for range 4 {
		debug.FreeOSMemory()
	}
}
