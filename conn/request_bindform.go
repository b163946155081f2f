package conn

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"mime/multipart"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lwango/lwango/loop"
)

// maxFormMemory is how many bytes of a multipart form BindForm keeps in memory.
const maxFormMemory = 1 << 20

// BindQuery sets the fields of a struct, to which v points, by the query's parameters:
//
//	var in struct {
//		Text string    `form:"q,required"`
//		Page int       `form:"page"`
//		Tags []string  `form:"tag"` // all parameters of that name
//		Till time.Time `form:"till"`
//	}
//
// A field without a tag form is never set, except within an embedded struct, and a parameter
// without a field is ignored. A field can be a string, a bool, a number, a time.Duration, an
// encoding.TextUnmarshaler, a pointer to one of these, or a slice of these; other types panic,
// since the program is wrong. If a parameter is there several times, the first counts. A bool is as
// of strconv.ParseBool, or on or off. A parameter that is not there, and an empty one of a field
// that is no text, as browsers send for an input that was left empty, leaves the field as it is; if
// the field is required, it is an error, an empty text too.
//
// The error is a *BindError for a query that is malformed and for the first field, in the struct's
// order, that does not take its value. Fields before it are set then.
func (r *Request) BindQuery(v any) error {
	values, err := url.ParseQuery(r.RawQuery())
	if err != nil {
		return badInput("", "query: %s", err)
	}
	return bindValues(v, values, nil)
}

// BindForm is BindQuery for the fields of a form, and behind them the query's parameters. The
// body's type must be application/x-www-form-urlencoded (at most 10 MiB) or multipart/form-data,
// else the error is a *BindError with status 415. Files of a multipart form go to fields that are a
// *multipart.FileHeader or a slice of these. The form is read as MultipartForm(1 MiB) does; Parts
// reads one without keeping it. Other errors are those of Form and of MultipartForm.
func (r *Request) BindForm(v any) error {
	query, err := url.ParseQuery(r.RawQuery())
	if err != nil {
		return badInput("", "query: %s", err)
	}
	switch kind, _ := r.mediaType(); kind {
	case "application/x-www-form-urlencoded":
		form, err := r.Form()
		if err != nil {
			return r.badForm(err)
		}
		return bindValues(v, form, nil)
	case "multipart/form-data":
		form, err := r.MultipartForm(maxFormMemory)
		if err != nil {
			return r.badForm(err)
		}
		values := url.Values(maps.Clone(form.Value)) // form is the request's
		for name, more := range query {
			values[name] = append(slices.Clip(values[name]), more...)
		}
		return bindValues(v, values, form.File)
	}
	return r.otherType("application/x-www-form-urlencoded or multipart/form-data")
}

// badForm makes an error of Form or MultipartForm a BindError if the form itself is malformed, and
// not the body that it stands in, and if it is not the server that cannot keep it.
func (r *Request) badForm(err error) error {
	if err == ErrBodyRead ||
		err != ErrNoForm && (r.body.ended() != io.EOF || errors.As(err, new(*fs.PathError)) ||
			errors.Is(err, loop.ErrCanceled)) {
		return err
	}
	return badInput("", "form: %s", err)
}

// bound is a field that a tag names.
type bound struct {
	index    []int
	name     string
	required bool
	several  bool
	file     bool
	set      func(v reflect.Value, text string) string // returns what was expected, "" if v is set
	text     bool                                      // an empty one is a value
}

var (
	boundFields sync.Map // reflect.Type to []bound
	textType    = reflect.TypeFor[encoding.TextUnmarshaler]()
	fileType    = reflect.TypeFor[*multipart.FileHeader]()
)

func bindValues(v any, values url.Values, files map[string][]*multipart.FileHeader) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() || target.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("conn: BindForm and BindQuery need a pointer to a struct, not %T", v))
	}
	target = target.Elem()
	known, ok := boundFields.Load(target.Type())
	if !ok {
		known, _ = boundFields.LoadOrStore(target.Type(), appendBound(nil, target.Type(), nil))
	}
	for _, f := range known.([]bound) {
		if f.file {
			if !f.setFiles(target, files[f.name]) {
				return badInput(f.name, "field %q: missing", f.name)
			}
			continue
		}
		if err := f.setTexts(target, values[f.name]); err != nil {
			return err
		}
	}
	return nil
}

func (f *bound) setFiles(target reflect.Value, files []*multipart.FileHeader) bool {
	if len(files) == 0 {
		return !f.required
	}
	if f.several {
		target.FieldByIndex(f.index).Set(reflect.ValueOf(files))
	} else {
		target.FieldByIndex(f.index).Set(reflect.ValueOf(files[0]))
	}
	return true
}

