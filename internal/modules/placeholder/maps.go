package placeholder

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/template"
)

// Settings are the keys of a [[map]]: a placeholder whose value follows from a text.
type Settings struct {
	// Name is the name of the placeholder: {name} in any text.
	Name string `toml:"name"`
	// From is the text that is looked up, with placeholders; by default "{address}" for networks and
	// split.
	From string `toml:"from"`
	// Values are the values by text; "*.a" is for what ends at ".a", and "a*" for what begins with
	// "a".
	Values map[string]string `toml:"values"`
	// Regexps are tried in order where no text of values is found.
	Regexps []Regexp `toml:"regexps"`
	// Networks are the values by the network of an address; the smallest one wins.
	Networks map[string]string `toml:"networks"`
	// Split is percents by value: which one it is follows from a hash of the text.
	Split map[string]float64 `toml:"split"`
	// Default is the value for all other texts.
	Default string `toml:"default"`
}

// Regexp is an expression with the value for the texts that it matches.
type Regexp struct {
	// Regexp is the expression.
	Regexp string `toml:"regexp"`
	// Value is the value, with the groups of the expression as placeholders.
	Value string `toml:"value"`
}

// Maps has the tables [[map]] of a configuration. They do not change.
type Maps struct {
	by    map[string]*table
	names []string // in the order of the configuration

	mu        sync.Mutex
	addresses map[addressKey]*Address // that were parsed: many sites may have the same ones
}

// Error is what is wrong with a map.
type Error struct {
	Map int    // its index
	Key string // as it stands in the file, such as "values.a"
	Err error
}

