package rules

import (
	"fmt"
	"strings"

	"github.com/lwango/lwango/internal/wire/http1"
)

// Outcome is where the rules leave a request.
type Outcome int

// Values of Outcome.
const (
	Passed  Outcome = iota // to what comes behind the rules
	Ended                  // denied, or sent elsewhere
	Changed                // rewritten
)

// Explain says, by calls of say, what each rule does with a request and why: the first condition
// that does not hold, or what the rule does. A rewritten request has its new path in q. What auth
// and limit would answer is not known: they are named, and the request passes them. Explain may ask
// a disk, so it is not for a loop.
func (s *Set) Explain(q *Sample, say func(string)) Outcome {
	for i := range s.rules {
		r := &s.rules[i]
		sayf := func(format string, args ...any) {
			say(r.name + ": " + fmt.Sprintf(format, args...))
		}
		if c, err := r.fails(q); err != nil {
			sayf("%s: %v", c.key(), err)
			return Ended
		} else if c != nil {
			sayf("not for this request: %s wants %s, %s", c.key(), c.wants(), c.found(q, q.PathView()))
			continue
		}
		because := r.because(q)
		if r.asks != "" {
			sayf("%s%s", r.asks, because)
			if because = ""; !r.ends() && r.actions == "" {
				continue
			}
		}
		switch {
		case r.redirect != nil:
			location, ok := r.location(q)
			if !ok {
				sayf("answers 400, because {host} is needed%s", because)
				return Ended
			}
			if location == "" {
				sayf("redirects nowhere, as its text stands for nothing%s", because)
				continue
			}
			sayf("redirects with %d to %s%s", r.status, location, because)
		case r.rewrite != nil:
			target, ok := r.target(q)
			switch {
			case !ok:
				sayf("answers 400, because no path can be made%s", because)
				return Ended
			case target == nowhere:
				sayf("does not rewrite, as its text stands for nothing%s", because)
				continue
			case target == "":
				sayf("rewrites to what the request is already%s", because)
				return Passed
			}
			sayf("rewrites to %s%s", target, because)
			raw, query, _ := strings.Cut(target, "?")
			path, _ := http1.CleanPath(nil, []byte(raw))
			q.Path, q.Raw, q.Query = string(path), raw, query
			return Changed
		default:
			sayf("%s%s", r.actions, because)
		}
		if r.ends() {
			return Ended
		}
	}
	return Passed
}

// because lists the conditions, which all hold.
func (r *rule) because(q Asked) string {
	if len(r.conditions) == 0 {
		return " (it has no conditions)"
	}
	var all []string
	path := r.reading(q).Path
	for _, c := range r.conditions {
		all = append(all, fmt.Sprintf("%s wants %s, %s", c.key(), c.wants(), c.found(q, path)))
	}
	return " (" + strings.Join(all, "; ") + ")"
}
