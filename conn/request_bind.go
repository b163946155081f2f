package conn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"unicode/utf8"
)

// maxJSONSize limits a body of JSON, which is read into memory as a whole.
const maxJSONSize = 10 << 20

// maxJSONDepth limits how deep arrays and objects of a body may be nested: the decoder calls itself
// for each level, and the stack of its thread would keep what that takes.
const maxJSONDepth = 256

// BindError says what is wrong with what a client has sent. Its text is for the client: it names
// positions and fields of the input, and no types of the program. See Response.Error.
type BindError struct {
	Status int    // 400, or 415 for a body of another type
	Field  string // the name of the field or the parameter, "" if it is none
	Err    error
}

func (e *BindError) Error() string { return e.Err.Error() }

func (e *BindError) Unwrap() error { return e.Err }

// badInput makes a BindError with status 400. Its text has a limit: the client chooses what is
// quoted there.
func badInput(field, format string, args ...any) error {
	return &BindError{http.StatusBadRequest, clipText(field),
		errors.New(clipText(fmt.Sprintf(format, args...)))}
}

// maxBindText is the length in bytes of what a text for the client repeats of its input.
const maxBindText = 256

func clipText(s string) string {
	if len(s) <= maxBindText {
		return s
	}
	n := maxBindText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// BindJSON reads the body, whose type must be application/json or end with +json, and sets v, a
// pointer, as json.Unmarshal does: names are compared in any case, and unknown ones are ignored.
// The body must be one value, with no more than white space behind it.
//
// A *BindError says what is wrong: with status 415 the type, with 400 the syntax, a value that v
// cannot take, or arrays and objects in more than 256 levels. Then v may be set in part. The body
// may have 10 MiB, or less if Body.SetLimit says so: else the error is ErrBodyTooLarge, before the
// body is read if Content-Length tells. ErrBodyRead says that the handler has read all of the body
// before. Other errors are those of Body.Read. A body of more than 256 KiB is decoded off the loop,
// by one of the workers of Await; an UnmarshalJSON method must not use the request.
func (r *Request) BindJSON(v any) error { return r.bindJSON(v, false) }

// BindJSONStrictly is BindJSON that does not ignore names that v does not have: they are a
// *BindError, too.
func (r *Request) BindJSONStrictly(v any) error { return r.bindJSON(v, true) }

func (r *Request) bindJSON(v any, strict bool) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		panic(fmt.Sprintf("conn: BindJSON needs a pointer, not %T", v))
	}
	if kind, _ := r.mediaType(); kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return r.otherType("application/json")
	}
	r.body.SetLimit(maxJSONSize)
	if r.body.replacement != nil {
		if err := r.body.taken(); err != nil {
			return err
		}
	}
	before := r.body.read
	text, _, err := r.gather(maxJSONSize)
	switch err {
	case io.EOF:
	case nil:
		return ErrBodyTooLarge
	default:
		return err
	}
	if before > 0 && len(text) == 0 && r.body.replacement == nil {
		return ErrBodyRead
	}
	if len(text) <= turnBudget {
		return decodeJSON(text, v, strict)
	}
	// The function sets a variable of its own: if the wait ends before it, it still runs then.
	own := reflect.New(target.Type().Elem())
	own.Elem().Set(target.Elem())
	// the body is complete: a client that has sent FIN gets its answer
	defer r.KeepWaiting(r.KeepWaiting(true))
	decode := func(context.Context) error { return decodeJSON(text, own.Interface(), strict) }
	if err := r.Await(-1, decode); err != nil {
		return err
	}
	target.Elem().Set(own.Elem())
	return nil
}

// otherType is the error for a body that is not of the type that is wanted.
func (r *Request) otherType(want string) error {
	has := "a body without Content-Type"
	if t := r.Header().Get("Content-Type"); t != "" {
		has = fmt.Sprintf("%q", clipText(t))
	}
	return &BindError{http.StatusUnsupportedMediaType, "",
		fmt.Errorf("expected Content-Type %s, not %s", want, has)}
}

// decodeJSON sets v. It may run on any goroutine.
func decodeJSON(text []byte, v any, strict bool) error {
	if len(bytes.TrimLeft(text, " \t\r\n")) == 0 {
		return badInput("", "expected JSON, not an empty body")
	}
	if at := tooDeep(text); at >= 0 {
		return badInput("", "JSON%s: more than %d levels", position(text, int64(at)), maxJSONDepth)
	}
	if !strict {
		return explainJSON(text, json.Unmarshal(text, v))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return explainJSON(text, err)
	}
	end := d.InputOffset()
	if rest := bytes.TrimLeft(text[end:], " \t\r\n"); len(rest) > 0 {
		return badInput("", "JSON%s: more behind the value", position(text, int64(len(text)-len(rest))))
	}
	return nil
}

// tooDeep returns where an array or an object begins that is nested too deep, -1 if none is.
func tooDeep(text []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
			if c == '\\' {
				i++
			}
		case c == '[' || c == '{':
			if depth++; depth > maxJSONDepth {
				return i
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return -1
}

// position names a byte of a text for people, who count lines and columns from 1.
func position(text []byte, at int64) string {
	before := text[:min(at, int64(len(text)))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf(", line %d, column %d", line, column)
}

// explainJSON makes an error of package encoding/json one for the client.
func explainJSON(text []byte, err error) error {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return badInput("", "JSON%s: unexpected end of JSON input", position(text, int64(len(text))))
	case errors.As(err, &syntax): // Offset counts the byte at fault, unless that is the end
		at := syntax.Offset
		if !strings.Contains(syntax.Error(), "end of JSON input") {
			at--
		}
		return badInput("", "JSON%s: %s", position(text, at), syntax)
	case errors.As(err, &mismatch):
		has, at := mismatch.Value, position(text, mismatch.Offset-1)
		if want := jsonKind(mismatch.Type); want != "" && !strings.HasPrefix(has, "number ") {
			has = "expected " + want + ", not " + has
		} else {
			has += " does not fit"
		}
		if mismatch.Field != "" {
			return badInput(mismatch.Field, "JSON%s: field %q: %s", at, clipText(mismatch.Field), has)
		}
		return badInput("", "JSON%s: %s", at, has)
	}
	// An unknown field, or the error of an UnmarshalJSON or UnmarshalText method of the program.
	why := strings.TrimPrefix(err.Error(), "json: ")
	if strings.HasPrefix(why, "invalid use of ,string struct tag") { // the rest names types
		return badInput("", "JSON: expected a string with a number, or with true or false, in it")
	}
	field := ""
	if name, ok := strings.CutPrefix(why, "unknown field "); ok {
		field = strings.Trim(name, `"`)
	}
	return badInput(field, "JSON: %s", why)
}

// jsonKind says in words what a Go type takes, "" if that is not to be said.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	if t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr {
		return "an integer"
	}
	return ""
}
