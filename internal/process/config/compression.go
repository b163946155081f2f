package config

import (
	"errors"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/compress"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/modules/compression"
)

// Compression is the value of `compression`, at the top of the file, in a site or in a route:
// a table, true or false. A table stands for true.
type Compression struct {
	Table settings.Table `toml:",table"`
	On    *bool          `toml:",switch"`

	compress.Settings `toml:",inline" default:"-"`
}

// scope is the compression for the whole file, a site or a route.
type scope struct {
	compress.Settings
	policy *coding.Policy // nil: it is off
	cache  *coding.Cache  // of all that set no other; nil: none
}

// within makes the scope of c, which may be nil. Unset keys of c come from outer.
func (c *Compression) within(outer scope) scope {
	if c == nil {
		return outer
	}
	inner := scope{Settings: c.Settings.Over(outer.Settings), cache: outer.cache}
	if c.Settings.Cache != nil {
		inner.cache = coding.NewCache(int64(*c.Settings.Cache))
	}
	if c.On != nil && !*c.On {
		return inner
	}
	var err error
	inner.policy, err = compression.Policy(inner.Encodings, *inner.MinSize, inner.Types, *inner.Level)
	// A bad value of outer was reported there.
	if ke, ok := errors.AsType[*handlers.KeyError](err); ok && c.Table.Has(ke.Key) {
		reportAt(c.Table, "", err)
	}
	if inner.policy != nil {
		inner.policy.Cache = inner.cache
	}
	return inner
}
