package config

import "github.com/lwango/lwango/internal/base/settings"

// Set is a [set.NAME]: keys of sites, or of routes. It is checked where it is used.
type Set struct {
	// Sets are names of other sets, whose keys belong to this one, too.
	Sets []string       `toml:"set"`
	Rest settings.Table `toml:",rest"`
}

// Keys whose values are lists of tables, which may be written as a table if there is one.
var (
	listsOfSites  = []string{"rule", "route", "tls"}
	listsOfRoutes = []string{"rule", "split"}
)

// takeSets gives the sites and routes of a file the keys of the sets that they use. What is no set,
// or not the name of one, is left to the decoder. It returns the sets that nothing uses.
func takeSets(f *settings.File) (unused []settings.Table) {
	s := sets{all: f.Root().Sub("set"), used: map[string]bool{}}
	for _, site := range f.Root().Tables("site") {
		s.give(site, listsOfSites)
		for _, route := range site.Tables("route") {
			s.give(route, listsOfRoutes)
		}
	}
	for _, name := range s.all.Keys() {
		if set := s.all.Sub(name); !s.used[name] {
			unused = append(unused, set)
			s.walk(name, set, true, map[string]bool{}, func(settings.Table) {}) // it may have errors, too
		}
	}
	return unused
}

// sets are the sets of a file.
type sets struct {
	all  settings.Table
	used map[string]bool // sets that were walked, and whose errors were reported
}

// give gives a table the keys of the sets that it names, each set once, and takes the names out of
// it.
func (s *sets) give(to settings.Table, lists []string) {
	names, walked := to.Texts("set"), map[string]bool{}
	for _, name := range names {
		s.walk(name, to, true, walked, func(set settings.Table) { to.Inherit(set, lists, "set") })
	}
	if names != nil {
		to.Remove("set")
	}
}

// walk calls take for a set that the table at names, and then for those that the set names. walked
// has those that take has got; false: those that they name are still to come. With report, it
// reports to at what is wrong.
func (s *sets) walk(name string, at settings.Table, report bool, walked map[string]bool,
	take func(set settings.Table)) {
	done, there := walked[name]
	wrong := func(format string, args ...any) {
		if report {
			at.Errorf("set", format, args...)
		}
	}
	switch {
	case len(s.all.Keys()) == 0:
		wrong("there is no [set.NAME] in this configuration")
	case !s.all.Has(name):
		wrong("%s", unknownName("[set.NAME]", name, s.all.Keys()))
	case there && !done:
		wrong("%q is used by itself, perhaps through other sets", name)
	case !there:
		first, set := !s.used[name], s.all.Sub(name)
		s.used[name], walked[name] = true, false
		take(set)
		for _, inner := range set.Texts("set") {
			s.walk(inner, set, first, walked, take)
		}
		walked[name] = true
	}
}
