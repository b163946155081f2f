package http2

import "sync/atomic"

// Inflow is a window for content of the peer (section 5.2). It is announced by halves, so that a frame
// does not follow each read.
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

// Return gives back n bytes that were read, and makes the window larger by more. It returns how much is
// to be announced, 0 while that is less than half of the window.
func (f *Inflow) Return(n, more int64) int64 {
	f.returned += n
	n = f.returned + more
	if n < f.Size/2 {
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

// growth is by how much all windows of a Growth may grow.
const growth = 64 << 20

// Growth is by how much windows have grown that have their bound together. Any goroutine may use it.
type Growth struct{ taken atomic.Int64 }

// Take takes n bytes if that is no more than a quarter of what is left, so that a few fast peers leave
// some for others. It reports whether it has.
func (g *Growth) Take(n int64) bool {
	for {
		taken := g.taken.Load()
		if n > (growth-taken)/4 {
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

// Flood counts frames of no use in a row.
type Flood struct {
	useless int   // below 0: so many more are no flood
	since   int64 // the second when their count began
}

const (
	maxUseless = 1000    // frames of no use in a row, within a minute,
	maxUpdates = 1 << 20 // besides the updates of windows that content gives reason for
)

// count counts a frame, until Useful says better of it. It reports false if it is one too many.
func (f *Flood) count(now int64) bool {
	if now-f.since >= 60 {
		f.useless, f.since = min(f.useless, 0), now // a peer that pings every second is not a flood
	}
	f.useless++
	return f.useless <= maxUseless
}

// Useful says that the last frame was of use.
func (f *Flood) Useful() { f.useless = min(f.useless, 0) }

// Forgive does not count the last frame.
func (f *Flood) Forgive() { f.useless-- }

// sent allows for the frames by which the peer announces that it has read n bytes, on both windows and
// perhaps in small pieces.
func (f *Flood) sent(n int) { f.useless = max(f.useless-2-n>>9, -maxUpdates) }
