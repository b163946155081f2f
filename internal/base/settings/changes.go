package settings

import (
	"fmt"
	"slices"
	"strings"
)

// Changes says how a file differs from the one before, by names: those of keys, with the table in
// front (pubsub.url), and those of the elements of the lists that ids has. Such an element is
// called by the list and the value of the key that ids gives for it (site "example.org"); one that
// has no such value, or shares it, also by its line: site "*" (line 7). The line of one that was
// removed is that of the file before. A name does not tell a value that may be a secret. The lists
// are sorted.
func Changes(before, after Table, ids map[string]string) (added, removed, changed []string) {
	old, now := before.outline(ids), after.outline(ids)
	for id, value := range now {
		switch was, ok := old[id]; {
		case !ok:
			added = append(added, value.name)
		case was.text != value.text:
			changed = append(changed, value.name)
		}
	}
	for id, value := range old {
		if _, ok := now[id]; !ok {
			removed = append(removed, value.name)
		}
	}
	for _, list := range [][]string{added, removed, changed} {
		slices.Sort(list)
	}
	return added, removed, changed
}

// outlined is a value that has a name.
type outlined struct{ name, text string }

// outline returns the values that have names, by what tells them apart in both files. That is no
// line, which changes with each one that is added above.
func (t Table) outline(ids map[string]string) map[string]outlined {
	all := map[string]outlined{}
	for key, value := range t.values {
		elements, list := listOfTables(value)
		table, isTable := value.(map[string]any)
		switch id, named := ids[key]; {
		case list && named:
			count := map[string]int{}
			for _, e := range elements {
				count[called(key, e[id])]++
			}
			seen := map[string]int{}
			for i, e := range elements {
				name := called(key, e[id])
				seen[name]++
				v := outlined{name, text(e)}
				if e[id] == nil || count[name] > 1 {
					at := Table{file: t.file, values: e, at: t.at.child(key).index(i)}
					v.name = fmt.Sprintf("%s (%s)", name, at.Position(""))
				}
				all[fmt.Sprintf("%s %d", name, seen[name])] = v
			}
		case isTable:
			for sub, v := range table {
				name := valuePath{}.child(key).child(sub).name
				all[name] = outlined{name, text(v)}
			}
		default:
			name := valuePath{}.child(key).name
			all[name] = outlined{name, text(value)}
		}
	}
	return all
}

// called names an element of a list; value is what it is called by, or nil.
func called(list string, value any) string {
	if value == nil {
		value = "*"
	}
	return list + " " + text(value)
}

// text writes a value so that different ones have different texts, whatever is in their strings.
func text(value any) string {
	switch v := value.(type) {
	case []any: // of which a name may consist
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = text(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprintf("%#v", value) // maps are sorted
}
