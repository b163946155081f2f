package settings

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lwango/lwango/internal/base/tags"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// value stores one decoded TOML value in v or reports why it cannot.
func (f *File) value(value any, at valuePath, v reflect.Value, tag reflect.StructTag) {
	t := v.Type()
	switch {
	case t == durationType:
		f.duration(value, at, v, tag)
		return
	case isSize(t):
		f.size(value, at, v, tag)
		return
	case v.CanAddr() && reflect.PointerTo(t).Implements(textType):
		s, ok := value.(string)
		if !ok {
			f.wrongType(value, at, t)
			return
		}
		u := v.Addr().Interface().(encoding.TextUnmarshaler)
		if err := u.UnmarshalText([]byte(s)); err != nil {
			f.errorAt(at, "%v", err)
		}
		return
	}

	switch t.Kind() {
	case reflect.Pointer:
		n := len(f.errs)
		p := reflect.New(t.Elem())
		if v.IsNil() {
			tags.Fill(p.Elem(), tag)
		} else {
			p.Elem().Set(v.Elem())
		}
		f.value(value, at, p.Elem(), tag)
		if t.Elem().Kind() == reflect.Struct || len(f.errs) == n {
			v.Set(p)
		}
	case reflect.String:
		s, ok := value.(string)
		if !ok {
			f.wrongType(value, at, t)
		} else if f.oneOf(s, at, tag) {
			v.SetString(s)
		}
	case reflect.Bool:
		b, ok := value.(bool)
		if !ok {
			f.wrongType(value, at, t)
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		f.integer(value, at, v, tag)
	case reflect.Float32, reflect.Float64:
		switch n := value.(type) {
		case float64:
			v.SetFloat(n)
		case int64:
			v.SetFloat(float64(n))
		default:
			f.wrongType(value, at, t)
		}
	case reflect.Struct:
		if on, ok := value.(bool); ok {
			if s, ok := switchOf(t); ok {
				v.FieldByIndex(s.Index).Set(reflect.ValueOf(&on))
				return
			}
		}
		m, ok := value.(map[string]any)
		if !ok {
			f.wrongType(value, at, t) // and its Table is an empty one
		}
		Table{file: f, values: m, at: at}.decode(v)
	case reflect.Slice:
		f.list(value, at, v, tag)
	case reflect.Map:
		f.mapping(value, at, v, tag)
	default:
		panic(fmt.Sprintf("settings: %s: a field of type %s cannot be set from a file", at.name, t))
	}
}

func (f *File) integer(value any, at valuePath, v reflect.Value, tag reflect.StructTag) {
	n, ok := value.(int64)
	if !ok {
		f.wrongType(value, at, v.Type())
		return
	}
	if !f.inRange(n, n, at, v.Type(), tag) {
		return
	}
	if v.CanInt() {
		v.SetInt(n)
	} else {
		v.SetUint(uint64(n))
	}
}

// duration takes strings, and -1 for none where the range has it. Another bare number would be
// seconds to one reader and milliseconds to another.
func (f *File) duration(value any, at valuePath, v reflect.Value, tag reflect.StructTag) {
	if n, ok := value.(int64); ok {
		if n == -1 && tag.Get("min") == "-1" {
			v.SetInt(n)
			return
		}
		if n > 0 {
			f.errorAt(at, "expected %s, found %s (for seconds write \"%ds\")", expected(v.Type()),
				f.found(value, at), n)
			return
		}
	}
	s, ok := value.(string)
	if !ok {
		f.wrongType(value, at, v.Type())
		return
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		f.errorAt(at, "expected %s, found %q (units are ms, s, m, h)", expected(v.Type()), s)
		return
	}
	if f.inRange(int64(d), s, at, v.Type(), tag) {
		v.SetInt(int64(d))
	}
}

// isSize reports whether t is a number of bytes, as conn.Size is: an int64 that reads itself from a
// text such as "16KiB".
func isSize(t reflect.Type) bool {
	return t.Kind() == reflect.Int64 && reflect.PointerTo(t).Implements(textType)
}

func (f *File) size(value any, at valuePath, v reflect.Value, tag reflect.StructTag) {
	n := reflect.New(v.Type())
	switch value := value.(type) {
	case int64:
		n.Elem().SetInt(value)
	case string:
		u := n.Interface().(encoding.TextUnmarshaler)
		if err := u.UnmarshalText([]byte(value)); err != nil {
			f.errorAt(at, "%v", err)
			return
		}
	default:
		f.wrongType(value, at, v.Type())
		return
	}
	if f.inRange(n.Elem().Int(), n.Elem(), at, v.Type(), tag) {
		v.Set(n.Elem())
	}
}

// inRange reports whether n, which messages show as found, is in the range of the tags min and max.
func (f *File) inRange(n int64, found any, at valuePath, t reflect.Type,
	tag reflect.StructTag) bool {
	span, ok := tags.InRange(n, t, tag)
	if !ok {
		f.errorAt(at, "must be %s, found %v", span, found)
	}
	return ok
}

func (f *File) oneOf(s string, at valuePath, tag reflect.StructTag) bool {
	words := strings.Fields(tag.Get("oneof"))
	if len(words) == 0 {
		return true
	}
	for i, w := range words {
		if w == s {
			return true
		}
		words[i] = strconv.Quote(w)
	}
	f.errorAt(at, "expected %s, found %q", strings.Join(words, " or "), s)
	return false
}

// list takes a TOML array or, as a list of one, a single value: most users write `host = "a"`
// first.
func (f *File) list(value any, at valuePath, v reflect.Value, tag reflect.StructTag) {
	var items []any
	switch value := value.(type) {
	case []any:
		items = value
	case []map[string]any:
		for _, m := range value {
			items = append(items, m)
		}
	default:
		if !fits(value, v.Type().Elem()) {
			f.wrongType(value, at, v.Type())
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		tags.Fill(v.Index(0), tag)
		f.value(value, at, v.Index(0), tag)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		tags.Fill(v.Index(i), tag)
		f.value(item, at.index(i), v.Index(i), tag)
	}
}

// fits reports whether a single value has the right TOML type for an element; if not, the message
// names the list.
func fits(value any, elem reflect.Type) bool {
	switch value.(type) {
	case map[string]any:
		return elem.Kind() == reflect.Struct || elem.Kind() == reflect.Map
	case string:
		return elem.Kind() == reflect.String || elem == durationType ||
			reflect.PointerTo(elem).Implements(textType)
	case bool:
		_, ok := switchOf(elem)
		return ok || elem.Kind() == reflect.Bool
	}
	return elem.Kind() != reflect.String && elem.Kind() != reflect.Struct &&
		elem.Kind() != reflect.Bool
}

func (f *File) mapping(value any, at valuePath, v reflect.Value, tag reflect.StructTag) {
	m, ok := value.(map[string]any)
	if !ok {
		f.wrongType(value, at, v.Type())
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(m))
	for key, item := range m {
		e := reflect.New(v.Type().Elem()).Elem()
		f.value(item, at.child(key), e, tag)
		out.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), e)
	}
	v.Set(out)
}

