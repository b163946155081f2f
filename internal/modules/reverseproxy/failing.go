package reverseproxy

import (
	"net/http"
	"slices"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/upstream"
)

// readFailing reads the keys about addresses that do not work.
func (r *Route) readFailing(s *upstream.Settings) error {
	s.MaxFails, s.FailTimeout, s.TryFor, s.SlowStart = r.MaxFails, r.FailTimeout, r.TryFor, r.SlowStart
	if err := NotZero("max_fails", r.MaxFails); err != nil {
		return err
	}
	for _, status := range r.FailStatus {
		if status < 400 || status > 599 {
			return handlers.BadKey("fail_status", "expected statuses between 400 and 599, not %d", status)
		}
	}
	if r.SlowStart > 0 && s.Balance == upstream.Hash {
		return handlers.BadKey("slow_start", "it has no effect with balance = %q", r.Settings.Balance)
	}
	c := r.Circuit
	if c.Errors == 0 {
		if c != defaults.Circuit {
			return handlers.BadKey("circuit", "missing: errors, the share of requests in percent")
		}
		return nil
	}
	s.Circuit = &upstream.Circuit{Percent: c.Errors, Least: c.Requests, Window: c.Window, Open: c.Open,
		Changed: func(name string, open bool, failed, requests int) {
			if open {
				r.report.Warn(r.Module+": upstream gets no requests, too many have failed", "upstream", name,
					"failed", failed, "requests", requests, "open", c.Open)
			} else {
				r.report.Info(r.Module+": upstream gets requests again", "upstream", name)
			}
		}}
	return nil
}

// Fails reports whether fail_status includes a status.
func (r *Route) Fails(status int) bool { return slices.Contains(r.FailStatus, status) }

// NoteStatus notes, by the status of an answer, whether the upstream works. On a background
// subrequest it tells the access log of the upstream at once, since the client's line takes that
// from the subrequest before the subrequest is over. The error, a RetryStatus, is that another
// upstream is to be asked.
func (c *Call) NoteStatus(status int) error {
	if c.Req.Layer().IsBackground() {
		c.LogUpstream()
	}
	again := status >= http.StatusForbidden && slices.Contains(c.retried, status)
	// An upstream that does not have a page, or does not let a client have it, is in order.
	refused := status == http.StatusForbidden || status == http.StatusNotFound
	if c.Fails(status) || again && !refused {
		c.Up.NoteFailure()
	} else {
		c.Up.NoteSuccess()
	}
	if again && c.Repeatable() && c.Up.Exclude() {
		return RetryStatus(status)
	}
	return nil
}
