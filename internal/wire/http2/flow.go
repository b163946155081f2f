package http2

import "sync/atomic"

// Inflow is a window for content of the peer (section 5.2). It is announced by halves, so that a
// frame does not follow each read. Where the other half is full of what nobody reads, it is
// announced by sixteenths, so that this holds up nobody else.
type Inflow struct {
	Size     int64 // how much the peer may send before something is read,
	Credit   int64 // and how much it may still send
	returned int64 // what was read of that and not announced yet
}

// Came counts n bytes that have come, and reports whether the peer might send as many.
func (f *Inflow) Came(n int64) bool {
	f.Credit -= n
	return f.Credit >= 0
}

// Return gives back n bytes that were read, and makes the window larger by more. It returns how
// much is to be announced, 0 while that can wait.
func (f *Inflow) Return(n, more int64) int64 {
	f.returned += n
	n = f.returned + more
	if n < f.Size/2 && (f.Credit >= f.Size/4 || n < f.Size/16 && f.Credit > 0) {
		return 0
	}
	f.returned = 0
	f.Size += more
	f.Credit += n
	return n
}

// Grow makes the window larger by n bytes, which are to be announced, and returns them.
func (f *Inflow) Grow(n int64) int64 {
	f.Size += n
	f.Credit += n
	return n
}

// Shrink makes the window smaller by n bytes that were read and that are not returned.
func (f *Inflow) Shrink(n int64) { f.Size -= n }

// growth is by how much all windows of a Growth may grow.
const growth = 64 << 20

// Growth is by how much windows have grown that have their bound together. Any goroutine may use
// it.
type Growth struct{ taken atomic.Int64 }

// Take takes n bytes if that is no more than a quarter of what is left, so that a few fast peers
// leave some for others. It reports whether it has.
func (g *Growth) Take(n int64) bool { return g.TakeMore(0, n) }

// TakeMore is Take for one who has taken so much already, and may have no more than a quarter in
// all.
func (g *Growth) TakeMore(has, n int64) bool {
	for {
		taken := g.taken.Load()
		if has+n > (growth-taken+has)/4 {
			return false
		}
		if g.taken.CompareAndSwap(taken, taken+n) {
			return true
		}
	}
}

// Give gives n bytes back.
func (g *Growth) Give(n int64) { g.taken.Add(-n) }

// Taken returns by how much windows have grown.
func (g *Growth) Taken() int64 { return g.taken.Load() }