// Error gives the map, counted from 1, the key and the cause.
func (e *Error) Error() string { return fmt.Sprintf("map %d: %s: %v", e.Map+1, e.Key, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// maxLookups is how many maps a value may need, together with those of its own texts.
const maxLookups = 64

// table is a map made ready.
type table struct {
	name     string
	index    int // in the configuration
	from     Text
	folds    bool // {host} is in from, which is looked up in small letters
	fallback *result

	exact    map[string]*result
	ends     affixes
	begins   affixes
	regexps  []pattern
	networks *networks.Map[*result]
	split    []share

	lookup func(out []byte, q Asked) []byte // append

	needs   int      // lookups of a value
	reads   []string // the parts of a request that the map depends on, once each
	visited bool     // needs and reads are known
}

// result is a value of a map: a text, mostly a literal one.
type result struct {
	text   Text   // nil: literal is all
	source string // as it was configured
	groups []string
}

type pattern struct {
	re     *regexp.Regexp
	value  *result
	groups bool // the value has groups of it
}

// share is a part of a split, which ends at upto of 0 to 1.
type share struct {
	upto  float64
	value *result
}

// affixes are values by the beginnings, or ends, of texts. It looks once for each length that there
// is, the longest first.
type affixes struct {
	of      map[string]*result
	lengths []int
}

func (a *affixes) put(affix string, value *result) {
	if a.of == nil {
		a.of = make(map[string]*result)
	}
	a.of[affix] = value
	if !slices.Contains(a.lengths, len(affix)) {
		a.lengths = append(a.lengths, len(affix))
		slices.SortFunc(a.lengths, func(a, b int) int { return b - a })
	}
}

// reserved are names of placeholders that only some texts have, which no map can have.
var reserved = []string{"url", "answer"}

// NewMaps makes the maps of a configuration. taken are names that they cannot have, beside those of
// the placeholders. The error joins one *Error for each thing that is wrong.
func NewMaps(all []Settings, taken []string) (*Maps, error) {
	m := &Maps{by: make(map[string]*table), addresses: make(map[addressKey]*Address)}
	var errs []error
	wrong := func(i int, key, format string, args ...any) {
		errs = append(errs, &Error{i, key, fmt.Errorf(format, args...)})
	}
	for i := range all {
		name := all[i].Name
		switch {
		case name == "":
			wrong(i, "name", "missing; expected the word that stands in braces for the value")
		case !word.MatchString(name):
			wrong(i, "name", "expected a word of letters, digits, - and _, not %q", name)
		case slices.Contains(Names, name), slices.Contains(Names, name+".*"),
			slices.Contains(taken, name), slices.Contains(reserved, name):
			wrong(i, "name", "{%s} is a placeholder already", name)
		case m.by[name] != nil:
			wrong(i, "name", "another map has the name %s", name)
		default:
			t := &table{name: name, index: i}
			t.lookup = t.append
			m.by[name] = t
			m.names = append(m.names, name)
		}
	}
	for i := range all {
		if t := m.by[all[i].Name]; t != nil && t.index == i {
			m.fill(t, &all[i], func(key, format string, args ...any) { wrong(i, key, format, args...) })
		}
	}
	for _, name := range m.names {
		t := m.by[name]
		if _, err := t.cost(nil); err != nil {
			wrong(t.index, "name", "%w", err)
			m.clear() // all maps of the circle would say the same
			break
		}
	}
	return m, errors.Join(errs...)
}

// clear leaves nothing of the maps but their names, so that the texts that have them can be checked
// all the same.
func (m *Maps) clear() {
	for name, t := range m.by {
		*t = table{name: name, index: t.index, from: Text{{}}, fallback: new(result)}
		t.lookup = t.append
	}
}

// lacksGroup returns what people take for a group of an expression, "" if there is nothing.
func (t Text) lacksGroup() string {
	for _, p := range t {
		if found := group.FindString(p.Text); found != "" {
			return found
		}
	}
	return ""
}

var group = regexp.MustCompile(`\{\d+\}|\$\w+`)

var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// fill makes a table of its settings.
func (m *Maps) fill(t *table, s *Settings, wrong func(key, format string, args ...any)) {
	text := s.From
	if s.Networks != nil || s.Split != nil {
		text = cmp.Or(text, "{address}")
	}
	var err error
	switch t.from, err = m.Parse(text); {
	case text == "":
		wrong("from", `missing; expected the text that is looked up, such as "{host}"`)
	case err != nil:
		wrong("from", "%w", err)
	case t.from.Literal():
		wrong("from", "%q: expected a text with placeholders (known: %s)", text,
			template.List(m.known(nil)))
	}
	t.folds = slices.ContainsFunc(t.from, func(p Piece) bool { return p.kind == kindHost })
	value := func(key, source string, groups []string) *result {
		text, err := m.ParseGroups(source, groups)
		switch {
		case err != nil:
			wrong(key, "%w", err)
		case !http1.ValidFieldValue(source):
			wrong(key, "control characters cannot be part of a value")
		case groups != nil && text.lacksGroup() != "":
			wrong(key, "%q: %s is no group of the expression; the first is {1}", source,
				text.lacksGroup())
		case text.Literal():
			return &result{source: source}
		}
		return &result{text, source, groups}
	}
	t.fallback = value("default", s.Default, nil)
	ways := 0
	for _, there := range []bool{s.Values != nil || s.Regexps != nil, s.Networks != nil,
		s.Split != nil} {
		if there {
			ways++
		}
	}
	switch {
	case ways == 0:
		wrong("values", "missing; expected values, regexps, networks or split")
	case ways > 1:
		wrong("", "expected values and regexps, or networks, or split, not several of them")
	}
	t.exact = make(map[string]*result, len(s.Values))
	for _, key := range slices.Sorted(maps.Keys(s.Values)) {
		v := value("values."+key, s.Values[key], nil)
		end, isEnd := strings.CutPrefix(key, "*")
		begin, isBegin := strings.CutSuffix(key, "*")
		switch {
		case strings.HasPrefix(key, "~"):
			wrong("values."+key, "an expression stands in regexps = [{ regexp = %q, value = %q }]",
				key[1:], s.Values[key])
		case key == "*":
			wrong("values."+key, "the value of all other texts is that of default")
		case strings.Contains(strings.TrimSuffix(end, "*"), "*") || isEnd && isBegin:
			wrong("values."+key,
				"expected one star, at the beginning or the end, or an expression in regexps")
		case t.folds && strings.ContainsFunc(key, func(r rune) bool { return 'A' <= r && r <= 'Z' }):
			wrong("values."+key, "{host} is looked up in small letters")
		case isEnd:
			t.ends.put(end, v)
		case isBegin:
			t.begins.put(begin, v)
		default:
			t.exact[key] = v
		}
	}
	for _, r := range s.Regexps {
		re, groups, err := template.Expression(r.Regexp)
		if err != nil {
			wrong("regexps", "%w", err)
			continue
		}
		v := value("regexps", r.Value, groups)
		t.regexps = append(t.regexps, pattern{re, v, v.text.HasGroups()})
	}
	if s.Networks != nil {
		of := make(map[string]*result, len(s.Networks))
		for _, key := range slices.Sorted(maps.Keys(s.Networks)) {
			of[key] = value("networks."+key, s.Networks[key], nil)
		}
		if t.networks, err = networks.NewMap(of); err != nil {
			wrong("networks", "%w", err)
		}
	}
	sum := 0.0
	for _, text := range slices.Sorted(maps.Keys(s.Split)) {
		percent := s.Split[text]
		sum += percent
		switch {
		case !(percent >= 0 && percent <= 100):
			wrong("split."+text, "expected percent between 0 and 100, not %v", percent)
		case sum > 100+1e-9:
			wrong("split", "the parts are %v percent together; expected 100 at most", sum)
		}
		t.split = append(t.split, share{sum / 100, value("split."+text, text, nil)})
	}
}

// results returns all values that the map may have.
func (t *table) results() (all []*result) {
	all = slices.AppendSeq([]*result{t.fallback}, maps.Values(t.exact))
	all = slices.AppendSeq(all, maps.Values(t.ends.of))
	all = slices.AppendSeq(all, maps.Values(t.begins.of))
	for _, p := range t.regexps {
		all = append(all, p.value)
	}
	if t.networks != nil {
		all = slices.AppendSeq(all, t.networks.Values())
	}
	for _, s := range t.split {
		all = append(all, s.value)
	}
	return all
}

// cost returns how many lookups a value takes at most, and sets needs and reads. It fails if the
// map needs itself, or too many others. way are those that have led here.
func (t *table) cost(way []string) (int, error) {
	if i := slices.Index(way, t.name); i >= 0 {
		return 0, fmt.Errorf("the map needs itself: %s",
			strings.Join(append(way[i:], t.name), " needs "))
	}
	if t.visited {
		return t.needs, nil
	}
	way = append(slices.Clip(way), t.name)
	of := func(text Text) (n int, err error) {
		for _, p := range text {
			if p.m == nil {
				continue
			}
			k, err := p.m.cost(way)
			if n += k; err != nil {
				return 0, err
			}
		}
		return n, nil
	}
	from, err := of(t.from)
	if err != nil {
		return 0, err
	}
	most := 0
	for _, r := range t.results() {
		n, err := of(r.text)
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	t.needs = 1 + from + most
	if t.needs > maxLookups {
		return 0, fmt.Errorf("a value needs more than %d lookups in maps", maxLookups)
	}
	for _, r := range t.results() {
		t.reads = append(t.reads, r.text.Reads()...)
	}
	t.reads = append(t.reads, t.from.Reads()...)
	slices.Sort(t.reads)
	t.reads, t.visited = slices.Compact(t.reads), true
	return t.needs, nil
}

// Lookups calls f with each map's name, the text that it looks up for a request, and the value.
func (m *Maps) Lookups(q Asked, f func(name, from, value string)) {
	if m == nil {
		return
	}
	for _, name := range m.names {
		t := m.by[name]
		f(name, string(t.from.append(nil, q, nil)), string(t.append(nil, q)))
	}
}

// BadKey makes a handlers.KeyError of an error of Parse; nil: there is none.
func BadKey(key string, err error) error {
	if err == nil {
		return nil
	}
	return &handlers.KeyError{Key: key, Err: err}
}
