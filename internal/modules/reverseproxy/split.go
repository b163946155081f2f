package reverseproxy

import (
	"errors"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/http1"
)

// split is the entries of a route.
type split struct {
	by     *key
	groups []splitGroup
}

type splitGroup struct {
	*upstreams.Split
	upto float64 // the end of its part of 0 to 100; it begins where that of the one before ends
	*upstream.Group
}

// openSplit makes the groups of split, with the settings of the route's own. It sets r.split, which
// is nil where there are none. Errors are *handlers.KeyError.
func (r *Route) openSplit(p *upstream.Pool, more upstream.Settings) (err error) {
	set := r.Settings.Split
	if len(set) == 0 {
		if r.SplitBy != defaults.SplitBy {
			return handlers.BadKey("split_by", "it has no effect without split")
		}
		return nil
	}
	s := &split{}
	if s.by, err = r.parseKey("split_by", r.SplitBy); err != nil {
		return err
	}
	sum := 0.0
	taken := slices.Clone(more.Addresses)
	for i := range set {
		e := &set[i]
		sum += e.Share
		switch {
		case !http1.ValidToken(e.Name):
			return handlers.BadKey("split", "name: expected a word, such as \"beta\", not %q", e.Name)
		case slices.ContainsFunc(set[:i], func(other upstreams.Split) bool {
			return other.Name == e.Name
		}):
			return handlers.BadKey("split", "%s: named twice", e.Name)
		case !(e.Share >= 0 && e.Share <= 100):
			return handlers.BadKey("split", "%s: share: expected percent between 0 and 100, not %v", e.Name,
				e.Share)
		case sum > 100+1e-9:
			return handlers.BadKey("split", "the shares are %v percent together; expected 100 at most", sum)
		case e.Share == 0 && len(e.Cookie)+len(e.Header) == 0:
			return handlers.BadKey("split", "%s: expected a share, or values of a cookie or a field", e.Name)
		case len(e.Address) == 0:
			return handlers.BadKey("split", "%s: address: missing", e.Name)
		}
		for name, value := range e.Cookie {
			if !http1.ValidToken(name) {
				return handlers.BadKey("split", "%s: cookie: expected the name of one, not %q", e.Name, name)
			}
			if value == "" {
				return handlers.BadKey("split", "%s: cookie: %s: expected a value", e.Name, name)
			}
		}
		for name := range e.Header {
			if !http1.ValidToken(name) {
				return handlers.BadKey("split", "%s: header: expected the name of a field, not %q", e.Name,
					name)
			}
		}
		for _, a := range e.Address {
			at := bareAddress(a)
			if slices.ContainsFunc(taken, func(other string) bool { return bareAddress(other) == at }) {
				return handlers.BadKey("split", "%s: address: %s: named twice", e.Name, at)
			}
		}
		taken = append(taken, e.Address...)
		own := more
		own.Addresses = e.Address
		g, err := p.Group(own)
		if err == nil && g.Primaries() == 0 {
			err = errors.New("every address is a backup")
		}
		if err != nil {
			return handlers.BadKey("split", "%s: address: %w", e.Name, err)
		}
		around.Of(r.Env).Upstreams(g)
		r.own = append(r.own, g)
		s.groups = append(s.groups, splitGroup{e, sum, g})
	}
	r.split = s
	return nil
}

// bareAddress returns an address without its options.
func bareAddress(address string) string {
	bare, _, _ := strings.Cut(strings.TrimSpace(address), " ")
	return bare
}

// choose returns the group for a request, and the name of its entry; nil: that of the route.
func (s *split) choose(req *conn.Request) (*upstream.Group, string) {
	for i := range s.groups {
		if e := &s.groups[i]; named(e.Split, req) {
			return e.Group, e.Name
		}
	}
	h := s.by.of(req)
	if h == 0 {
		return nil, ""
	}
	at := upstream.Fraction(h) * 100
	for i := range s.groups {
		if e := &s.groups[i]; at < e.upto {
			return e.Group, e.Name
		}
	}
	return nil, ""
}

// named reports whether a cookie or a field of the request selects the entry.
func named(s *upstreams.Split, req *conn.Request) bool {
	for name, value := range s.Cookie {
		if string(placeholder.Cookie(req, name)) == value {
			return true
		}
	}
	for name, value := range s.Header {
		if have, ok := req.Layer().HeaderView(name); ok && string(have) == value {
			return true
		}
	}
	return false
}

// Addresses returns all addresses of a route: those of its key address, and those of split.
func Addresses(s *upstreams.Settings, own []string) []string {
	all := slices.Clone(own)
	for _, e := range s.Split {
		all = append(all, e.Address...)
	}
	return all
}

// Secure reports whether one of the addresses speaks TLS.
func (r *Route) Secure() bool {
	return r.Group.Secure() || r.split != nil &&
		slices.ContainsFunc(r.split.groups, func(g splitGroup) bool { return g.Group.Secure() })
}
