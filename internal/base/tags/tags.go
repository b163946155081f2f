// Package tags reads what the tags of a struct's fields say of their values: `min` and `max`, both
// inclusive, and `default`. Fields with a range are integers, durations, and integers with a method
// UnmarshalText, such as conn.Size; strings, bools and lists of strings have defaults only. The
// default of a list is words separated by spaces.
//
// A struct whose field has the tag `default:"-"` keeps its zeros when the struct around it gets its
// defaults. So the configuration leaves a key unset that a site or a route has from what it is in,
// or that only counts beside another key; the code that reads the key gets the default by Or.
//
// A mistake in a tag is one of the program: these functions panic.
package tags

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Defaults returns a T whose fields have the values of their tags. It goes into structs that are
// keys of a configuration (`toml`) themselves.
func Defaults[T any]() (v T) {
	setDefaults(reflect.ValueOf(&v).Elem())
	return v
}

// Fill gives the fields of v the values of their tags, if it is a struct. tag is that of the field
// that has v as its value, or as an element of it.
func Fill(v reflect.Value, tag reflect.StructTag) {
	if v.Kind() == reflect.Struct && tag.Get("default") != "-" {
		setDefaults(v)
	}
}

func setDefaults(v reflect.Value) {
	for i := range v.NumField() {
		f, tag := v.Field(i), v.Type().Field(i).Tag
		text, ok := tag.Lookup("default")
		_, key := tag.Lookup("toml")
		switch {
		case !ok && key && f.Kind() == reflect.Struct:
			setDefaults(f)
		case !ok || text == "-":
		default:
			set(f, text)
		}
	}
}

// set gives a field the value of its tag.
func set(f reflect.Value, text string) {
	switch f.Kind() {
	case reflect.String:
		f.SetString(text)
	case reflect.Bool:
		f.SetBool(must(strconv.ParseBool(text)))
	case reflect.Slice:
		f.Set(reflect.ValueOf(strings.Fields(text)))
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
		set(f.Elem(), text)
	default:
		f.SetInt(parse(f.Type(), text))
	}
}

// Or returns v with the fields of others where v has zero.
func Or[T any](v, others T) T {
	Override(&others, &v)
	return others
}

// Override sets the fields of to, a struct, to those of by that are not zero. It goes into structs
// that are embedded.
func Override[T any](to, by *T) { override(reflect.ValueOf(to).Elem(), reflect.ValueOf(by).Elem()) }

func override(to, by reflect.Value) {
	for i := range by.NumField() {
		switch f := by.Field(i); {
		case by.Type().Field(i).Anonymous:
			override(to.Field(i), f)
		case to.Field(i).CanSet() && !f.IsZero():
			to.Field(i).Set(f)
		}
	}
}

// Check returns an error that names the first field of a struct, or of one within it that is a key
// itself (`toml`) or an element of one, that is out of its range, or a string that is none of the
// tag `oneof`. v is the struct or a pointer to it. A zero is not wrong: it stands for the default.
func Check(v any) error { return checker{}.check("", reflect.Indirect(reflect.ValueOf(v))) }

// CheckFilled is Check for a struct that has got its Defaults: a zero in place of one is checked as
// any value.
func CheckFilled(v any) error {
	return checker{filled: true}.check("", reflect.Indirect(reflect.ValueOf(v)))
}

type checker struct{ filled bool }

// check checks the fields of s, whose names begin with path.
func (c checker) check(path string, s reflect.Value) error {
	for i := range s.NumField() {
		f, field := s.Field(i), s.Type().Field(i)
		_, key := field.Tag.Lookup("toml")
		if err := c.within(path, f, field, key); err != nil {
			return err
		}
		unset := f.IsZero()
		if text, ok := field.Tag.Lookup("default"); c.filled && ok && text != "-" {
			unset = false
		}
		if unset {
			continue
		}
		if all, ok := field.Tag.Lookup("oneof"); ok && f.Kind() == reflect.String &&
			!slices.Contains(strings.Fields(all), f.String()) {
			return fmt.Errorf("%s%s: must be one of %s, found %q", path, field.Name, all, f)
		}
		if !f.CanInt() {
			continue
		}
		if span, ok := InRange(f.Int(), field.Type, field.Tag); !ok {
			return fmt.Errorf("%s%s: must be %s, found %v", path, field.Name, span, f)
		}
	}
	return nil
}

// within checks the structs in a field.
func (c checker) within(path string, f reflect.Value, field reflect.StructField, key bool) error {
	switch {
	case field.Anonymous && f.Kind() == reflect.Struct:
		return c.check(path, f)
	case !key || !field.IsExported():
		return nil
	}
	path += field.Name
	if f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct {
		for i := range f.Len() {
			// an element has no defaults of its own in code
			if err := (checker{}).check(fmt.Sprintf("%s[%d].", path, i), f.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	if f.Kind() == reflect.Pointer && !f.IsNil() {
		f = f.Elem()
	}
	if f.Kind() != reflect.Struct || field.Tag.Get("default") == "-" && f.IsZero() {
		return nil
	}
	if field.Tag.Get("default") == "-" {
		c.filled = false
	}
	return c.check(path+".", f)
}

// InRange reports whether n, of type t, is in the range of a tag, and puts that into words. Without
// a bound an integer has that of its type.
func InRange(n int64, t reflect.Type, tag reflect.StructTag) (span string, ok bool) {
	least, most := bounds(t)
	low, hasLow := tag.Lookup("min")
	if hasLow {
		least = parse(t, low)
	}
	high, hasHigh := tag.Lookup("max")
	if hasHigh {
		most = parse(t, high)
	}
	if t.Name() == t.Kind().String() { // a plain integer
		low, hasLow, high, hasHigh = strconv.FormatInt(least, 10), true, strconv.FormatInt(most, 10), true
	}
	switch {
	case !hasHigh:
		span = "at least " + low
	case !hasLow:
		span = "at most " + high
	default:
		span = "between " + low + " and " + high
	}
	return span, least <= n && n <= most
}

// ZeroAllowed reports whether a tag has a range that includes zero.
func ZeroAllowed(t reflect.Type, tag reflect.StructTag) bool {
	low, ok := tag.Lookup("min")
	return ok && parse(t, low) <= 0
}

// bounds are those of a type of integers; those of TOML end at 63 bits.
func bounds(t reflect.Type) (least, most int64) {
	bits := t.Bits()
	switch t.Kind() {
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return 0, 1<<min(bits, 63) - 1
	}
	return -1 << (bits - 1), 1<<(bits-1) - 1
}

func parse(t reflect.Type, text string) int64 {
	if t == reflect.TypeFor[time.Duration]() && text != "-1" { // none
		return int64(must(time.ParseDuration(text)))
	}
	v := reflect.New(t)
	if u, ok := v.Interface().(encoding.TextUnmarshaler); ok {
		must(0, u.UnmarshalText([]byte(text)))
		return v.Elem().Int()
	}
	return must(strconv.ParseInt(text, 10, 64))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic("tags: " + err.Error())
	}
	return v
}
