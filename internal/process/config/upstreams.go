package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/process/tcpproxy"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Upstream is an [[upstream]]: addresses that several routes use together. Their modules have its
// keys, too, with the defaults that these have.
type Upstream struct {
	Table settings.Table `toml:",table"`
	// Name is what routes use it by: upstream = "app".
	Name string `toml:"name"`
	// Address is where it listens; several addresses share the requests.
	Address []string `toml:"address"`

	upstreams.Shared `toml:",inline"`

	// TLS is how TLS is spoken with it.
	TLS upstreams.TLS `toml:"tls"`
	// ProxyProtocol is which header of the PROXY protocol it gets.
	ProxyProtocol string `toml:"proxy_protocol" oneof:"v1 v2"`
	// Version is that of HTTP.
	Version string `toml:"version" oneof:"1.1 2" default:"1.1"`
	// KeepConn is whether connections of FastCGI are kept.
	KeepConn bool `toml:"keep_conn"`
	// MaxIdle is how many idle connections are kept for each address.
	MaxIdle int `toml:"max_idle" min:"0" default:"1024"`
	// IdleTimeout is for how long.
	IdleTimeout time.Duration `toml:"idle_timeout" min:"1ms" default:"1m"`
	// KeepaliveTime is the age at which a connection is closed.
	KeepaliveTime time.Duration `toml:"keepalive_time" min:"-1" default:"1h"`
	// KeepaliveRequests is the number of requests after which it is closed.
	KeepaliveRequests int `toml:"keepalive_requests" min:"-1" default:"10000"`

	shared   *around.Shared
	protocol string // the module, or "stream", of the first route that uses it; "": none does
	first    string // where that stands
	counted  bool   // the descriptors of its checks are
}

// ofRoutes are the keys of an Upstream that a route may have itself, and then its own count.
var ofRoutes = []string{"fail_status", "send_timeout", "read_timeout"}

// upstreamKeys are the keys of an [[upstream]] but its name.
var upstreamKeys = slices.DeleteFunc(settings.Keys(new(Upstream)),
	func(key string) bool { return key == "name" })

// checkUpstreams checks the tables [[upstream]] on their own, before routes use them.
func (c *Config) checkUpstreams(s Source) {
	for i := range c.Named {
		u := &c.Named[i]
		switch other := c.upstream(u.Name); {
		case u.Name == "":
			u.Table.Errorf("name", "missing: what routes use it by")
		case !http1.ValidToken(u.Name):
			u.Table.Errorf("name", "expected a word, such as \"app\", not %q", u.Name)
		case other != u:
			u.Table.Errorf("name", "%q: another [[upstream]] has that name (%s)", u.Name,
				other.Table.Position("name"))
		}
		if len(u.Address) == 0 {
			u.Table.Errorf("address", `missing: where it listens, such as "127.0.0.1:9001"`)
		}
		u.shared = &around.Shared{Table: u.Table, Log: s.Logger.With("named", u.Name)}
	}
}

// upstream returns the first upstream of that name, or nil.
func (c *Config) upstream(name string) *Upstream {
	for i := range c.Named {
		if u := &c.Named[i]; u.Name == name {
			return u
		}
	}
	return nil
}

// Shared implements around.Process.
func (t routeNotes) Shared(name string) *around.Shared {
	if u := t.upstream(name); u != nil && name != "" {
		return u.shared
	}
	return nil
}

// uses returns the upstream that a route's key names. protocol is the route's module. It returns
// nil, and has reported why, if the route cannot use it.
func (c *Config) uses(route settings.Table, name, protocol string) *Upstream {
	u := c.upstream(name)
	if u == nil || name == "" {
		var names []string
		for _, other := range c.Named {
			names = append(names, other.Name)
		}
		if len(names) == 0 {
			route.Errorf("upstream", "there is no [[upstream]] in this configuration")
		} else {
			route.Errorf("upstream", "%s", unknownName("[[upstream]]", name, names))
		}
		return nil
	}
	if u.protocol == "" {
		u.protocol, u.first = protocol, route.Position("upstream")
	}
	if u.protocol != protocol {
		route.Errorf("upstream", "%q is one of %s (%s), and an upstream speaks one protocol", name,
			u.protocol, u.first)
		return nil
	}
	wrong := len(u.Address) == 0 // which is reported
	for _, key := range upstreamKeys {
		switch {
		case !route.Has(key):
			route.Disregard(key) // it is the upstream's
		case !slices.Contains(ofRoutes, key):
			route.Errorf(key, "belongs to the [[upstream]] %q, which the route uses (%s)", name,
				u.Table.Position(""))
			wrong = true
		}
	}
	if wrong {
		return nil
	}
	return u
}

// usesUpstream is what the settings of a module with the key upstream have.
type usesUpstream interface {
	UpstreamName() string
	UseUpstream(name string)
}

// useUpstream fills the settings of a route with those of the upstream that it uses. It reports
// whether they can be used.
func (c *Config) useUpstream(r *Route, plan *builtRoute) bool {
	user, ok := plan.settings.(usesUpstream)
	if !ok || !r.Rest.Has("upstream") {
		return true
	}
	if text := user.UpstreamName(); strings.Contains(text, "{") {
		return c.chooseUpstream(r, plan, text)
	}
	return c.fillUpstream(r, plan.settings, user.UpstreamName())
}

// choice is the upstreams of a route among which a text chooses for each request.
type choice struct {
	text      placeholder.Text
	upstreams []*Upstream
	settings  []any // of the route's module, with each of them
}

