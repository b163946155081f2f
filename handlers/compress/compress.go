// Package compress compresses what handlers answer, whatever module they are of.
//
//	compression = { encodings = ["gzip"], level = 6 } # of a site or a route
//
// A program that builds its handlers itself puts the middleware around them:
//
//	compressed, err := compress.Settings{Encodings: []string{"gzip"}}.Middleware()
//	if err != nil {
//		return err
//	}
//	h = compressed(h)
//
// Package internal/modules/compression does the work.
package compress

import (
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/modules/compression"
)

// Settings are the keys of [compression]. What a site or a route leaves out, it has from what it is
// in.
type Settings struct {
	// Encodings are those that clients may get, best first: zstd, br, gzip.
	Encodings []string `toml:"encodings" default:"zstd br gzip"`
	// MinSize is of the shortest body to compress; 1KiB by default.
	MinSize *handlers.Size `toml:"min_size" min:"0B" max:"1GiB" default:"1KiB"`
	// Types are media types, with * for any; by default text, scripts, JSON, XML, and some fonts
	// and images.
	Types []string `toml:"types" default:"text/* *+json *+xml application/javascript application/json application/ld+json application/wasm application/x-javascript application/xml application/yaml application/toml application/vnd.ms-fontobject font/otf font/ttf font/collection image/bmp image/vnd.microsoft.icon image/x-icon model/gltf+json"`
	// Level is from 1, fast, to 9, small; 4 by default.
	Level *int `toml:"level" min:"1" max:"9" default:"4"`
	// Cache is memory for files that were compressed before; 32MiB by default, 0B: none.
	Cache *handlers.Size `toml:"cache" min:"0B" max:"64GiB" default:"32MiB"`
}

// Defaults are the settings of a file that says nothing of compression.
var Defaults = tags.Defaults[Settings]()

// Over returns s with the keys of base where s has none.
func (s Settings) Over(base Settings) Settings { return tags.Or(s, base) }

// Middleware compresses by the settings. A key that is not set has its default. Errors are
// *handlers.KeyError. Files are encoded for each request: what keeps them is the server.
func (s Settings) Middleware() (handlers.Middleware, error) {
	s = s.Over(Defaults)
	p, err := compression.Policy(s.Encodings, *s.MinSize, s.Types, *s.Level)
	if err != nil {
		return nil, err
	}
	return compression.Middleware(p), nil
}
