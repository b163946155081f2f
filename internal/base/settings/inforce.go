package settings

import (
	"encoding"
	"fmt"
	"io"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/lwango/lwango/internal/base/tags"
)

// Assume notes the value that is in force for a key that the table does not have, of a type that
// Decode knows. Decode does so for the defaults that stand in a struct; Assume is for what only the
// program can compute.
func (t Table) Assume(key string, value any) { t.assume(key, assumed(reflect.ValueOf(value), "")) }

// Disregard takes back the default of a key that has no effect here, so that it does not look as if
// it had one.
func (t Table) Disregard(key string) { delete(t.file.assumed[t.at.path], key) }

func (t Table) assume(key string, value any) {
	at := t.file.assumed[t.at.path]
	if at == nil {
		at = map[string]any{}
		t.file.assumed[t.at.path] = at
	}
	at[key] = value
}

// WriteInForce writes what is in force as one text: the keys of all texts, and the defaults of the
// tables that were decoded. In strings, references to variables and files stay as they were
// written, so that the text gives no secret away. Keys are sorted. The key include is left out,
// since what it names is there. replace has other values for keys of the top, of types that Decode
// knows; nil: the key is left out.
func (f *File) WriteInForce(w io.Writer, replace map[string]any) error {
	all := f.inForce(f.root, valuePath{}).(map[string]any)
	delete(all, "include")
	for key, value := range replace {
		if delete(all, key); value != nil {
			all[key] = assumed(reflect.ValueOf(value), "")
		}
	}
	encoder := toml.NewEncoder(w)
	encoder.Indent = ""
	return encoder.Encode(all)
}

func (f *File) inForce(value any, at valuePath) any {
	switch value := value.(type) {
	case string:
		if written, ok := f.written[at.path]; ok {
			return written
		}
	case map[string]any:
		all := map[string]any{}
		maps.Copy(all, f.assumed[at.path])
		for key, item := range value {
			all[key] = f.inForce(item, at.child(key))
		}
		return all
	case []map[string]any:
		all := make([]map[string]any, len(value))
		for i, item := range value {
			all[i] = f.inForce(item, at.index(i)).(map[string]any)
		}
		return all
	case []any:
		all := make([]any, len(value))
		for i, item := range value {
			all[i] = f.inForce(item, at.index(i))
		}
		return all
	}
	return value
}

// assumed returns the default that a field holds as a value of TOML; nil if there is none. A zero
// is one where the tag min allows it, and false always is.
func assumed(v reflect.Value, tag reflect.StructTag) any {
	t := v.Type()
	if v.IsZero() && t.Kind() != reflect.Bool && !zeroAllowed(t, tag) {
		return nil
	}
	switch text, ok := v.Interface().(encoding.TextMarshaler); {
	case ok:
		return Literal(string(must(text.MarshalText())))
	case (t == durationType || isSize(t)) && v.Int() < 0:
		return v.Int() // none
	case t == durationType:
		return time.Duration(v.Int()).String()
	case isSize(t):
		return fmt.Sprint(v)
	case reflect.PointerTo(t).Implements(textType):
		return nil
	}
	switch t.Kind() {
	case reflect.String:
		return Literal(v.String())
	case reflect.Pointer:
		return assumed(v.Elem(), tag)
	case reflect.Struct:
		all := map[string]any{}
		assumedFields(v, all)
		if len(all) == 0 {
			return nil
		}
		return all
	case reflect.Slice:
		all := make([]any, 0, v.Len())
		for i := range v.Len() {
			all = append(all, assumed(v.Index(i), ""))
		}
		return all
	case reflect.Map:
		all := map[string]any{}
		for at := v.MapRange(); at.Next(); {
			all[at.Key().String()] = assumed(at.Value(), "")
		}
		return all
	}
	return v.Interface()
}

func assumedFields(v reflect.Value, all map[string]any) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key, ok := f.Tag.Lookup("toml")
		switch {
		case key == ",inline":
			assumedFields(v.Field(i), all)
		case !ok || key == "-" || strings.HasPrefix(key, ","):
		default:
			if value := assumed(v.Field(i), f.Tag); value != nil {
				all[key] = value
			}
		}
	}
}

// Literal returns s as a text has to have it so that nothing in it is a reference.
func Literal(s string) string { return reference.ReplaceAllString(s, "$$$0") }

// zeroAllowed reports whether a zero is a number of the range that the tag min begins.
func zeroAllowed(t reflect.Type, tag reflect.StructTag) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return false
	}
	return tags.ZeroAllowed(t, tag)
}
