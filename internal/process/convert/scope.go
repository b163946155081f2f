package convert

import "slices"

// scope is a block, within those around it. A directive of nginx holds in inner blocks unless these
// have some of the same name; then nothing of the outer ones does.
type scope struct {
	outer *scope // nil: none
	block []*directive

	places map[string][]int // by name, the indexes in block; nil: not yet made
}

func (s *scope) inner(d *directive) *scope { return &scope{outer: s, block: d.block} }

// own returns the directives of the block itself that have one of the names, in order.
func (s *scope) own(names ...string) (all []*directive) {
	if s == nil {
		return nil
	}
	if s.places == nil {
		s.places = make(map[string][]int)
		for i, d := range s.block {
			s.places[d.name] = append(s.places[d.name], i)
		}
	}
	var at []int
	for _, name := range names {
		at = append(at, s.places[name]...)
	}
	slices.Sort(at)
	for _, i := range at {
		all = append(all, s.block[i])
	}
	return all
}

// find returns the directives that hold in the block: its own, or those of the next block around it
// that has any of one of the names. They count as carried over.
func (s *scope) find(names ...string) []*directive {
	for ; s != nil; s = s.outer {
		if all := s.own(names...); len(all) > 0 {
			for _, d := range all {
				d.done = true
			}
			return all
		}
	}
	return nil
}

// last returns the directive of that name that holds in the block; nil: none.
func (s *scope) last(name string) *directive {
	if all := s.find(name); len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// value returns the first argument of the directive that holds, or "".
func (s *scope) value(name string) string {
	if d := s.last(name); d != nil {
		return d.arg(0)
	}
	return ""
}

// on reports whether a directive that is on or off is on.
func (s *scope) on(name string) bool { return s.value(name) == "on" }

// has reports whether the block itself has one of these directives.
func (s *scope) has(names ...string) bool { return len(s.own(names...)) > 0 }

// take returns the block's own directives of the names, which then count as carried over.
func (s *scope) take(names ...string) []*directive {
	all := s.own(names...)
	for _, d := range all {
		d.done = true
	}
	return all
}
