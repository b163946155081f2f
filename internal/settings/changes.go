package settings

import (
	"fmt"
	"slices"
	"strings"
)

// Changes says how a file differs from the one before, by names: those of keys, with the table in
// front (pubsub.url), and those of the elements of the lists that ids has. Such an element is called
// by the list and the value of the key that ids gives for it (site "example.org"). A name does not
// tell a value that may be a secret. The lists are sorted.
func Changes(before, after Table, ids map[string]string) (added, removed, changed []string) {
	old, now := outline(before.values, ids), outline(after.values, ids)
	for name, value := range now {
		switch was, ok := old[name]; {
		case !ok:
			added = append(added, name)
		case was != value:
			changed = append(changed, name)
		}
	}
	for name := range old {
		if _, ok := now[name]; !ok {
			removed = append(removed, name)
		}
	}
	for _, list := range [][]string{added, removed, changed} {
		slices.Sort(list)
	}
	return added, removed, changed
}

// outline gives the text of each value that has a name.
func outline(values map[string]any, ids map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range values {
		elements, list := listOfTables(value)
		table, isTable := value.(map[string]any)
		switch id, named := ids[key]; {
		case list && named:
			for _, e := range elements {
				name := fmt.Sprintf("%s %s", key, text(e[id]))
				for n := 2; all[name] != ""; n++ {
					name = fmt.Sprintf("%s %s (%d)", key, text(e[id]), n)
				}
				all[name] = text(e)
			}
		case isTable:
			for sub, v := range table {
				all[valuePath{}.child(key).child(sub).name] = text(v)
			}
		default:
			all[valuePath{}.child(key).name] = text(value)
		}
	}
	return all
}

// text writes a value so that different ones have different texts, whatever is in their strings.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return `""`
	case []any: // of which a name may consist
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = text(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprintf("%#v", value) // maps are sorted
}
