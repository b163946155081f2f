package http2

import "sync/atomic"

// Inflow is the flow-control window for content of the peer (RFC 9113 section 5.2). Half of it at a
// time is announced, so that not every read is followed by a frame. Where the other half is full of
// content that nobody reads, a sixteenth at a time is announced, so that the other streams go on.
type Inflow struct {
	Size        int64 // how much the peer may send before something is read
	Window      int64 // how much it may still send
	unannounced int64 // what was read of that, and not announced yet
}

// Received counts n bytes that have arrived, and reports whether the window allowed them.
func (f *Inflow) Received(n int64) bool {
	f.Window -= n
	return f.Window >= 0
}

// Return gives back n bytes that were read, and makes the window larger by more bytes. It returns
// how much is to be announced, 0 while the announcement can wait.
func (f *Inflow) Return(n, more int64) int64 {
	f.unannounced += n
	n = f.unannounced + more
	if n < f.Size/2 && (f.Window >= f.Size/4 || n < f.Size/16 && f.Window > 0) {
		return 0
	}
	f.unannounced = 0
	f.Size += more
	f.Window += n
	return n
}

// Grow makes the window larger by n bytes, which are to be announced, and returns them.
func (f *Inflow) Grow(n int64) int64 {
	f.Size += n
	f.Window += n
	return n
}

// Shrink makes the window smaller by n bytes, which were read and are not returned.
func (f *Inflow) Shrink(n int64) { f.Size -= n }

// windowBudget is by how many bytes all windows of a WindowBudget together may grow.
const windowBudget = 64 << 20

// WindowBudget bounds by how much windows grow together. Any goroutine may use it.
type WindowBudget struct{ taken atomic.Int64 }

// Take takes n bytes if they are no more than a quarter of what is left, so that a few fast peers
// leave some for others. It reports whether it has taken them.
func (g *WindowBudget) Take(n int64) bool { return g.TakeMore(0, n) }

// TakeMore is Take for a peer that has taken some bytes already, and gets no more than a quarter in
// all.
func (g *WindowBudget) TakeMore(has, n int64) bool {
	for {
		taken := g.taken.Load()
		if has+n > (windowBudget-taken+has)/4 {
			return false
		}
		if g.taken.CompareAndSwap(taken, taken+n) {
			return true
		}
	}
}

// Give gives n bytes back.
func (g *WindowBudget) Give(n int64) { g.taken.Add(-n) }

// Taken returns by how much windows have grown.
func (g *WindowBudget) Taken() int64 { return g.taken.Load() }
