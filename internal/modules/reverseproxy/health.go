package reverseproxy

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/proxyproto"
)

// HealthRead is how much is read of the head of an answer, and then of its body, in bytes.
const HealthRead = 64 << 10

// checks reports whether health checks are configured.
func checks(h *upstreams.Health) bool { return h.Path != "" || h.Type == "tcp" }

// CheckDescriptors returns how many descriptors checks have at most, where the route's own
// addresses are these: one for each address. Those of an [[upstream]] are counted where it stands.
func CheckDescriptors(s *upstreams.Settings, own []string) int {
	if !checks(&s.Health) {
		return 0
	}
	if s.Upstream != "" {
		own = nil
	}
	return len(Addresses(s, own))
}

// check reads the key health. Route.Ping asks, and what has an influence on that is in PingID.
func (r *Route) check(s *upstream.Settings) error {
	h := &r.Health
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case h.Type == "tcp" && (h.Path != "" || h.Body != "" || h.Host != "" ||
		h.Status != defaults.Health.Status):
		return handlers.BadKey("health",
			`type = "tcp" asks for nothing: expected no path, status, body or host`)
	case !checks(h) && *h != defaults.Health:
		return handlers.BadKey("health", `expected a path, such as "/up"`)
	case !checks(h):
		return nil
	case h.Path != "" && (h.Path[0] != '/' || strings.ContainsFunc(h.Path, odd)):
		return handlers.BadKey("health",
			`path: expected one that begins with a slash, in ASCII without spaces, not %q`, h.Path)
	case h.Host != "" && !http1.ValidAuthority(h.Host):
		return handlers.BadKey("health", "host: expected a name, perhaps with a port, not %q", h.Host)
	}
	least, most, err := statuses(h.Status)
	if err != nil {
		return handlers.BadKey("health", "status: %w", err)
	}
	s.Check = &upstream.Check{
		ID:       fmt.Sprintf("%+v %q %s", *h, r.PingID, r.Header), // the endpoint says by which version
		Preface:  proxyproto.AppendLocal(nil, r.Header),
		Interval: h.Interval, Timeout: h.Timeout, Rises: h.Rises, Falls: h.Falls, Port: h.Port,
		Run: func(c net.Conn, name string) error {
			if h.Type == "tcp" {
				return nil
			}
			status, body, err := r.Ping(c, name)
			switch {
			case err != nil:
				return err
			case status < least || status > most:
				return fmt.Errorf("%s has status %d", h.Path, status)
			case !bytes.Contains(body, []byte(h.Body)):
				return fmt.Errorf("%s has no %q in its body", h.Path, h.Body)
			}
			return nil
		},
		ServerName: r.checkName(),
		Changed: func(name string, out bool, err error) {
			if out {
				r.report.Warn(r.Module+": upstream taken out", "upstream", name, "error", err)
			} else {
				r.report.Info(r.Module+": upstream works again", "upstream", name)
			}
		},
	}
	return nil
}

// checkName returns the name for TLS of checks, where each request has its own; "": the host of the
// address.
func (r *Route) checkName() string {
	name, _ := http1.SplitPort(r.Health.Host)
	return strings.Trim(name, "[]")
}

// Watch has the upstreams checked that the route has made, if there are checks, and files of TLS
// read again, once the module is built.
func (r *Route) Watch() {
	for _, g := range r.own {
		if g.Check != nil {
			r.Env.Background(g.Watch)
		}
		if g.HasFiles() {
			r.Env.Background(func(ctx context.Context) { g.WatchFiles(ctx, r.report) })
		}
	}
}

// statuses reads "200" or "200-399".
func statuses(text string) (least, most int, err error) {
	from, to, ranged := strings.Cut(text, "-")
	if !ranged {
		to = from
	}
	least, err = strconv.Atoi(from)
	if err == nil {
		most, err = strconv.Atoi(to)
	}
	if err != nil || least < 200 || most < least || most > 599 {
		err = fmt.Errorf(`expected one between 200 and 599, or a range as "200-399", not %q`, text)
	}
	return least, most, err
}
