// Package compression compresses answers, for handlers/compress and serve_files:
//
//	p, err := compression.Policy(encodings, minSize, types, level)
//	if err != nil {
//		return err
//	}
//	h = compression.Middleware(p)(h)
//
//	policy.go  from the keys of a file to a Policy
//	hook.go    the hook that decides about a response
//	etag.go    entity tags of encoded bodies
package compression

import (
	"slices"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/content/coding"
)

// Policy checks the keys of [compression] and makes a Policy of them. Errors
// are *handlers.KeyError. The Policy has no Cache, as several may share one.
func Policy(encodings []string, minSize handlers.Size, types []string,
	level int) (*coding.Policy, error) {
	p := &coding.Policy{MinSize: int64(minSize), Level: level}
	if len(encodings) == 0 {
		return nil, handlers.BadKey("encodings",
			"expected at least one; `compression = false` turns it off")
	}
	for _, name := range encodings {
		c, ok := coding.Named(name)
		switch {
		case !ok || c == coding.Identity || name != c.String():
			return nil, handlers.BadKey("encodings", "expected zstd, br or gzip, not %q", name)
		case slices.Contains(p.Order, c):
			return nil, handlers.BadKey("encodings", "%s: named twice", name)
		}
		p.Order = append(p.Order, c)
	}
	var bad string
	var ok bool
	p.Types, bad, ok = coding.ParseTypes(types)
	if !ok {
		return nil, handlers.BadKey("types",
			`expected a media type such as "text/css", "text/*" or "*+json", not %q`, bad)
	}
	return p, nil
}
