package reverseproxy

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// retryCauses is a set of causes for which a request is sent once more.
type retryCauses uint8

const (
	onConnect   retryCauses = 1 << iota // no connection
	onCut                               // it has ended before the first byte of the answer
	onTimeout                           // no first byte in time
	onMalformed                         // bytes have come, and no head
)

var (
	// causeNames are the names of retryCauses, in their order.
	causeNames = []string{"connect", "cut", "timeout", "malformed"}

	// retryStatuses are those of answers for which a request may go to another upstream.
	retryStatuses = []string{"403", "404", "429", "500", "502", "503", "504"}
)

// readRetry reads the keys `retry`, `retry_tries` and `retry_time`.
func (r *Route) readRetry() error {
	for _, name := range r.Retry {
		if i := slices.Index(causeNames, name); i >= 0 {
			r.causes |= 1 << i
			continue
		}
		if !slices.Contains(retryStatuses, name) {
			return handlers.BadKey("retry", "expected some of %s, not %q",
				strings.Join(slices.Concat(causeNames, retryStatuses), ", "), name)
		}
		status, _ := strconv.Atoi(name)
		r.retried = append(r.retried, status)
	}
	return cmp.Or(NotZero("retry_tries", r.RetryTries), NotZero("retry_time", r.RetryTime))
}

// RetryStatus is the error of a round trip whose answer has this status, after which another
// upstream is tried. The lease may try one.
type RetryStatus int

func (n RetryStatus) Error() string { return "the answer has status " + strconv.Itoa(int(n)) }

// Repeatable reports whether the request can be sent once more, though an upstream may have acted
// on it: its method says that this makes no difference, its body is still there, and the client has
// got no byte.
func (c *Call) Repeatable() bool { return c.Idempotent(c.Req.Method()) && c.canResend() }

// canResend reports that body and client allow the request to be sent once more.
func (c *Call) canResend() bool { return !(c.taken && c.Unspooled) && !c.SentInterim }

// isTimeoutOrCut reports that the upstream has caused err: it has closed the connection, or no byte
// has moved there for too long. A client that takes nothing for too long has abandoned the call.
func isTimeoutOrCut(err error) bool {
	return !abandoned(err) && (errors.Is(err, upstream.ErrCut) ||
		errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errBody))
}

// upstreamFailed reports that err, before the head of an answer was complete, is the upstream's
// fault: it has sent nothing, an incomplete answer, or a malformed one.
func (c *Call) upstreamFailed(err error) bool {
	switch {
	case upstream.Refused(err), !c.GotFirstByte && c.closedEarly(err):
		return false
	case isTimeoutOrCut(err):
		return true
	}
	return c.GotFirstByte && statusOf(err) == http.StatusBadGateway && !abandoned(err)
}

// abandoned reports that the client has ended the call.
func abandoned(err error) bool {
	return errors.Is(err, loop.ErrClientGone) || errors.Is(err, loop.ErrCanceled) ||
		errors.Is(err, ErrClient)
}

// closedEarly reports that an idle connection has ended without an answer: the upstream may have
// closed it before the request arrived, so it is nobody's fault.
func (c *Call) closedEarly(err error) bool { return c.reused && errors.Is(err, upstream.ErrCut) }

// again reports whether the call can make another attempt after that error, and gets ready for it.
//
// Once bytes were sent, nothing tells whether the upstream has acted on them. So only requests that
// are repeatable are sent again, and only if no byte has come back, but for a status in `retry`,
// and for an answer without a head if that lists such answers: on a new connection if the first one
// was an idle one, and else to another upstream, if the configuration lets that be; or else, with
// try_for, once more to the same ones, if the connection was cut or the request refused. Where the
// upstream has certainly not acted on the request (HTTP/2), that holds for all requests, as it does
// while there is no connection.
func (c *Call) again(err error) bool {
	cut, refused := errors.Is(err, upstream.ErrCut), upstream.Refused(err)
	_, next := err.(RetryStatus)
	if c.Up.Connected() && c.closedEarly(err) && !c.GotFirstByte {
		c.Up.NoteClosedEarly()
	}
	switch {
	case !c.Up.Connected(), // Connect tries others itself
		!c.Repeatable() && !(refused && c.canResend()):
		return false
	case refused && c.GotFirstByte:
		return false
	case refused && !c.needsFresh:
		c.needsFresh = true
	case refused:
		if c.causes&onConnect == 0 || !c.Up.Exclude() && !c.Up.Resend() {
			return false
		}
	case next:
	case c.GotFirstByte && c.causes&onMalformed != 0 && c.Status == 0 && c.upstreamFailed(err):
		if !c.Up.Exclude() {
			return false
		}
	case c.GotFirstByte || !isTimeoutOrCut(err):
		return false
	case c.closedEarly(err):
		c.needsFresh = true
	case cut && c.causes&onCut == 0, !cut && c.causes&onTimeout == 0,
		!c.Up.Exclude() && !(cut && c.Up.Resend()):
		return false
	}
	if seeker, ok := c.Body.(io.Seeker); ok {
		if _, err := seeker.Seek(0, io.SeekStart); err != nil {
			return false
		}
	}
	if !c.closedEarly(err) && !refused {
		c.Log.Warn(c.Module+": another upstream is asked", "request_id", c.Req.ID(), "target",
			c.Req.Target(), "upstream", c.Up.Name(), "error", err)
	}
	c.Close()
	c.GotFirstByte = false
	return true
}
