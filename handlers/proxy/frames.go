package proxy

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/loop"
)

// frames follows one direction of a WebSocket, so that a close frame can be put between two of its
// frames. It checks nothing else of them.
type frames struct {
	left   int64    // bytes of the present frame that are still to come, once its length is known
	head   [10]byte // until then, what has come of its header
	n      int      // bytes of head
	closed bool     // a close frame has passed, behind which nothing may come

	sentClose bool // that close frame was goingAway
	loop      *loop.Loop
}

// goingAway is a close frame of a server, with the code 1001 (RFC 6455 section 7.4.1).
var goingAway = []byte{0x88, 2, 1001 >> 8, 1001 & 0xff}

// opClose is the opcode of a close frame (RFC 6455 section 11.8).
const opClose = 8

// closeWait is how long the server waits, while it stops, for the end of a WebSocket that it has
// closed.
var closeWait = 500 * time.Millisecond

// framesOf returns what follows the frames behind a 101; nil if that is not to a WebSocket.
func framesOf(resp *conn.Response, l *loop.Loop) *frames {
	if ascii.EqualFold(resp.Header().Get("Upgrade"), "websocket") {
		return &frames{loop: l}
	}
	return nil
}

// frameLength returns how many bytes of a frame follow behind the length in its header, with which
// b begins. ok is false while b is too short to tell. A length with the highest bit set, which no
// frame may have, is one that never ends (RFC 6455 section 5.2).
func frameLength(b []byte) (left int64, ok bool) {
	if len(b) < 2 {
		return 0, false
	}
	var key uint64
	if b[1]&0x80 != 0 {
		key = 4 // bytes, behind the length
	}
	switch n := uint64(b[1] & 0x7f); {
	case n < 126:
		return int64(key + n), true
	case n == 126 && len(b) >= 4:
		return int64(key + uint64(binary.BigEndian.Uint16(b[2:]))), true
	case n == 127 && len(b) >= 10:
		return int64(min(binary.BigEndian.Uint64(b[2:]), math.MaxInt64-key) + key), true
	}
	return 0, false
}

// next takes bytes of p, up to the end of the present frame, and returns how many.
func (f *frames) next(p []byte) int {
	if f.left > 0 {
		n := int(min(f.left, int64(len(p))))
		f.left -= int64(n)
		return n
	}
	for i, b := range p {
		f.head[f.n] = b
		f.n++
		if left, ok := frameLength(f.head[:f.n]); ok {
			f.closed = f.closed || f.head[0]&0xf == opClose
			f.left, f.n = left, 0
			return i + 1
		}
	}
	return len(p)
}

// between reports that what has come ends with a frame.
func (f *frames) between() bool { return f.left == 0 && f.n == 0 }

// pass returns what the receiver of p gets. If the server is stopping, that ends with the present
// frame, and with goingAway behind it; and is nothing afterwards. It may overwrite p.
func (f *frames) pass(p []byte, stopping bool) []byte {
	if f.sentClose {
		return nil
	}
	for n := 0; ; n += f.next(p[n:]) {
		if stopping && f.between() && !f.closed {
			f.closed, f.sentClose = true, true
			return append(p[:n], goingAway...)
		}
		if n == len(p) {
			return p
		}
	}
}

// Pass implements tunnel.Filter.
func (f *frames) Pass(p []byte) []byte { return f.pass(p, f.loop.Stopping()) }

// Skips returns how many bytes can come that need not be looked at, and Skip takes n of them.
func (f *frames) Skips() int64 {
	if f.sentClose {
		return 0
	}
	return f.left
}

func (f *frames) Skip(n int) { f.left -= int64(n) }
