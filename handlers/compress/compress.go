// Package compress compresses what handlers answer, whatever module they are of.
//
//	compression = { encodings = ["gzip"], level = 6 } # of a site or a route
//
// A program that builds its handlers itself puts the middleware around them:
//
//	policy, err := compress.Defaults.Policy()
//	if err != nil {
//		return err
//	}
//	h = compress.Middleware(policy)(h)
//
//	compress.go  settings
//	hook.go      the look at each response
//	etag.go      entity tags of encoded bodies
package compress

import (
	"slices"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/coding"
)

// Settings are the keys of [compression]. What a site or a route leaves out, it has from what it is
// in.
type Settings struct {
	// Encodings are those that clients may get, best first: zstd, br, gzip.
	Encodings []string `toml:"encodings"`
	// MinSize is of the shortest body to compress; 1KiB by default.
	MinSize *handlers.Size `toml:"min_size" min:"0B" max:"1GiB"`
	// Types are media types, with * for any; by default text, scripts, JSON, XML, and some fonts
	// and images.
	Types []string `toml:"types"`
	// Level is from 1, fast, to 9, small; 4 by default.
	Level *int `toml:"level" min:"1" max:"9"`
	// Cache is memory for files that were compressed before; 32MiB by default, 0B: none.
	Cache *handlers.Size `toml:"cache" min:"0B" max:"64GiB"`
}

// Defaults are the settings of a file that says nothing of compression.
var Defaults = Settings{
	Encodings: []string{"zstd", "br", "gzip"},
	MinSize:   new(handlers.Size(1 << 10)),
	Types: []string{"text/*", "*+json", "*+xml", "application/javascript", "application/json",
		"application/ld+json", "application/wasm", "application/x-javascript", "application/xml",
		"application/yaml", "application/toml", "application/vnd.ms-fontobject", "font/otf",
		"font/ttf", "font/collection", "image/bmp", "image/vnd.microsoft.icon", "image/x-icon",
		"model/gltf+json"},
	Level: new(4),
	Cache: new(handlers.Size(32 << 20)),
}

// Over returns s with the keys of base where s has none.
func (s Settings) Over(base Settings) Settings {
	if s.Encodings == nil {
		s.Encodings = base.Encodings
	}
	if s.MinSize == nil {
		s.MinSize = base.MinSize
	}
	if s.Types == nil {
		s.Types = base.Types
	}
	if s.Level == nil {
		s.Level = base.Level
	}
	if s.Cache == nil {
		s.Cache = base.Cache
	}
	return s
}

// Policy checks the settings, which must be complete. Errors are *handlers.KeyError. The Policy has
// no Cache, as several may share one.
func (s Settings) Policy() (*coding.Policy, error) {
	p := &coding.Policy{MinSize: int64(*s.MinSize), Level: *s.Level}
	if len(s.Encodings) == 0 {
		return nil, handlers.BadKey("encodings",
			"expected at least one; `compression = false` turns it off")
	}
	for _, name := range s.Encodings {
		c, ok := coding.Named(name)
		switch {
		case !ok || c == coding.Identity || name != c.String():
			return nil, handlers.BadKey("encodings", "expected zstd, br or gzip, not %q", name)
		case slices.Contains(p.Order, c):
			return nil, handlers.BadKey("encodings", "%s: named twice", name)
		}
		p.Order = append(p.Order, c)
	}
	types, bad, ok := coding.ParseTypes(s.Types)
	if !ok {
		return nil, handlers.BadKey("types",
			`expected a media type such as "text/css", "text/*" or "*+json", not %q`, bad)
	}
	p.Types = types
	return p, nil
}