func (f *File) wrongType(value any, at valuePath, t reflect.Type) {
	f.errorAt(at, "expected %s, found %s", expected(t), f.found(value, at))
}

// switchOf returns the field of a struct type that true and false are for.
func switchOf(t reflect.Type) (s reflect.StructField, ok bool) {
	for i := 0; t.Kind() == reflect.Struct && i < t.NumField(); i++ {
		if s = t.Field(i); s.Tag.Get("toml") == ",switch" {
			return s, true
		}
	}
	return s, false
}

// expected names a type as the reader of a TOML file would.
func expected(t reflect.Type) string {
	switch {
	case t == durationType:
		return `a duration such as "15s"`
	case isSize(t):
		return `a size such as "16KiB"`
	case reflect.PointerTo(t).Implements(textType):
		return "a string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return expected(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Struct, reflect.Map:
		if _, ok := switchOf(t); ok {
			return "a table, true or false"
		}
		return "a table"
	case reflect.Slice:
		return expected(t.Elem()) + " or a list of them"
	case reflect.String:
		return "a string"
	}
	return "an integer"
}

// found names a value that was not expected. Of a long string it shows the beginning, but not that
// of a secret, which hide would not find in the message any more.
func (f *File) found(value any, at valuePath) string {
	switch value := value.(type) {
	case string:
		if f.hide(at.path, value) == value {
			value = shortened(value, 40)
		}
		return fmt.Sprintf("the string %q", value)
	case int64:
		return fmt.Sprintf("the integer %d", value)
	case float64:
		return fmt.Sprintf("the number %v", value)
	case bool:
		return fmt.Sprintf("%v", value)
	case time.Time:
		return "a date"
	case map[string]any:
		return "a table"
	}
	return "a list"
}

// shortened is s, or as much of its beginning as most bytes have room for, in whole characters.
func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "..."
}

// must is for the values of struct tags, which the program's author wrote.
func must[T any](v T, err error) T {
	if err != nil {
		panic("settings: in a struct tag: " + err.Error())
	}
	return v
}
