package reverseproxy

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/modules/around"
)

// statusRange is from one status to another one, both included.
type statusRange struct{ least, most int }

// readIntercept reads intercept_statuses. The error is a *handlers.KeyError.
func (r *Route) readIntercept() error {
	const key = "intercept_statuses"
	if r.InterceptErrors && r.InterceptStatuses != nil {
		return handlers.BadKey(key, "is in place of intercept_errors, which is for all errors")
	}
	for _, text := range r.InterceptStatuses {
		from, to, ranged := strings.Cut(text, "-")
		if !ranged {
			to = from
		}
		least, err := strconv.ParseUint(from, 10, 16) // which takes no sign
		most, err2 := strconv.ParseUint(to, 10, 16)
		if err != nil || err2 != nil || least < 400 || most < least || most > 599 {
			return handlers.BadKey(key,
				`expected statuses between 400 and 599, such as "404" or "500-599", not %q`, text)
		}
		r.intercepted = append(r.intercepted, statusRange{int(least), int(most)})
	}
	return nil
}

// Intercepts reports whether a page of the site replaces an answer with that status. Of the
// answer's fields, the client then gets those that BelongsToStatus reports.
func (r *Route) Intercepts(status int) bool {
	if !r.InterceptErrors && !r.chosen(status) {
		return false
	}
	return around.Of(r.Env).Intercepts(status)
}

func (r *Route) chosen(status int) bool {
	for _, s := range r.intercepted {
		if s.least <= status && status <= s.most {
			return true
		}
	}
	return false
}

// BelongsToStatus reports the fields that belong to a status, and not to the replaced page: those
// that a client needs to act on the status (RFC 9110 sections 15.5.2, 15.5.6, 10.2.3, 15.5.17,
// 15.5.22), and its cookies, by which a login that has failed ends the session.
func BelongsToStatus(status int, name string) bool {
	switch {
	case ascii.EqualFold(name, "WWW-Authenticate"), ascii.EqualFold(name, "Allow"),
		ascii.EqualFold(name, "Retry-After"), ascii.EqualFold(name, "Set-Cookie"):
		return true
	case ascii.EqualFold(name, "Content-Range"):
		return status == http.StatusRequestedRangeNotSatisfiable
	case ascii.EqualFold(name, "Upgrade"):
		return status == http.StatusUpgradeRequired
	}
	return false
}
