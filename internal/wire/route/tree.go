package route

import (
	"bytes"
	"slices"
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
)

// Tree finds the pattern of a request. The zero value is an empty one. One goroutine at a time may
// call Add, and none once others call anything else; any number may call Find and Allowed at once.
type Tree struct {
	all   node             // of the patterns without a host
	hosts map[string]*node // of the others
}

// node is what patterns have in common up to a slash or the end of the path.
//
// Patterns that do not conflict are found most specific first if a literal is tried before a
// wildcard, and a wildcard before a rest: of two that match the same path, one has the narrower
// segment wherever they differ.
type node struct {
	literals map[string]*node
	wildcard *node
	rest     leaf
	end      leaf // {$}
	here     leaf // the pattern has no more segments
}

// leaf has the patterns with the same path: HEAD first, every method last.
type leaf []*Pattern

// Add puts a pattern into the tree, which has none that conflicts with it.
func (t *Tree) Add(p *Pattern) {
	n := &t.all
	if p.Host != "" {
		if n = t.hosts[p.Host]; n == nil {
			n = new(node)
			if t.hosts == nil {
				t.hosts = make(map[string]*node)
			}
			t.hosts[p.Host] = n
		}
	}
	for _, s := range p.segments {
		switch s.kind {
		case rest:
			n.rest.add(p)
			return
		case end:
			n.end.add(p)
			return
		case wildcard:
			if n.wildcard == nil {
				n.wildcard = new(node)
			}
			n = n.wildcard
		case literal:
			next := n.literals[s.text]
			if next == nil {
				next = new(node)
				if n.literals == nil {
					n.literals = make(map[string]*node)
				}
				n.literals[s.text] = next
			}
			n = next
		}
	}
	n.here.add(p)
}

func (l *leaf) add(p *Pattern) {
	*l = append(*l, p)
	rank := func(p *Pattern) int {
		switch p.Method {
		case "HEAD":
			return 0
		case "":
			return 2
		}
		return 1
	}
	slices.SortStableFunc(*l, func(a, b *Pattern) int { return rank(a) - rank(b) })
}

// of returns the pattern for a method, nil if there is none.
func (l leaf) of(method string) *Pattern {
	for _, p := range l {
		if p.Method == method || p.Method == "" || p.Method == "GET" && method == "HEAD" {
			return p
		}
	}
	return nil
}

// Find returns the most specific pattern for a request, nil if there is none. host is the
// request's, maybe with a port, and path is in the form of http1.SplitPath. values has the
// beginnings and ends of the parts of path that the named wildcards stand for, appended to dst, in
// the order of Names.
func (t *Tree) Find(method string, host, path []byte, dst [][2]uint32) (p *Pattern,
	values [][2]uint32) {
	if len(t.hosts) > 0 {
		if n := t.host(host); n != nil {
			if p, values = n.find(method, path, 0, false, dst); p != nil {
				return p, values
			}
		}
	}
	return t.all.find(method, path, 0, false, dst)
}

// Slashed returns the pattern to which a request is redirected that p was found for, or nothing if
// p is nil: one that matches path with a slash at its end exactly, while p does not match path
// exactly. It returns nil if there is none.
func (t *Tree) Slashed(method string, host, path []byte, p *Pattern) *Pattern {
	end := path[len(path)-1]
	if end == '/' || end == 0 || p != nil && p.exact(path) {
		return nil
	}
	if len(t.hosts) > 0 {
		if n := t.host(host); n != nil {
			if to, _ := n.find(method, path, 0, true, nil); to != nil {
				return to
			}
		}
	}
	if p != nil && p.Host != "" { // it matches the other path, too, before those of every host
		return nil
	}
	to, _ := t.all.find(method, path, 0, true, nil)
	return to
}

// exact reports whether no rest of p stands for a part of path that is not empty.
func (p *Pattern) exact(path []byte) bool {
	return p.last().kind != rest ||
		path[len(path)-1] == '/' && bytes.Count(path, slash) == len(p.segments)
}

var slash = []byte("/")

// find looks for the part of path from at on, which is empty or begins with a slash. With below, it
// looks for path with a slash added to it, and only for patterns that end there.
func (n *node) find(method string, path []byte, at int, below bool, values [][2]uint32) (*Pattern,
	[][2]uint32) {
	if at == len(path) && !below {
		return n.here.of(method), values
	}
	from := at + 1
	if at == len(path) || from == len(path) { // a slash, and nothing behind it
		if p := n.end.of(method); p != nil {
			return p, values
		}
		if p := n.rest.of(method); p != nil {
			return p, p.withRest(values, len(path), len(path))
		}
		return nil, values
	}
	to := len(path)
	if i := bytes.IndexByte(path[from:], '/'); i >= 0 {
		to = from + i
	}
	if len(n.literals) > 0 {
		if next := n.literals[string(path[from:to])]; next != nil {
			if p, found := next.find(method, path, to, below, values); p != nil {
				return p, found
			}
		}
	}
	if n.wildcard != nil {
		within := values
		if !below { // nothing is asked for the values
			within = append(values, [2]uint32{uint32(from), uint32(to)})
		}
		if p, found := n.wildcard.find(method, path, to, below, within); p != nil {
			return p, found
		}
	}
	if p := n.rest.of(method); p != nil && !below {
		return p, p.withRest(values, from, len(path))
	}
	return nil, values
}

// withRest appends the value of the last wildcard, if it has a name.
func (p *Pattern) withRest(values [][2]uint32, from, to int) [][2]uint32 {
	if p.last().name == "" {
		return values
	}
	return append(values, [2]uint32{uint32(from), uint32(to)})
}

// Allowed returns the value of an Allow field for a request that matches no pattern because of its
// method, and "" if it would match none with another method either.
func (t *Tree) Allowed(host, path []byte) string {
	var all []string
	if len(t.hosts) > 0 {
		if n := t.host(host); n != nil {
			all = n.allowed(path, 0, all)
		}
	}
	all = t.all.allowed(path, 0, all)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// allowed appends the methods of all patterns that match path, or path with a slash at its end.
func (n *node) allowed(path []byte, at int, all []string) []string {
	take := func(l leaf) {
		for _, p := range l {
			if all = append(all, p.Method); p.Method == "GET" {
				all = append(all, "HEAD")
			}
		}
	}
	from := at + 1
	if at == len(path) {
		take(n.here)
	}
	if from >= len(path) {
		take(n.end)
		take(n.rest)
		return all
	}
	to := len(path)
	if i := bytes.IndexByte(path[from:], '/'); i >= 0 {
		to = from + i
	}
	if next := n.literals[string(path[from:to])]; next != nil {
		all = next.allowed(path, to, all)
	}
	if n.wildcard != nil {
		all = n.wildcard.allowed(path, to, all)
	}
	take(n.rest)
	return all
}

// host returns the node of a request's host; nil: there is none. A dot at the end, the port and the
// case of letters make no difference.
func (t *Tree) host(host []byte) *node {
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	host = bytes.TrimSuffix(host, dot)
	var lowered [256]byte // more than DNS allows
	if len(host) > len(lowered) {
		return nil
	}
	name := lowered[:len(host)]
	for i := range name {
		name[i] = ascii.Lower(host[i])
	}
	return t.hosts[string(name)]
}

var dot = []byte(".")
