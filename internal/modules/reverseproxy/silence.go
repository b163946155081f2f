package reverseproxy

import (
	"fmt"
	"time"

	"github.com/lwango/lwango/loop"
)

// Timeout is the error of a round trip on which nothing has moved for the time that a key sets. It
// is a loop.ErrDeadlineExceeded.
type Timeout struct {
	Key       string
	After     time.Duration
	BothSides bool // the client could have sent bytes as well
}

func (e Timeout) Error() string {
	what := "the upstream has sent nothing for "
	switch {
	case e.BothSides:
		what = "neither the client nor the upstream has sent anything for "
	case e.Key == "send_timeout":
		what = "the upstream has taken nothing for "
	}
	return fmt.Sprintf("%s%s (%v)", what, e.Key, e.After)
}

func (e Timeout) Unwrap() error { return loop.ErrDeadlineExceeded }

// BothMaySend is called when the head of the answer has come. If the client still sends its
// request, both may be silent from now on: which of them has something to say is their own affair.
// What ends a silence of both is read_timeout.
func (c *Call) BothMaySend() {
	if c.Unspooled {
		c.Req.Body().SetTimeout(-1)
	}
}

// SincePing returns how much of limit there still is since a PING of HTTP/2 has come: one of the
// upstream, at that time of the loop's clock (0: none has), or, with both, one of the client. Who
// has keep-alive pings sent wants a silent connection to last. 0 or less: nothing is left.
func (c *Call) SincePing(limit, upstream time.Duration, both bool) time.Duration {
	last := upstream
	if both {
		last = max(last, c.Req.Layer().LastPing())
	}
	if last == 0 {
		return 0
	}
	l := c.Req.Thread.Loop()
	return last + limit - l.Layer().Clock(l.Time())
}
