package config_test

import (
	"encoding"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/test/ci"
)

// values are one of each type that TOML has, and lists and tables of them.
var values = []string{
	`"x"`, `""`, `3`, `-1`, `9223372036854775807`, `2.5`, `nan`, `true`,
	`2026-02-03T04:05:06Z`, `2026-02-03`, `04:05:06`,
	`[]`, `["x"]`, `["x", "x"]`, `[3]`, `[2.5]`, `[true]`, `[2026-02-03]`, `[[]]`, `[["x"]]`,
	`["x", 3]`,
	`{}`, `{ x = "x" }`, `{ x = 3 }`, `{ x = {} }`, `[{}]`, `[{ x = 3 }]`, `[{}, "x"]`,
}

// decoded are values as TOML reads them.
var decoded = sync.OnceValue(func() map[string]any {
	all := make(map[string]any)
	for _, value := range values {
		var table map[string]any
		if _, err := toml.Decode("v = "+value, &table); err != nil {
			panic(err)
		}
		all[value] = table["v"]
	}
	return all
})

// inTurn reports whether a test tries a value at a spot, by their places in their lists. .ci/run
// tries all of them together. A newcomer's run tries each third: every value at a third of the
// spots, and at every spot a third of the values.
func inTurn(spot, value int) bool { return ci.Enabled() || (spot+value)%3 == 0 }

// spot is a place where a value can stand.
type spot struct {
	before string // the lines above it
	key    string // as it is written
	name   string // as errors call it
	typ    reflect.Type
	none   bool // -1 is none
	tag    reflect.StructTag
}

// spots finds the keys of a struct type, and of what is in it.
func spots(before, name string, typ reflect.Type) (all []spot) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		key, ok := f.Tag.Lookup("toml")
		if key == ",inline" {
			all = append(all, spots(before, name, f.Type)...)
			continue
		}
		if !ok || key == "-" || key[0] == ',' {
			continue
		}
		at := spot{before, key, strings.TrimPrefix(name+"."+key, "."), f.Type, f.Tag.Get("min") == "-1",
			f.Tag}
		all = append(all, at)
		inner := f.Type
		list := inner.Kind() == reflect.Slice
		if list || inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		header := fmt.Sprintf("%s[%s]\n", before, at.name)
		if list {
			header = fmt.Sprintf("%s[[%s]]\n", before, at.name)
		}
		switch {
		case f.Type.Kind() == reflect.Map:
			all = append(all, spot{header, "x", at.name + ".x", f.Type.Elem(), false, ""})
		case inner.Kind() == reflect.Struct && !isText(inner):
			all = append(all, spots(header, at.name, inner)...)
		}
	}
	return all
}

func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// takes reports whether a value is of the type that a key has.
func takes(t reflect.Type, value any) bool {
	switch value := value.(type) {
	case string:
		if t == reflect.TypeFor[time.Duration]() || t == reflect.TypeFor[handlers.Size]() || isText(t) {
			return true
		}
	case int64:
		if t == reflect.TypeFor[time.Duration]() {
			return false
		}
	case []map[string]any:
		for _, v := range value {
			if t.Kind() != reflect.Slice || !takes(t.Elem(), v) {
				return false
			}
		}
		return true
	case []any:
		for _, v := range value {
			if t.Kind() != reflect.Slice || !takes(t.Elem(), v) {
				return false
			}
		}
		return t.Kind() == reflect.Slice
	}
	got := reflect.TypeOf(value).Kind()
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return takes(t.Elem(), value)
	case reflect.Struct:
		for i := range t.NumField() {
			if got == reflect.Bool && t.Field(i).Tag.Get("toml") == ",switch" {
				return true
			}
		}
		return got == reflect.Map && !isText(t)
	case reflect.Map:
		m, ok := value.(map[string]any)
		for _, v := range m {
			ok = ok && takes(t.Elem(), v)
		}
		return ok
	case reflect.Float64:
		return got == reflect.Float64 || got == reflect.Int64
	case reflect.Int, reflect.Int64:
		return got == reflect.Int64
	}
	return got == t.Kind()
}

// takesTable reports whether a key can have keys below it.
func takesTable(t reflect.Type) bool { return takes(t, map[string]any{}) }

// allSpots are those of the whole file, and of every module's route.
func allSpots() []spot {
	all := spots("", "", reflect.TypeFor[config.Config]())
	for _, name := range config.Builtin().ModuleNames() {
		m, _ := config.Builtin().Module(name)
		for _, at := range spots("", "site.route", reflect.TypeOf(m.NewSettings()).Elem()) {
			before := fmt.Sprintf("[[site]]\n[[site.route]]\nprefix = \"/\"\nmodule = %q\n", name)
			for _, needed := range []string{`address = "127.0.0.1:9"`, `script_path = "."`, `path = "."`,
				`to = "/"`} {
				key, _, _ := strings.Cut(needed, " ")
				keys := settings.Keys(m.NewSettings())
				if key != at.key && slices.Contains(keys, key) {
					before += needed + "\n"
				}
			}
			at.before = before + at.before
			all = append(all, at)
		}
	}
	return all
}

// Every key with a value of every type: what does not fit is an error with file, line and key, and
// nothing panics. The keys are those of the structs, so that a new one is covered by itself.
func TestEveryKeyWithEveryType(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "t.conf")
	all := allSpots()
	refused := 0
	try := func(at spot, text string, line int, fits bool) {
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("panic: %v\n%s", p, text)
			}
		}()
		_, err := source().Parse(file, text)
		var errs settings.Errors
		if err != nil && !errors.As(err, &errs) {
			t.Errorf("an error without a place: %v\n%s", err, text)
			return
		}
		named := false
		for _, e := range errs {
			if e.File != file || e.Line < 1 || e.Key == "" || e.Msg == "" {
				t.Errorf("an error without a place: %v\n%s", e, text)
			}
			named = named || e.Line == line && (e.Key == at.name || strings.HasPrefix(e.Key, at.name+"."))
			if e.Line == line && e.Key != at.name && strings.HasPrefix(e.Key, at.name+".") &&
				!takesTable(at.typ) {
				t.Errorf("%v: of something that is not there:\n%s", e, text)
			}
		}
		if !fits && !named {
			t.Errorf("want an error of %s in line %d, got %v\n%s", at.name, line, err, text)
		}
		if !fits {
			refused++
		}
	}
	for i, at := range all {
		line := strings.Count(at.before, "\n") + 1
		for j, value := range values {
			is := decoded()[value]
			fits := takes(at.typ, is) || at.none && is == int64(-1)
			if fits || inTurn(i, j) {
				try(at, at.before+at.key+" = "+value+"\n", line, fits)
			}
		}
		if at.before == "" {
			try(at, "["+at.key+"]\n", 1, takes(at.typ, map[string]any{}))
			try(at, "[["+at.key+"]]\n", 1, takes(at.typ, []map[string]any{{}}))
		}
	}
	if refused < 950 {
		t.Errorf("only %d values of a wrong type were tried", refused)
	}
	t.Logf("%d keys, %d values of a wrong type", len(all), refused)
}
