package cache

import (
	"sync/atomic"
	"time"
)

// clock is what ages are measured by. It goes on as the kernel's monotonic clock does, so that what
// is kept gets no younger when the machine's clock is put back; and if that is put forward, or has
// gone on while the machine slept, the clock follows. So it need not show what the machine's clock
// does.
type clock struct {
	began  time.Time
	number int64        // no other process's clock has it
	ahead  atomic.Int64 // nanoseconds by which it is before began and the monotonic time since
	skew   atomic.Int64 // nanoseconds by which tests put this and the machine's clock forward
	jump   atomic.Int64 // the same for the machine's clock alone

	stopped atomic.Pointer[time.Time] // for tests, where both stand still; nil: they go on
}

// moment is t, unless the clocks stand still.
func (c *clock) moment(t time.Time) time.Time {
	if at := c.stopped.Load(); at != nil {
		return *at
	}
	return t
}

// follow is how far the machine's clock may be ahead before the clock follows: slewing is no jump.
const follow = time.Second

// at returns what the clock shows at t, which is from time.Now.
func (c *clock) at(t time.Time) time.Time {
	t = c.moment(t)
	own := c.began.Add(t.Sub(c.began))
	ahead := c.ahead.Load()
	if drift := t.UnixNano() + c.jump.Load() - own.UnixNano(); drift > ahead+int64(follow) {
		c.ahead.CompareAndSwap(ahead, drift)
		ahead = drift
	}
	return own.Add(time.Duration(ahead + c.skew.Load()))
}

// machine returns what the machine's clock shows at t.
func (c *clock) machine(t time.Time) time.Time {
	return c.moment(t).Add(time.Duration(c.skew.Load() + c.jump.Load()))
}

// fromMachine returns how much later the clock is than the machine's, now.
func (c *clock) fromMachine() time.Duration {
	t := time.Now()
	return time.Duration(c.at(t).UnixNano() - c.machine(t).UnixNano())
}
