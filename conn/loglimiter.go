package conn

import (
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/loop"
)

// logLimiter limits lines of the log that clients can cause to one a minute.
type logLimiter struct{ next atomic.Int64 } // not before this, in nanoseconds since epoch

// now reports whether it is time for a line.
func (s *logLimiter) now(l *loop.Loop) bool {
	now, next := int64(l.Time().Sub(epoch)), s.next.Load()
	return now >= next && s.next.CompareAndSwap(next, now+int64(time.Minute))
}

// epoch is for times that count on while the system's clock is set.
var epoch = time.Now()
