package settings

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Decode fills the struct that dst points to. Keys that the table does not have leave their fields
// as they are, so defaults are set before; in the structs of a list, and where a pointer is nil,
// those of the tag `default` (see package tags). It reports everything wrong to the file; a field
// with a wrong value keeps its default.
//
// Fields are chosen by a `toml:"key"` tag and others are left alone. Types: string, bool, integers,
// floats, time.Duration, handlers.Size, encoding.TextUnmarshaler (from a string), structs, pointers
// to these (set only when the key is there), lists of these (one value may stand for a list of one)
// and maps from strings to these. A struct with a field of type *bool that has the tag
// `toml:",switch"` takes true and false as well, for that field. `toml:",inline"` at a struct adds
// its keys to those of the table; `,table` and `,rest` are for fields of type Table: the table
// itself, and the keys that no other field has. Further tags: `min` and `max`, inclusive, for
// numbers, durations and sizes; `oneof`, words separated by spaces, for strings. A blank field with
// the tags `gone` and `why` is a key that was removed: its error says why.
//
// Decode reports whether all was right. A struct that these rules do not cover is a mistake of the
// program, not of the file: Decode panics.
func (t Table) Decode(dst any) bool {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("settings: Decode into %T: want a pointer to a struct", dst))
	}
	before := len(t.file.errs)
	t.decode(v.Elem())
	return len(t.file.errs) == before
}

func (t Table) decode(v reflect.Value) {
	known, rest := t.fields(v, nil)
	others := map[string]any{}
	for key, value := range t.values {
		if !slices.Contains(known, key) {
			others[key] = value
		}
	}
	if rest.IsValid() {
		rest.Set(reflect.ValueOf(Table{t.file, others, t.at, known}))
		return
	}
	for key := range others {
		if why := gone(v.Type(), key); why != "" {
			t.file.errorAt(t.at.child(key), "there is no such key any more: %s; remove it", why)
			continue
		}
		from := ""
		if t.file.inherited[t.at.child(key).path] {
			from = " of what " + t.Position("") + " uses"
		}
		t.file.errorAt(t.at.child(key), "unknown key%s%s", from,
			t.hint(key, others[key], slices.Concat(known, t.beside)))
	}
}

// Fill is Decode for those of the given keys that the struct has. It returns those that only the
// table has. A default that the struct has not is no longer noted as in force.
func (t Table) Fill(dst any, keys []string) (unknown []string) {
	has := Keys(dst)
	var common []string
	for _, key := range keys {
		switch {
		case slices.Contains(has, key):
			common = append(common, key)
		case t.Has(key):
			unknown = append(unknown, key)
		default:
			t.Disregard(key)
		}
	}
	if len(common) > 0 {
		t.fields(reflect.ValueOf(dst).Elem(), common)
	}
	return unknown
}

// gone returns why structs of type t have a key no more; "": they had none of that name.
func gone(t reflect.Type, key string) string {
	for i := range t.NumField() {
		if tag := t.Field(i).Tag; tag.Get("gone") == key {
			return tag.Get("why")
		}
	}
	return ""
}

// fields fills the fields of v, and returns their keys and the field for the rest, if there is one.
// only are the keys to fill; nil: all.
func (t Table) fields(v reflect.Value, only []string) (known []string, rest reflect.Value) {
	for i := range v.NumField() {
		tag, ok := v.Type().Field(i).Tag.Lookup("toml")
		switch {
		case !ok || tag == "-":
		case tag == ",inline":
			more, _ := t.fields(v.Field(i), only)
			known = append(known, more...)
		case only != nil && !slices.Contains(only, tag):
		case tag == ",table":
			v.Field(i).Set(reflect.ValueOf(t))
		case tag == ",switch": // see File.value
		case tag == ",rest":
			rest = v.Field(i)
		default:
			known = append(known, tag)
			if value, ok := t.values[tag]; ok {
				t.file.value(value, t.at.child(tag), v.Field(i), v.Type().Field(i).Tag)
			} else if value := assumed(v.Field(i), v.Type().Field(i).Tag); value != nil {
				t.assume(tag, value)
			}
		}
	}
	return known, rest
}

// maxListed is the number of keys up to which a message can name them all and still be read.
const maxListed = 15

// hint says what the author of the file may have meant by an unknown key. What is a key of the
// whole file, letter for letter, is no slip of another name.
func (t Table) hint(key string, value any, known []string) string {
	places := ""
	if all := t.file.places[key]; len(all) > 0 {
		last := len(all) - 1
		places = strings.Join(all[:last], ", ")
		if last > 0 {
			places += " and "
		}
		places += all[last]
	}
	// The classic slip of TOML: a key of the whole file, written below the first [table].
	if t.at.path != "" && slices.Contains(t.file.top, key) {
		if places != "" {
			return fmt.Sprintf(" (it is a key of %s and, with another meaning, of the whole file)", places)
		}
		switch value.(type) {
		case map[string]any:
			return fmt.Sprintf(" (it is the whole file's: write [%s])", key)
		case []map[string]any:
			return fmt.Sprintf(" (it is the whole file's: write [[%s]])", key)
		}
		return fmt.Sprintf(" (%s belongs at the top of the file, above the first [table])", key)
	}
	if s := Suggest(key, known); s != "" {
		return fmt.Sprintf(" (did you mean %s?)", s)
	}
	switch n := len(known); {
	case n > 0 && n <= maxListed:
		slices.Sort(known)
		return " (known here: " + strings.Join(known, ", ") + ")"
	case places != "":
		return " (it is a key of " + places + ")"
	}
	return ""
}

// Top tells of the struct of the whole file, which v points to, for the hint that a key found
// elsewhere belongs to the top of the file, or to one of the tables that stand there. After it,
// Include does not merge two tables that each stand for a list.
func (f *File) Top(v any) {
	f.top, f.places, f.lists = Keys(v), map[string][]string{}, nil
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		name, inner, form := t.Field(i).Tag.Get("toml"), t.Field(i).Type, "[%s]"
		switch inner.Kind() {
		case reflect.Slice:
			inner, form = inner.Elem(), "[[%s]]"
		case reflect.Pointer:
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct || name == "" || name[0] == ',' ||
			inner == reflect.TypeFor[Table]() {
			continue
		}
		if t.Field(i).Type.Kind() == reflect.Slice {
			f.lists = append(f.lists, name)
		}
		for _, key := range Keys(reflect.New(inner).Interface()) {
			f.places[key] = append(f.places[key], fmt.Sprintf(form, name))
		}
	}
}

// Keys returns the keys of the struct that v points to, in the order of its fields.
func Keys(v any) (keys []string) {
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		switch tag := t.Field(i).Tag.Get("toml"); {
		case tag == ",inline":
			keys = append(keys, Keys(reflect.New(t.Field(i).Type).Interface())...)
		case tag != "" && tag != "-" && tag[0] != ',':
			keys = append(keys, tag)
		}
	}
	return keys
}
