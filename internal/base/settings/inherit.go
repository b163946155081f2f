package settings

import (
	"maps"
	"slices"
)

// Inherit gives the table the keys of another table of the file that it lacks, but for those of
// without. A list of tables, such as rules, goes on with the other's; lists are the keys that have
// one even where both tables have a single table there. Positions and errors of what it has got are
// those of the other table.
func (t Table) Inherit(from Table, lists []string, without ...string) {
	for key, value := range from.values {
		if slices.Contains(without, key) {
			continue
		}
		to, was := t.at.child(key), from.at.child(key)
		old, there := t.values[key]
		if !there {
			t.values[key] = t.file.copied(value, was, to)
			t.file.inherited[to.path] = true
			continue
		}
		_, hasList := listOfTables(old)
		_, otherHas := listOfTables(value)
		if !hasList && !otherHas && !slices.Contains(lists, key) {
			continue
		}
		all, ok := t.file.elements(old, to, to, 0)
		more, also := t.file.elements(value, was, to, len(all))
		if ok && also {
			t.values[key] = append(all, more...)
		}
	}
}

// elements returns copies of the tables of a list, or of the one table that stands for a list. They
// are for the list at to, so many of whose elements come before.
func (f *File) elements(value any, from, to valuePath, before int) ([]map[string]any, bool) {
	if one, ok := value.(map[string]any); ok {
		return []map[string]any{f.copied(one, from, to.index(before)).(map[string]any)}, true
	}
	tables, ok := listOfTables(value)
	all := slices.Clone(tables)
	for i, m := range all {
		if at := to.index(before + i); at.path != from.index(i).path {
			all[i] = f.copied(m, from.index(i), at).(map[string]any)
		}
	}
	return all, ok
}

// copied returns a copy of a value for another path, which has the positions of the first one.
func (f *File) copied(value any, from, to valuePath) any {
	if at, ok := f.lines[from.path]; ok {
		f.lines[to.path] = at
	}
	switch value := value.(type) {
	case string:
		text, ok := f.written[from.path]
		if !ok {
			break
		}
		f.written[to.path] = text
		for _, s := range f.hidden {
			if s.at == from.path {
				s.at = to.path
				f.hidden = append(f.hidden, s)
			}
		}
	case map[string]any:
		all := maps.Clone(value)
		for key, item := range all {
			all[key] = f.copied(item, from.child(key), to.child(key))
		}
		return all
	case []map[string]any:
		all := slices.Clone(value)
		for i, item := range all {
			all[i] = f.copied(item, from.index(i), to.index(i)).(map[string]any)
		}
		return all
	case []any:
		all := slices.Clone(value)
		for i, item := range all {
			all[i] = f.copied(item, from.index(i), to.index(i))
		}
		return all
	}
	return value
}

// Tables returns the tables of the list that is the value of key, or the one table that stands for
// a list; none if the value is something else.
func (t Table) Tables(key string) []Table {
	if _, ok := t.values[key].(map[string]any); ok {
		return []Table{t.Sub(key)}
	}
	list, ok := listOfTables(t.values[key])
	if !ok {
		return nil
	}
	t.values[key] = list // so that changes to them count
	all := make([]Table, len(list))
	for i, values := range list {
		all[i] = Table{file: t.file, values: values, at: t.at.child(key).index(i)}
	}
	return all
}

// Keys returns the keys of the table, sorted.
func (t Table) Keys() []string { return slices.Sorted(maps.Keys(t.values)) }

// Texts returns the value of key, a string or a list of them; nil if it is something else.
func (t Table) Texts(key string) (all []string) {
	switch value := t.values[key].(type) {
	case string:
		return []string{value}
	case []any:
		for _, item := range value {
			text, ok := item.(string)
			if !ok {
				return nil
			}
			all = append(all, text)
		}
	}
	return all
}

// Remove takes a key out of the table, so that WriteInForce leaves it out.
func (t Table) Remove(key string) {
	delete(t.values, key)
	t.Disregard(key)
}
