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

	// blockEnd is the end of a Flush: an empty stored block, of which the sender removes these bytes
	// (RFC 7692 section 7.2.1).
	blockEnd = "\x00\x00\xff\xff"
)

// deflater compresses messages, one at a time.
type deflater struct {
	w    *flate.Writer
	into io.Writer
	out  []byte // where into is nil
}

// Write takes the output of the flate.Writer.
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
	if !c.expected.deflate {
		return false
	}
	least := c.set.CompressionThreshold
	if least == 0 {
		if least = defaultThreshold; c.writeTakeover {
			least = defaultTakeoverThreshold
		}
	}
	return n >= least
}

// writeWindowSize is how many bytes of earlier messages a message to the peer may refer to. The
// peer's window is 32 KiB, but a sender need not use all of it: a window four times as large makes
// similar messages a few percent shorter, and costs three times the time.
const writeWindowSize = 8 << 10

// maxWindows is how many connections of the process have a write window of 8 KiB at a time. The
// others compress each message by itself, which a peer cannot tell from a sender that finds nothing
// to refer to.
const maxWindows = 4 << 10

// windowTime is how long a connection keeps its write window after it has sent a message.
const windowTime = 10 * time.Second

var (
	windowCount atomic.Int32
	windows     = sync.Pool{New: func() any { return new(window) }}
)

// window has the last bytes of the compressed messages that a connection has sent, to which later
// ones may refer. It may begin later than the peer's window, but has no gaps.
type window struct {
	b    [writeWindowSize]byte
	n    int
	used time.Duration // when last, see LoopLayer.Clock
}

// bytes returns the bytes to which a message may refer, none for a nil window.
func (w *window) bytes() []byte {
	if w == nil {
		return nil
	}
	return w.b[:w.n]
}

// add adds bytes of a sent message.
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

// useWriteWindow returns the write window of c; nil: c has none at present.
func (c *Conn) useWriteWindow() *window {
	if !c.writeTakeover {
		return nil
	}
	x := c.ensureExtra()
	if x.writeWindow == nil {
		if windowCount.Add(1) > maxWindows {
			windowCount.Add(-1)
			return nil
		}
		x.writeWindow = windows.Get().(*window)
	}
	x.writeWindow.used = c.now()
	return x.writeWindow
}

// dropWriteWindow frees the write window.
func (c *Conn) dropWriteWindow() {
	if c.extra == nil || c.extra.writeWindow == nil {
		return
	}
	w := c.extra.writeWindow
	c.extra.writeWindow = nil
	w.n = 0
	windows.Put(w)
	windowCount.Add(-1)
}

// untilWindowDrop returns the time until c frees its write window, if it sends nothing more;
// negative: without limit. It frees a window that is due. An open writer keeps the window.
func (c *Conn) untilWindowDrop() time.Duration {
	if c.extra == nil || c.extra.writeWindow == nil || c.writing() {
		return -1
	}
	left := c.extra.writeWindow.used + windowTime - c.now()
	if left <= 0 {
		c.dropWriteWindow()
		return -1
	}
	return left
}

// dropReadWindow frees the read window of a connection that has ended.
func (c *Conn) dropReadWindow() {
	if c.readTakeover > 0 {
		if c.expected.server {
			readWindowBytes.Add(-1 << c.readTakeover)
		} else {
			releaseWindow(client(c.link.RemoteAddr()), c.readTakeover)
		}
		c.readTakeover = 0
	}
	if c.extra != nil {
		c.extra.readWindow = nil
	}
}

// peerWindow returns the bytes to which the peer may refer: the last ones of its compressed
// messages so far.
func (c *Conn) peerWindow() []byte {
	if c.extra == nil {
		return nil
	}
	return c.extra.readWindow
}

// addToReadWindow adds a part of a compressed message of the peer.
func (c *Conn) addToReadWindow(p []byte) {
	if c.readTakeover == 0 {
		return
	}
	x, size := c.ensureExtra(), 1<<c.readTakeover
	p = p[max(len(p)-size, 0):]
	if over := len(x.readWindow) + len(p) - size; over > 0 {
		x.readWindow = x.readWindow[:copy(x.readWindow, x.readWindow[over:])]
	}
	if need := len(x.readWindow) + len(p); need > cap(x.readWindow) { // 2^keeps at most
		grown := make([]byte, len(x.readWindow), min(max(need, 2*cap(x.readWindow)), size))
		copy(grown, x.readWindow)
		x.readWindow = grown
	}
	x.readWindow = append(x.readWindow, p...)
}
