package reverseproxy

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/http1"
)

// defaults distinguish set keys of a route from unset ones.
var defaults = tags.Defaults[upstreams.Settings]()

// Route has the common state of a route's requests. It does not change once it is open.
type Route struct {
	*upstreams.Settings
	Module string // its name, at the beginning of lines of the log
	Env    handlers.Env
	Log    *slog.Logger

	// Idempotent reports whether a request of that method may be sent twice (RFC 9110 section 9.2.2).
	// One that may not wants an Alone connection.
	Idempotent  func(method string) bool
	Exclusive   upstream.Want
	NeedsLength bool // a body's length must be known before an upstream is asked

	// Ping asks the named upstream on a new connection for Health.Path, and returns the status of the
	// answer, and the beginning of its body. PingID is what it depends on besides.
	Ping   func(c net.Conn, name string) (status int, body []byte, err error)
	PingID string

	// Header is the version of the PROXY protocol for upstreams; "": none.
	Header string

	name *key // for TLS, set by Security; nil: all requests have the same

	// Set by Open.
	cookies *stickyCookie     // nil: none
	key     *key              // for balance; nil: none
	Group   *upstream.Group   // of the requests that split has not
	own     []*upstream.Group // those that no other route has made
	report  *slog.Logger      // of what happens to upstreams
	split   *split            // nil: it has none
	causes  retryCauses
	retried []int // statuses in retry
	accel   Accel

	intercepted []statusRange
}

// Open makes the route's group of the pool that all routes share. more has the settings that only
// the module knows. missing is the error of a route without an address, nil if it needs none. accel
// is that of the keys accel_root and accel_redirect. Errors are *handlers.KeyError.
func (r *Route) Open(p *upstream.Pool, more upstream.Settings, missing error,
	accel Accel) (err error) {
	s := r.Settings
	more.Dir = r.Env.Dir
	r.report = r.Log
	shared := around.Of(r.Env).Shared(s.Upstream)
	switch {
	case shared != nil:
		r.report = shared.Log
	case s.Upstream != "":
		return handlers.BadKey("upstream", "there is no [[upstream]] %q", s.Upstream)
	}
	if err := r.balance(&more); err != nil {
		return err
	}
	if err := r.sticky(&more); err != nil {
		return err
	}
	if err := r.readFailing(&more); err != nil {
		return err
	}
	if err := r.readRetry(); err != nil {
		return err
	}
	if err := r.check(&more); err != nil {
		return err
	}
	if more.Source, err = upstream.ParseSource(s.Source); err != nil {
		return &handlers.KeyError{Key: "source", Err: err}
	}
	more.MaxConns, more.MaxQueue, more.QueueTimeout = s.MaxConns, s.MaxQueue, s.QueueTimeout
	more.ConnectTimeout = s.ConnectTimeout
	more.ConnectFailed = func(name string, err error) {
		r.report.Warn(r.Module+": upstream not reached", "upstream", name, "error", err)
	}
	if err := r.openGroup(p, more, missing, shared); err != nil {
		return &handlers.KeyError{Key: "address", Err: err}
	}
	if err := r.readIntercept(); err != nil {
		return err
	}
	if err := FieldNames("hide_header", s.HideHeader); err != nil {
		return err
	}
	r.accel = accel
	return r.openSplit(p, more)
}

// openGroup makes the route's group, or takes that of shared, if a route before has made it.
func (r *Route) openGroup(p *upstream.Pool, more upstream.Settings, missing error,
	shared *around.Shared) (err error) {
	if shared != nil && shared.Group != nil {
		r.Group = shared.Group
		return nil
	}
	switch r.Group, err = p.Group(more); {
	case err != nil || missing == nil:
	case len(more.Addresses) == 0:
		err = missing
	case r.Group.Primaries() == 0:
		err = errors.New("every address is a backup")
	}
	if err != nil {
		return err
	}
	r.own = append(r.own, r.Group)
	if shared != nil {
		shared.Group = r.Group
	} else {
		around.Of(r.Env).Upstreams(r.Group)
	}
	return nil
}

// Hides reports whether hide_header includes a name.
func (r *Route) Hides(name string) bool {
	for _, hidden := range r.HideHeader {
		if ascii.EqualFold(name, hidden) {
			return true
		}
	}
	return false
}

// NotZero refuses 0 for a limit that is set by default: -1 is none. The error is a
// *handlers.KeyError.
func NotZero[V int | time.Duration](key string, v V) error {
	if v != 0 {
		return nil
	}
	return handlers.BadKey(key, "must be above 0, or -1, which is none")
}

// FieldNames checks the header fields that a key names. The error is a *handlers.KeyError.
func FieldNames(key string, names []string) error {
	for _, name := range names {
		if !http1.ValidToken(name) {
			return handlers.BadKey(key, "expected the name of a header field, not %q", name)
		}
	}
	return nil
}

// Traces reports whether the method is TRACE, which is refused with status 405: from the answer a
// page's script could read what the browser hides from it (RFC 9110 section 9.3.8).
func Traces(req *conn.Request, resp *conn.Response) bool {
	if req.Method() != http.MethodTrace {
		return false
	}
	resp.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	return true
}