func (f *bound) setTexts(target reflect.Value, texts []string) error {
	if !f.several && len(texts) > 1 {
		texts = texts[:1]
	}
	if f.required || !f.text { // an input that was left empty
		texts = slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return text == "" })
	}
	if len(texts) == 0 {
		if f.required {
			return badInput(f.name, "field %q: missing", f.name)
		}
		return nil
	}
	field := target.FieldByIndex(f.index)
	if !f.several {
		return f.setOne(field, texts[0])
	}
	all := reflect.MakeSlice(field.Type(), len(texts), len(texts))
	for i, text := range texts {
		if err := f.setOne(all.Index(i), text); err != nil {
			return err
		}
	}
	field.Set(all)
	return nil
}

func (f *bound) setOne(v reflect.Value, text string) error {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if want := f.set(v, text); want != "" {
		return badInput(f.name, "field %q: expected %s, not %q", clipText(f.name), want, clipText(text))
	}
	return nil
}

// appendBound appends the fields of a struct type.
func appendBound(all []bound, t reflect.Type, index []int) []bound {
	for i := range t.NumField() {
		field := t.Field(i)
		at := append(index[:len(index):len(index)], i)
		tag, tagged := field.Tag.Lookup("form")
		if field.Anonymous && !tagged && field.Type.Kind() == reflect.Struct {
			all = appendBound(all, field.Type, at)
			continue
		}
		name, option, _ := strings.Cut(tag, ",")
		if !tagged || name == "-" {
			continue
		}
		wrong := func(why string) string {
			return fmt.Sprintf("conn: field %s of %s: %s", field.Name, t, why)
		}
		switch {
		case !field.IsExported():
			panic(wrong("has a tag form and is not exported"))
		case name == "":
			panic(wrong("the tag form has no name"))
		case option != "" && option != "required":
			panic(wrong(fmt.Sprintf("the tag form has an unknown option %q", option)))
		}
		f := bound{index: at, name: name, required: option == "required"}
		kind := field.Type
		if kind.Kind() == reflect.Slice && !reflect.PointerTo(kind).Implements(textType) {
			f.several, kind = true, kind.Elem()
		}
		if f.file = kind == fileType; !f.file {
			if kind.Kind() == reflect.Pointer {
				kind = kind.Elem()
			}
			if f.set = setterOf(kind); f.set == nil {
				panic(wrong("cannot be of type " + field.Type.String()))
			}
			f.text = kind.Kind() == reflect.String && !reflect.PointerTo(kind).Implements(textType)
		}
		all = append(all, f)
	}
	return all
}

// setterOf returns what sets a value of type t, nil if there is nothing.
func setterOf(t reflect.Type) func(v reflect.Value, text string) string {
	if reflect.PointerTo(t).Implements(textType) {
		want := "a valid value"
		if t == reflect.TypeFor[time.Time]() {
			want = "a time such as 2006-01-02T15:04:05Z"
		}
		return func(v reflect.Value, text string) string {
			if v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)) != nil {
				return want
			}
			return ""
		}
	}
	if t == reflect.TypeFor[time.Duration]() {
		return func(v reflect.Value, text string) string {
			d, err := time.ParseDuration(text)
			if err != nil {
				return "a duration such as 1m30s"
			}
			v.SetInt(int64(d))
			return ""
		}
	}
	switch t.Kind() {
	case reflect.String:
		return func(v reflect.Value, text string) string {
			v.SetString(text)
			return ""
		}
	case reflect.Bool:
		return setBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		bits := t.Bits()
		return func(v reflect.Value, text string) string {
			n, err := strconv.ParseInt(text, 10, bits)
			if errors.Is(err, strconv.ErrSyntax) {
				return "an integer"
			}
			if err != nil {
				return fmt.Sprintf("an integer from %d to %d", int64(-1)<<(bits-1), int64(1)<<(bits-1)-1)
			}
			v.SetInt(n)
			return ""
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		bits := t.Bits()
		return func(v reflect.Value, text string) string {
			n, err := strconv.ParseUint(text, 10, bits)
			if errors.Is(err, strconv.ErrSyntax) && !strings.HasPrefix(text, "-") {
				return "an integer"
			}
			if err != nil {
				return fmt.Sprintf("an integer from 0 to %d", ^uint64(0)>>(64-bits))
			}
			v.SetUint(n)
			return ""
		}
	case reflect.Float32, reflect.Float64:
		bits := t.Bits()
		return func(v reflect.Value, text string) string {
			n, err := strconv.ParseFloat(text, bits)
			if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
				return "a number"
			}
			v.SetFloat(n)
			return ""
		}
	}
	return nil
}

func setBool(v reflect.Value, text string) string {
	on, err := strconv.ParseBool(text)
	switch {
	case text == "on":
		on = true
	case text == "off":
		on = false
	case err != nil:
		return "true or false"
	}
	v.SetBool(on)
	return ""
}
