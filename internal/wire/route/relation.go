package route

import "fmt"

// relation is how the requests that one pattern matches relate to those of another.
type relation uint8

const (
	equal    relation = iota
	narrower          // some of the other's
	wider             // all of the other's, and more
	disjoint
	overlapping // each has some that the other has not
)

// Conflict returns an error that names both patterns, with their places, if there are requests that
// both match, and neither is more specific than the other. The method counts as well as the path: a
// pattern with a method is more specific than one for all methods, and GET, which stands for HEAD,
// less specific than HEAD. Patterns with a host come before those without one, and never conflict
// with them.
func Conflict(p, before *Pattern) error {
	if p.Host != before.Host {
		return nil
	}
	method := methods(p.Method, before.Method)
	if method == disjoint {
		return nil
	}
	path := paths(p.segments, before.segments)
	why := ""
	switch {
	case path == disjoint:
		return nil
	case path == equal && method == equal:
		why = "both match the same requests"
	case path == overlapping:
		why = "both match some paths, and neither is more specific"
	case path == narrower && method == wider:
		why = "the first has the more specific path, the second the more specific method"
	case path == wider && method == narrower:
		why = "the first has the more specific method, the second the more specific path"
	default:
		return nil
	}
	return fmt.Errorf("%s conflicts with %s: %s", p, before, why)
}

// String gives the pattern and its place.
func (p *Pattern) String() string {
	if p.Caller == "" {
		return fmt.Sprintf("%q", p.Text)
	}
	return fmt.Sprintf("%q (%s)", p.Text, p.Caller)
}

func methods(a, b string) relation {
	switch {
	case a == b:
		return equal
	case a == "", a == "GET" && b == "HEAD":
		return wider
	case b == "", b == "GET" && a == "HEAD":
		return narrower
	}
	return disjoint
}

// paths compares segment by segment, up to the end of the shorter one: a rest stands for all that
// the other has from there on.
func paths(a, b []segment) relation {
	all := equal
	for i := 0; ; i++ {
		switch {
		case i == len(a) && i == len(b):
			return all
		case i == len(a) || i == len(b):
			return disjoint // the shorter one has no rest, or it would have ended the loop
		}
		r := a[i].relation(b[i])
		switch {
		case r == disjoint:
			return disjoint
		case all == equal:
			all = r
		case r != equal && r != all:
			all = overlapping
		}
		if a[i].kind == rest || b[i].kind == rest {
			return all
		}
	}
}

// relation compares what two segments, and if one is a rest, what stands behind them, match.
func (s segment) relation(other segment) relation {
	switch {
	case s.kind == other.kind && (s.kind != literal || s.text == other.text):
		return equal
	case s.kind == rest:
		return wider
	case other.kind == rest:
		return narrower
	case s.kind == end, other.kind == end: // the other one needs a segment that is not empty
		return disjoint
	case s.kind == wildcard:
		return wider
	case other.kind == wildcard:
		return narrower
	}
	return disjoint
}
