package proxy

import (
	"bytes"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/placeholder"
)

// Paths are the keys that change the path on its way to the upstream, and what the upstream says of
// its paths on the way back.
type Paths struct {
	StripPrefix   bool   `toml:"strip_prefix"`
	ReplacePrefix string `toml:"replace_prefix"`
	MergeSlashes  bool   `toml:"merge_slashes"`

	MapBack         bool              `toml:"map_back"`
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

// readPaths reads strip_prefix, replace_prefix and merge_slashes. The error is a *handlers.KeyError.
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

// appendTarget appends the request target: path and query as the client has sent them, or a rule has
// written them. But if the path means another one once it is decoded and cleaned, as "/a/../b" and
// "/a%2F..%2Fb" do, it is the clean one that this server's routes and rules have seen, written anew.
// Otherwise a path could pass for one thing here and for another at the upstream. With p.slashes, a
// path that differs from the clean one by empty segments alone is as the client has sent it, but for
// slashes at the beginning: many programs read a target such as "//b/c" as the name of a server.
func appendTarget(out []byte, req *conn.Request, p *pathChange) []byte {
	raw, path := req.Layer().RawPathView(), req.Layer().PathView()
	if p.cut {
		n := len(strings.TrimSuffix(req.Prefix(), "/"))
		raw = bytes.TrimPrefix(raw, path[:n]) // or else raw means another path
		path = path[n:]
		if out = append(out, p.to...); len(path) == 0 && len(p.to) == 0 {
			path = []byte("/")
		}
	}
	for len(p.to) == 0 && len(raw) > 1 && raw[0] == '/' && raw[1] == '/' {
		raw = raw[1:]
	}
	if len(path) > 0 { // else what replaces the prefix is all of it
		out = placeholder.AppendPath(out, raw, path, p.slashes)
	}
	return placeholder.AppendQuery(out, req)
}
