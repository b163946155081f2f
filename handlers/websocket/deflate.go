package websocket

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/flate"
)

const (
	defaultLevel             = 1
	defaultThreshold         = 256
	defaultTakeoverThreshold = 64

	// blockEnd is what a Flush writes at last: an empty stored block, of which the sender removes
	// these bytes (RFC 7692 section 7.2.1).
	blockEnd = "\x00\x00\xff\xff"
)

// deflater compresses messages, one at a time.
type deflater struct {
	w    *flate.Writer
	into io.Writer
	out  []byte // where into is nil
}

// Write takes what the flate.Writer has compressed.
func (d *deflater) Write(p []byte) (int, error) {
	if d.into != nil {
		return d.into.Write(p)
	}
	d.out = append(d.out, p...)
	return len(p), nil
}

// deflaters has a pool for each level. A deflater takes from 200 kB to 1 MB, and is in use only
// while a message is compressed, so there are about as many as loops.
var deflaters [flate.BestCompression + 1]sync.Pool

// getDeflater returns a deflater that refers to the bytes in dict as if it had compressed them
// before. It copies them.
func getDeflater(level int, dict []byte) *deflater {
	d, _ := deflaters[level].Get().(*deflater)
	if d == nil {
		d = new(deflater)
		d.w, _ = flate.NewWriter(d, level) // fails for no such level
	}
	d.w.ResetDict(d, dict)
	return d
}

func (d *deflater) release(level int) {
	d.into, d.out = nil, nil
	d.w.ResetDict(d, nil)
	deflaters[level].Put(d)
}

// deflateTo appends p, compressed, to dst.
func deflateTo(dst, p, dict []byte, level int) []byte {
	d := getDeflater(level, dict)
	d.out = dst
	_, _ = d.w.Write(p) // it appends, and does not fail
	_ = d.w.Flush()
	dst = d.out
	d.release(level)
	return dst[:len(dst)-len(blockEnd)]
}

func (u *Upgrader) level() int {
	if u.CompressionLevel == 0 {
		return defaultLevel
	}
	return min(max(u.CompressionLevel, flate.BestSpeed), flate.BestCompression)
}

// compresses reports whether a message of n bytes is compressed.
func (c *Conn) compresses(n int) bool {
	if !c.want.deflate {
		return false
	}
	least := c.set.CompressionThreshold
	if least == 0 {
		if least = defaultThreshold; c.takes {
			least = defaultTakeoverThreshold
		}
	}
	return n >= least
}

// sentWindow is how much of what it has sent a connection refers to. The peer's window is 32 KiB,
// and a sender need not use all of it: four times as much makes messages that are alike shorter by
// some percent, and costs three times the time.
const sentWindow = 8 << 10

// maxWindows is how many connections of the process have a window of what they have sent, of
// 8 KiB each. The others compress each message by itself, which a peer cannot tell from a sender
// that finds nothing to refer to.
const maxWindows = 4 << 10

// windowTime is how long a connection keeps the window of what it has sent, after the last time.
const windowTime = 10 * time.Second

var (
	windowsHeld atomic.Int32
	windows     = sync.Pool{New: func() any { return new(window) }}
)

// window is the end of what a connection has sent in compressed messages: what later ones may refer
// to. It has all of what the peer has got since some message, and the peer keeps more.
type window struct {
	b    [sentWindow]byte
	n    int
	used time.Duration // when last, see Loop.Clock
}

// bytes returns what may be referred to; nothing for nil.
func (w *window) bytes() []byte {
	if w == nil {
		return nil
	}
	return w.b[:w.n]
}

// add adds what was sent.
func (w *window) add(p []byte) {
	if w == nil {
		return
	}
	p = p[max(len(p)-len(w.b), 0):]
	if over := w.n + len(p) - len(w.b); over > 0 {
		w.n = copy(w.b[:], w.b[over:w.n])
	}
	w.n += copy(w.b[w.n:], p)
}

// sentWindow returns the window of what c has sent; nil: c has none, for the time being.
func (c *Conn) sentWindow() *window {
	if !c.takes {
		return nil
	}
	x := c.more()
	if x.sent == nil {
		if windowsHeld.Add(1) > maxWindows {
			windowsHeld.Add(-1)
			return nil
		}
		x.sent = windows.Get().(*window)
	}
	x.sent.used = c.now()
	return x.sent
}

// dropSent gives up the window of what c has sent.
func (c *Conn) dropSent() {
	if c.extra == nil || c.extra.sent == nil {
		return
	}
	w := c.extra.sent
	c.extra.sent = nil
	w.n = 0
	windows.Put(w)
	windowsHeld.Add(-1)
}

// windowLeft returns how long c may wait until it gives up the window of what it has sent, if it
// sends nothing more; negative: without limit. It gives up one that is due. What a program writes
// in parts needs it as long as the writer is open.
func (c *Conn) windowLeft() time.Duration {
	if c.extra == nil || c.extra.sent == nil || c.writing() {
		return -1
	}
	left := c.extra.sent.used + windowTime - c.now()
	if left <= 0 {
		c.dropSent()
		return -1
	}
	return left
}

// dropGot gives up what the peer may have referred to, on a connection that has ended.
func (c *Conn) dropGot() {
	if c.keeps > 0 {
		if c.want.server {
			agreedUpon.Add(-1 << c.keeps)
		} else {
			disagree(client(c.link.RemoteAddr()), c.keeps)
		}
		c.keeps = 0
	}
	if c.extra != nil {
		c.extra.got = nil
	}
}

// got returns what the peer may refer to: the end of its compressed messages so far.
func (c *Conn) got() []byte {
	if c.extra == nil {
		return nil
	}
	return c.extra.got
}

// remember adds a part of a compressed message to what the peer may refer to.
func (c *Conn) remember(p []byte) {
	if c.keeps == 0 {
		return
	}
	x, size := c.more(), 1<<c.keeps
	p = p[max(len(p)-size, 0):]
	if over := len(x.got) + len(p) - size; over > 0 {
		x.got = x.got[:copy(x.got, x.got[over:])]
	}
	if need := len(x.got) + len(p); need > cap(x.got) { // 2^keeps at most
		grown := make([]byte, len(x.got), min(max(need, 2*cap(x.got)), size))
		copy(grown, x.got)
		x.got = grown
	}
	x.got = append(x.got, p...)
}
