package config

import "github.com/lwango/lwango/internal/base/settings"

// Set is a [set.NAME]: keys of sites, or of routes. It is checked where it is used.
type Set struct {
	// Sets are names of other sets, whose keys belong to this one, too.
	Sets []string       `toml:"set"`
	Rest settings.Table `toml:",rest"`
}

// takeSets gives the sites and routes of a file the keys of the sets that they use. What is no set,
// or not the name of one, is left to the decoder. It returns the sets that nothing uses.
func takeSets(f *settings.File) (unused []settings.Table) {
	s := sets{all: f.Root().Sub("set"), state: map[string]int{}}
	for _, site := range f.Root().Tables("site") {
		s.give(site)
		for _, route := range site.Tables("route") {
			s.give(route)
		}
	}
	for _, name := range s.all.Keys() {
		if set := s.all.Sub(name); s.state[name] == 0 {
			unused = append(unused, set)
			s.complete(name, set) // it may have errors, too
		}
	}
	return unused
}

// sets are the sets of a file. A set is complete once it has the keys of those that it names.
type sets struct {
	all   settings.Table
	state map[string]int // 0: not complete, 1: it is being completed, 2: it is complete
}

// give gives a table the keys of the sets that it names, and takes the names out of it.
func (s *sets) give(to settings.Table) {
	for _, name := range to.Texts("set") {
		if s.complete(name, to) {
			to.Inherit(s.all.Sub(name), "set")
		}
	}
	if to.Texts("set") != nil {
		to.Remove("set")
	}
}

// complete makes a set complete that the table at names. It reports to that what is wrong.
func (s *sets) complete(name string, at settings.Table) bool {
	switch {
	case len(s.all.Keys()) == 0:
		at.Errorf("set", "there is no [set.NAME] in this configuration")
		return false
	case !s.all.Has(name):
		at.Errorf("set", "%s", unknownName("[set.NAME]", name, s.all.Keys()))
		return false
	case s.state[name] == 1:
		at.Errorf("set", "%q is used by itself, perhaps through other sets", name)
		return false
	case s.state[name] == 0:
		s.state[name] = 1
		s.give(s.all.Sub(name))
		s.state[name] = 2
	}
	return true
}
