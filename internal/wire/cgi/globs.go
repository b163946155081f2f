package cgi

import (
	"fmt"
	"strings"

	"github.com/lwango/lwango/internal/base/glob"
)

// Globs choose names of scripts. The zero value chooses all of them. It does not change.
type Globs []globRule

type globRule struct {
	*glob.Glob
	out bool // what matches is taken out
}

// ParseGlobs reads patterns for the names of scripts. A pattern after "!" excludes names; if such a
// pattern is the first, all other names are included.
func ParseGlobs(patterns []string) (Globs, error) {
	if len(patterns) == 1 && patterns[0] == "/**" {
		return nil, nil // the default, which costs a request nothing
	}
	var all Globs
	for _, text := range patterns {
		pattern, out := strings.CutPrefix(text, "!")
		g, err := glob.Parse(pattern)
		switch {
		case err != nil && pattern == "":
			return nil, fmt.Errorf("%q: %w", text, err)
		case err != nil:
			return nil, err
		}
		all = append(all, globRule{g, out})
	}
	return all, nil
}

// Match reports whether name, which begins with a slash, is chosen: the last pattern that matches
// it decides. It needs little stack, since the stack of the request's thread does not shrink.
func (g Globs) Match(name string) bool {
	for i := len(g) - 1; i >= 0; i-- {
		if g[i].Glob.Match(name) {
			return !g[i].out
		}
	}
	return len(g) == 0 || g[0].out
}
