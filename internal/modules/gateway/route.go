package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/cgi"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Route is what the requests of a route have in common. It does not change once it is open.
type Route struct {
	reverseproxy.Route
	set    *upstreams.Gateway
	params []cgi.Field
	texts  placeholder.Text // the placeholders of all params
	others bool             // some are not cgi.Own
}

// Open opens the route of a module with its upstreams. more has the addresses; it, missing and
// accel are those of reverseproxy.Route.Open. Errors are *handlers.KeyError.
func (r *Route) Open(module string, s *upstreams.Gateway, env handlers.Env, p *upstream.Pool,
	more upstream.Settings, missing error, accel reverseproxy.Accel) error {
	r.set, r.Settings, r.Module, r.Env = s, &s.Settings, module, env
	r.Log = env.Log()
	r.Idempotent, r.Exclusive = idempotent, upstream.Fresh
	r.NeedsLength = true
	if err := r.Route.Open(p, more, missing, accel); err != nil {
		return err
	}
	if err := r.readParams(); err != nil {
		return err
	}
	r.depend()
	return reverseproxy.FieldNames("trusted_fields", s.TrustedFields)
}

// readParams reads the key of that name.
func (r *Route) readParams() error {
	r.params = make([]cgi.Field, 0, len(r.set.Params))
	for name, value := range r.set.Params {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return handlers.BadKey("params",
				"%q: expected a name without =, and a name and value without NUL", name)
		}
		if name == "CONTENT_LENGTH" || name == "REQUEST_METHOD" {
			// If these are not the request's, PHP waits for a body that does not come, or drops
			// one.
			return handlers.BadKey("params", "%s is always the request's own", name)
		}
		text, err := around.Of(r.Env).Maps.ParseBeside(value, nil)
		if err != nil {
			return handlers.BadKey("params", "%s: %w", name, err)
		}
		for _, p := range text {
			if p.Name != "" {
				r.texts = append(r.texts, p)
				r.others = r.others || !slices.Contains(cgi.Own, p.Name)
			}
		}
		r.params = append(r.params, cgi.Field{Name: name, Value: value})
	}
	slices.SortFunc(r.params, func(a, b cgi.Field) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// depend declares what the route's answers depend on, for a cache in front.
func (r *Route) depend() {
	fields := make(map[string]handlers.FieldSource) // by the name of a parameter
	for _, p := range r.params {
		text, _ := around.Of(r.Env).Maps.ParseBeside(p.Value, nil)
		fields[p.Name] = reverseproxy.Source(text.Reads())
	}
	r.Depend("params", r.texts, func(name string) handlers.FieldSource {
		from, ok := fields["HTTP_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))]
		switch {
		case ok:
			return from
		case http1.SameVariable(name, "Host"):
			return handlers.FromURL
		case http1.SameVariable(name, conn.RequestIDField):
			return handlers.FromServer
		}
		return handlers.FromClient
	})
}

// software is SERVER_SOFTWARE.
const software = "lwango"

// Fix makes the parameters that are the same for all requests of the route, see cgi.Fix.
func (r *Route) Fix(f cgi.Format, root string) *cgi.Fixed {
	var others []string
	for _, p := range r.texts {
		if !slices.Contains(cgi.Own, p.Name) {
			others = append(others, p.Name)
		}
	}
	return cgi.Fix(f, root, software, r.params, others...)
}

// idempotent reports whether a request of that method may be sent twice, and so on an idle
// connection, which the application may end at the same moment. For others it would be unknown
// whether the script has run.
func idempotent(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}
