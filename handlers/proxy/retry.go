package proxy

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/relay"
)

// retries is a set of what has a request sent to another upstream.
type retries uint8

const (
	onConnect retries = 1 << iota // no connection
	onCut                         // it has ended before a byte of the answer
	onTimeout                     // no such byte in time
	on502
	on503
	on504
)

// causes are the names of these, in this order.
var causes = []string{"connect", "cut", "timeout", "502", "503", "504"}

// retriesOf reads the key `retry`.
func retriesOf(names []string) (set retries, err error) {
	for _, name := range names {
		i := slices.Index(causes, name)
		if i < 0 {
			return 0, handlers.BadKey("retry", "expected some of %s, not %q",
				strings.Join(causes, ", "), name)
		}
		set |= 1 << i
	}
	return set, nil
}

// status reports whether an answer with that status is such a cause.
func (r retries) status(status int) bool {
	switch status {
	case http.StatusBadGateway:
		return r&on502 != 0
	case http.StatusServiceUnavailable:
		return r&on503 != 0
	case http.StatusGatewayTimeout:
		return r&on504 != 0
	}
	return false
}

// errNext says that the answer of one upstream has a status for which another one is asked, which
// the lease may try.
var errNext = errors.New("the status of the answer is one of retry")

// repeatable reports whether the request can be sent once more, though an upstream may have acted on
// it: its method says that this makes no difference (RFC 9110 section 9.2.2), its body is still
// there, and the client has got no byte.
func (c *call) repeatable() bool {
	return idempotent(c.req.Method()) && !(c.taken && c.unspooled) && !c.informed
}

// idempotent reports whether a request of that method may be repeated (RFC 9110 section 9.2.2).
func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// outlived reports that a kept connection has ended without an answer: the upstream may have closed
// it before the request was there, so it speaks against nobody.
func (c *call) outlived(err error) bool { return c.old && errors.Is(err, client.ErrCut) }

// again reports whether the call can make another attempt after that error, and gets ready for it.
//
// Once bytes were sent, the proxy cannot know whether the upstream has acted on them. So only
// requests that are repeatable are sent again, and only if no byte has come back, but for a status
// that has the upstream refuse: on a new connection if the first one was a kept one, and else to
// another upstream, if the configuration lets that be.
func (c *call) again(err error) bool {
	if c.stream == nil || !c.repeatable() { // Connect tries others itself
		return false
	}
	switch {
	case err == errNext:
	case c.x.Heard() || !relay.Silent(err, client.ErrCut):
		return false
	case c.outlived(err):
		c.renewed = true
	case errors.Is(err, client.ErrCut) && c.m.retry&onCut == 0,
		!errors.Is(err, client.ErrCut) && c.m.retry&onTimeout == 0,
		!c.up.Exclude():
		return false
	}
	if seeker, ok := c.body.(io.Seeker); ok {
		if _, err := seeker.Seek(0, io.SeekStart); err != nil {
			return false
		}
	}
	if !c.outlived(err) {
		args := []any{"request_id", c.req.ID(), "target", c.req.Target(), "upstream", c.up.Name()}
		if err == errNext {
			args = append(args, "status", c.x.Head.Status)
		} else {
			args = append(args, "error", err)
		}
		c.m.log.Warn("proxy: another upstream is asked", args...)
	}
	c.close()
	c.sent, c.lost, c.begun, c.pushed = false, false, time.Time{}, false
	return true
}
