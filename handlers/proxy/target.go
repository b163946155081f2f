package proxy

import (
	"bytes"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Paths are the keys that change the path on its way to the upstream, and what the upstream says of
// its paths on the way back.
type Paths struct {
	StripPrefix   bool   `toml:"strip_prefix"`
	ReplacePrefix string `toml:"replace_prefix"`
	MergeSlashes  bool   `toml:"merge_slashes" default:"true"`

	MapBack         bool              `toml:"map_back" default:"true"`
	MapLocation     map[string]string `toml:"map_location"`
	MapCookiePath   map[string]string `toml:"map_cookie_path"`
	MapCookieDomain map[string]string `toml:"map_cookie_domain"`
}

// pathChange says how the target for the upstream differs from the client's.
type pathChange struct {
	cut     bool   // the route's prefix makes way for to
	to      []byte // encoded, without a slash at the end; empty: nothing
	slashes bool   // empty segments stay
}

// readPaths reads strip_prefix, replace_prefix and merge_slashes. The error is
// a *handlers.KeyError.
func (m *module) readPaths() error {
	set := &m.set.Paths
	m.path = pathChange{cut: set.StripPrefix, slashes: !set.MergeSlashes}
	to := set.ReplacePrefix
	if to == "" {
		return nil
	}
	clean, err := http1.CleanPath(nil, []byte(to))
	switch {
	case set.StripPrefix:
		return handlers.BadKey("replace_prefix",
			"is in place of strip_prefix; expected one of them")
	case err != nil || string(clean) != to || strings.ContainsAny(to, "?#"):
		return handlers.BadKey("replace_prefix",
			`expected a path without encodings, dots and empty segments, such as "/v1", not %q`, to)
	}
	m.path.cut = true
	m.path.to = http1.AppendPath(nil, []byte(strings.TrimSuffix(to, "/")))
	return nil
}

// appendTarget appends the request target: path and query as they go on
// (conn.RequestLayer.AppendTarget), but for the route's prefix, and without empty segments unless p
// keeps them. Where a prefix that is cut off leaves several slashes at the beginning, what follows
// goes on without empty segments in any case: many programs read a target such as "//b/c" as the
// name of a server, and of the empty segments of a path all are kept, or none, as the rules have
// judged it.
func appendTarget(out []byte, req *conn.Request, p *pathChange) []byte {
	l := req.Layer()
	return l.AppendQuery(p.append(out, l.SentPathView(), len(strings.TrimSuffix(req.Prefix(), "/"))))
}

// append is appendTarget for a path in the form of conn.RequestLayer.SentPathView, without a query;
// the route's prefix has n octets of it.
func (p *pathChange) append(out, sent []byte, n int) []byte {
	if !p.cut && p.slashes {
		return append(out, sent...)
	} else if !p.cut {
		return http1.AppendMerged(out, sent)
	}
	out = append(out, p.to...)
	from := len(out)
	if out = http1.AppendBelow(out, sent, n); len(out) == from && len(p.to) == 0 {
		out = append(out, '/')
	}
	below := out[from:]
	if !p.slashes || len(p.to) == 0 && bytes.HasPrefix(below, []byte("//")) {
		out = http1.AppendMerged(out[:from], below)
	}
	return out
}