// chooseUpstream is useUpstream where the key is a text with placeholders. What it may stand for is
// known, so that no request can name an address.
func (c *Config) chooseUpstream(r *Route, plan *builtRoute, text string) bool {
	names, err := c.values.Values(text)
	if err != nil {
		r.Rest.Errorf("upstream", "%v", err)
		return false
	}
	if r.Rest.Has("split") { // each of the handlers would report its upstreams
		r.Rest.Errorf("split", "the route's upstream is chosen by %q: let a map split", text)
		return false
	}
	chosen, usable := new(choice), true
	chosen.text, _ = c.values.Parse(text)
	for _, name := range names {
		if name == "" {
			r.Rest.Errorf("upstream", "%q may stand for nothing: a map without a value for all other "+
				"texts needs a default", text)
			return false
		}
		set := plan.module.NewSettings()
		r.Rest.Decode(set)
		set.(usesUpstream).UseUpstream(name)
		switch {
		case c.fillUpstream(r, set, name):
		case c.upstream(name) == nil:
			usable = false // and the others are used all the same
			continue
		default:
			return false
		}
		chosen.upstreams = append(chosen.upstreams, r.upstream)
		chosen.settings = append(chosen.settings, set)
	}
	if r.upstream = nil; usable {
		r.chosen, plan.settings = chosen, chosen.settings[0]
	}
	return usable
}

// build makes a handler for each upstream, by f, and returns the one that chooses among them.
// depends is what the last handler's answers depend on, and then those of all.
func (x *choice) build(r *Route, depends *handlers.Dependence,
	f func(set any) (conn.Handler, error)) (conn.Handler, error) {
	all := handlers.Dependence{Words: []string{"the upstream that is chosen"}}
	by, parts := make(map[string]conn.Handler), make(map[string]handlers.Dependence)
	for i, u := range x.upstreams {
		r.upstream, *depends = u, handlers.Dependence{}
		h, err := f(x.settings[i])
		if err != nil {
			return nil, err
		}
		for _, words := range depends.Words {
			if !slices.Contains(all.Words, words) {
				all.Words = append(all.Words, words)
			}
		}
		by[u.Name], parts[u.Name] = h, *depends
		all.Clients = all.Clients || depends.Clients
		all.Cookie, all.Sets = cmp.Or(all.Cookie, depends.Cookie), depends.Sets
	}
	all.AppendKey = func(dst []byte, req *conn.Request) []byte {
		from := len(dst)
		dst = placeholder.Append(dst, req, x.text)
		if f := parts[string(dst[from:])].AppendKey; f != nil {
			dst = f(append(dst, 0), req)
		}
		return dst
	}
	r.upstream, *depends = nil, all
	return func(req *conn.Request, resp *conn.Response) int {
		var space [64]byte
		return by[string(placeholder.Append(space[:0], req, x.text))](req, resp)
	}, nil
}

// fillUpstream fills the settings of a route with those of the upstream of that name.
func (c *Config) fillUpstream(r *Route, set any, name string) bool {
	u := c.uses(r.Rest, name, r.Module)
	if u == nil {
		return false
	}
	keys := slices.DeleteFunc(slices.Clone(upstreamKeys),
		func(key string) bool { return r.Rest.Has(key) })
	for _, key := range u.Table.Fill(set, keys) {
		u.Table.Errorf(key, "the module %s, whose route uses it (%s), has no such key", r.Module,
			u.first)
	}
	if !u.counted && (u.Health.Path != "" || u.Health.Type == "tcp") {
		u.counted, c.Descriptors = true, c.Descriptors+len(u.Address)
	}
	r.upstream = u
	return !u.Table.Refused()
}

// useStreamUpstream fills a route of a [[stream]] with what the upstream says that it uses. It
// reports whether the route can be built.
func (c *Config) useStreamUpstream(r *tcpproxy.Route) bool {
	if !r.Table.Has("upstream") {
		return true
	}
	u := c.uses(r.Table, r.Upstream, "stream")
	if u == nil {
		return false
	}
	for _, key := range u.Table.Fill(r, slices.DeleteFunc(slices.Clone(upstreamKeys),
		func(key string) bool { return key == "health" })) {
		u.Table.Errorf(key, "a [[stream]], whose route uses it (%s), has no such key",
			u.first)
	}
	switch h := u.Health; {
	case !u.Table.Has("health"):
		u.Table.Disregard("health")
	case h.Type != "tcp" || h.Path != "":
		u.Table.Errorf("health", `a [[stream]], whose route uses it (%s), has checks with type = "tcp"`,
			u.first)
	default:
		r.Health = tcpproxy.Health{Interval: h.Interval, Timeout: h.Timeout, Rises: h.Rises,
			Falls: h.Falls}
	}
	r.Shared = u.shared
	return !u.Table.Refused()
}

// reportUpstreams adds the upstreams that several routes use to those that are reported, and warns
// of those that none uses.
func (c *Config) reportUpstreams() {
	for i := range c.Named {
		u := &c.Named[i]
		if u.protocol == "" {
			c.logger.Warn("no route uses an upstream", "name", u.Name, "at", u.Table.Position(""))
		}
		if u.shared.Group != nil {
			c.Upstreams = append(c.Upstreams, Upstreams{RouteName{Site: "upstream " + u.Name},
				u.shared.Group})
		}
	}
}

// String describes the upstream for -u.
func (u *Upstream) String() string {
	return fmt.Sprintf("%s, of %d addresses, %s", u.Name, len(u.Address), u.Balance)
}
