package rules

import "github.com/lwango/lwango/handlers"

// When is conditions for what is no rule: all must be true, and none of Not.
type When struct {
	Conditions `toml:",inline"`
	// Not are conditions none of which may be true.
	Not Conditions `toml:"not"`
}

// Match is a When made ready. It does not change.
type Match struct{ rule rule }

// Compile makes a Match. An error is a *handlers.KeyError. `exists` is not for it: a disk would
// have to be asked.
func (w When) Compile() (*Match, error) {
	var c compiler
	if len(w.Exists)+len(w.Not.Exists) > 0 {
		return nil, handlers.BadKey("exists", "is for rules alone")
	}
	m := new(Match)
	m.rule.conditions, _ = c.allConditions(&w.Conditions, &w.Not, nil)
	if len(c.errs) > 0 {
		return nil, c.errs[0]
	}
	if len(m.rule.conditions) == 0 {
		return nil, handlers.BadKey("", "has no conditions, and so would be true of all requests")
	}
	return m, nil
}

// Holds reports whether the conditions are true of a request. Of a path with encoded slashes it is
// enough that they are in one of its readings.
func (m *Match) Holds(q Asked) bool {
	failed, _ := m.rule.fails(q)
	return failed == nil
}

// Why says in words why the conditions hold, of a request of which they do.
func (m *Match) Why(q Asked) string { return m.rule.because(q)[1:] }
