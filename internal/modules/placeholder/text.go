package placeholder

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lwango/lwango/internal/wire/template"
)

// Text is literal text and placeholders in turn, at least one piece. It does not change.
type Text []Piece

// Piece is literal text or, where it has a name, a placeholder.
type Piece struct {
	Text, Name string

	kind  kind
	group int    // of an expression, from 1 on; 0: none
	of    string // the name behind "field." and the like
	m     *table // of a [[map]]; nil: none
}

// Literal reports whether t has no placeholders.
func (t Text) Literal() bool { return len(t) == 1 && t[0].Name == "" }

// HasGroups reports whether t has what an expression has matched.
func (t Text) HasGroups() bool {
	return slices.ContainsFunc(t, func(p Piece) bool { return p.group > 0 })
}

// Reads returns the names of the parts of a request that the text depends on, those that its maps
// look at as well.
func (t Text) Reads() (names []string) {
	for _, p := range t {
		names = append(names, p.Reads()...)
	}
	return names
}

// Reads returns what a Text of the piece alone would.
func (p Piece) Reads() []string {
	switch {
	case p.m != nil:
		return p.m.reads
	case p.Name == "" || p.group > 0:
		return nil
	}
	return []string{p.Name}
}

// Parse reads a text. It refuses a variable of nginx, which would go out as it stands. m may be
// nil: there are no maps.
func (m *Maps) Parse(text string) (Text, error) { return m.ParseGroups(text, nil) }

// ParseGroups is Parse for a text that also has the groups of an expression, whose names go before
// others.
func (m *Maps) ParseGroups(text string, groups []string) (Text, error) {
	t, err := m.ParseBeside(text, groups)
	if variable := template.Variable(text); err == nil && variable != "" {
		err = fmt.Errorf("%q: unknown placeholder %s (known: %s)", text, variable,
			template.List(m.known(groups)))
	}
	return t, err
}

// ParseBeside is Parse for a text that also has placeholders of other names, which go before those
// that all texts have, and for which Append appends nothing.
func (m *Maps) ParseBeside(text string, others []string) (Text, error) {
	pieces, err := template.Parse(text, m.known(others))
	if err != nil {
		return nil, err
	}
	t := make(Text, len(pieces))
	for i, p := range pieces {
		t[i] = m.piece(p, others)
	}
	return t, nil
}

// Values returns all texts that a text may stand for, sorted. It is for what has to be known at the
// start, so it refuses a text with a part of a request, whether that stands in the text or in the
// value of a map.
func (m *Maps) Values(text string) ([]string, error) {
	t, err := m.Parse(text)
	if err != nil {
		return nil, err
	}
	all, err := t.values(make(map[*table][]string))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return all, nil
}

// maxValues is how many texts Values returns at most.
const maxValues = 10000

// values returns what Values does. known are those of maps.
func (t Text) values(known map[*table][]string) ([]string, error) {
	all := []string{""}
	for _, p := range t {
		of := []string{p.Text}
		switch {
		case p.m != nil:
			var err error
			if of, err = p.m.values(known); err != nil {
				return nil, err
			}
		case p.Name != "":
			return nil, fmt.Errorf("{%s} is a part of a request; expected maps, whose values are known",
				p.Name)
		}
		if len(all)*len(of) > maxValues {
			return nil, fmt.Errorf("it has more than %d values", maxValues)
		}
		next := make([]string, 0, len(all)*len(of))
		for _, begin := range all {
			for _, end := range of {
				next = append(next, begin+end)
			}
		}
		all = next
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// values returns the values that the map may have.
func (t *table) values(known map[*table][]string) ([]string, error) {
	if all, ok := known[t]; ok {
		return all, nil
	}
	all := make(map[string]bool)
	for _, r := range t.results() {
		if r.text == nil {
			all[r.source] = true
			continue
		}
		of, err := r.text.values(known)
		if err != nil {
			return nil, fmt.Errorf("%q, a value of {%s}: %w", r.source, t.name, err)
		}
		for _, value := range of {
			all[value] = true
		}
	}
	known[t] = slices.Sorted(maps.Keys(all))
	return known[t], nil
}

// Names returns the names of all placeholders, those of the maps as well.
func (m *Maps) Names() []string { return m.known(nil) }

// known returns the names of all placeholders.
func (m *Maps) known(others []string) []string {
	known := slices.Concat(others, Names)
	if m != nil {
		known = append(known, m.names...)
	}
	return slices.DeleteFunc(known, func(name string) bool { return name == "" })
}

func (m *Maps) piece(p template.Piece, others []string) Piece {
	out := Piece{Text: p.Text, Name: p.Name}
	if p.Name == "" {
		return out
	}
	if i := slices.Index(others, p.Name); i >= 0 {
		out.group = i + 1
		return out
	}
	if m != nil {
		if out.m = m.by[p.Name]; out.m != nil {
			return out
		}
	}
	out.kind = kinds[p.Name]
	if family, name, ok := strings.Cut(p.Name, "."); ok {
		out.kind, out.of = families[family], name
	}
	return out
}
