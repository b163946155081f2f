package main

import (
	"encoding"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/process/config"
)

// table is the keys of one struct.
type table struct {
	name   string // as a heading, such as [[site.route]]
	module string // the module that has the keys; empty for what is the server's
	typ    reflect.Type
	keys   []key
}

// key is one setting.
type key struct {
	name, kind, fallback, span, text string

	typ reflect.Type
	tag reflect.StructTag
	sub *table // of a table or a list of tables
}

// reader collects tables from structs, and their texts from the sources and manuals below root.
type reader struct {
	root   string
	texts  map[string]map[string]string // by package and struct, and by field
	tables []*table
	seen   map[reflect.Type]*table
	errs   []error
}

// read returns the tables of the configuration, each type of them once, in the order in which they
// come up, and those of the modules behind them.
func read(root string) ([]*table, error) {
	r := &reader{root: root, texts: map[string]map[string]string{}, seen: map[reflect.Type]*table{}}
	r.table("", reflect.ValueOf(config.Defaults()).Elem())
	modules := config.Builtin()
	for _, name := range modules.ModuleNames() {
		m, _ := modules.Module(name)
		v := reflect.ValueOf(m.NewSettings()).Elem()
		t := r.table("module "+name, v)
		t.module = name
		r.manual(t, t.typ.PkgPath())
		if shared := r.seen[reflect.TypeFor[config.Upstream]()]; name == "proxy" {
			r.manual(shared, t.typ.PkgPath())
		}
	}
	for _, t := range r.tables {
		for _, k := range t.keys {
			if k.text == "" {
				r.errs = append(r.errs, fmt.Errorf("%s %s of %v has no comment", t.name, k.name, t.typ))
			}
		}
	}
	if len(r.errs) > 0 {
		return nil, r.errs[0]
	}
	return r.tables, nil
}

func (r *reader) table(name string, v reflect.Value) *table {
	if t := r.seen[v.Type()]; t != nil {
		return t
	}
	t := &table{name: name, typ: v.Type()}
	r.seen[t.typ] = t
	r.tables = append(r.tables, t)
	t.keys = r.keys(name, v)
	return t
}

func (r *reader) keys(at string, v reflect.Value) (all []key) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("toml")
		switch {
		case !ok || tag == "-" || tag != ",inline" && strings.HasPrefix(tag, ","):
			continue
		case tag == ",inline":
			all = append(all, r.keys(at, v.Field(i))...)
			continue
		}
		k := key{name: tag, typ: f.Type, tag: f.Tag, kind: kindOf(f.Type), text: r.text(t, f.Name),
			span: spanOf(f.Tag), fallback: fallbackOf(v.Field(i))}
		if v.Field(i).IsZero() && strings.Contains(k.text, "by default") {
			k.fallback = "" // it is computed
		}
		elem := f.Type
		path := strings.Trim(at, "[]")
		if strings.HasPrefix(path, "module ") {
			path = "site.route"
		}
		if path != "" {
			path += "."
		}
		path = "[" + path + tag + "]"
		inner := v.Field(i)
		for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice {
			if elem.Kind() == reflect.Slice {
				path = "[" + strings.Trim(path, "[]") + "]"
				if tag != "tls" { // written as a table, or as a list of some
					path = "[" + path + "]"
				}
			}
			elem = elem.Elem()
			inner = reflect.New(elem).Elem()
			tags.Fill(inner, f.Tag)
		}
		if isTable(elem) {
			k.fallback = ""
			k.sub = r.table(path, inner)
		}
		all = append(all, k)
	}
	return all
}

// text is the comment of a field, without the field's name in front.
func (r *reader) text(t reflect.Type, field string) string {
	of := t.PkgPath() + "." + t.Name()
	if r.texts[of] == nil {
		if err := r.parse(t.PkgPath()); err != nil {
			r.errs = append(r.errs, err)
		}
	}
	words := strings.Fields(r.texts[of][field])
	if len(words) > 0 && words[0] == field {
		words = words[1:]
	}
	for len(words) > 0 && (words[0] == "is" || words[0] == "are") {
		words = words[1:]
	}
	return strings.TrimSuffix(strings.Join(words, " "), ".")
}

const modulePath = "github.com/lwango/lwango/"

func (r *reader) parse(pkg string) error {
	dir := filepath.Join(r.root, strings.TrimPrefix(pkg, modulePath))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			s, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			texts := map[string]string{}
			for _, f := range s.Fields.List {
				for _, name := range f.Names {
					texts[name.Name] = f.Doc.Text() + f.Comment.Text()
				}
			}
			r.texts[pkg+"."+spec.Name.Name] = texts
			return true
		})
	}
	return nil
}

var row = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([^|]*) \\| ((?:[^|\\\\]|\\\\.)*) \\|$")

// manual takes texts and defaults from the table in the manual of a module, whose package is pkg. A
// test of internal/process/config compares it with the module.
func (r *reader) manual(t *table, pkg string) {
	dir := strings.TrimPrefix(pkg, modulePath)
	text, err := os.ReadFile(filepath.Join(r.root, dir, "README.md"))
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	_, settings, _ := strings.Cut(string(text), "\n## Settings\n")
	settings, _, _ = strings.Cut(settings, "\n## ")
	for _, m := range row.FindAllStringSubmatch(settings, -1) {
		for i := range t.keys {
			if k := &t.keys[i]; k.name == m[1] {
				k.fallback = strings.TrimSpace(m[2])
				if one := strings.Trim(k.fallback, "`"); !strings.Contains(one, "`") {
					k.fallback = one
				}
				k.text = link.ReplaceAllStringFunc(strings.ReplaceAll(m[3], `\|`, "|"), func(s string) string {
					parts := link.FindStringSubmatch(s)
					return "[" + parts[1] + "](" + rebased(parts[2], dir) + ")"
				})
			}
		}
	}
}

var link = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)

// rebased makes a link of a folder's README.md one of docs/use.
func rebased(to, dir string) string {
	switch {
	case strings.Contains(to, "://"):
		return to
	case strings.HasPrefix(to, "#"):
		return "../../" + dir + "/README.md" + to
	}
	return filepath.ToSlash(filepath.Join("../..", dir, to))
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[handlers.Size]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func isTable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(textType)
}

func kindOf(t reflect.Type) string {
	switch {
	case t == durationType:
		return "duration"
	case t == sizeType:
		return "size"
	case reflect.PointerTo(t).Implements(textType):
		return "string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Slice:
		return kindOf(t.Elem()) + ", or a list"
	case reflect.Map:
		return "table of " + kindOf(t.Elem()) + " by name"
	case reflect.Struct:
		if hasSwitch(t) {
			return "table, true or false"
		}
		return "table"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.String:
		return "string"
	}
	return "integer"
}

func hasSwitch(t reflect.Type) bool {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("toml") == ",switch" {
			return true
		}
	}
	return false
}

func spanOf(tag reflect.StructTag) string {
	low, high := tag.Get("min"), tag.Get("max")
	switch words := strings.Fields(tag.Get("oneof")); {
	case len(words) > 0:
		for i, w := range words {
			words[i] = strconv.Quote(w)
		}
		return strings.Join(words, " or ")
	case low != "" && high != "":
		return low + " to " + high
	case low != "":
		return "at least " + low
	case high != "":
		return "at most " + high
	}
	return ""
}

// fallbackOf is the default, as TOML; empty if the zero value of a string or a list says that there
// is none.
func fallbackOf(v reflect.Value) string {
	switch t := v.Type(); {
	case t == durationType:
		return `"` + shortened(time.Duration(v.Int())) + `"`
	case t == sizeType:
		return fmt.Sprintf("%q", handlers.Size(v.Int()).String())
	case t.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	case t.Kind() == reflect.String && v.Len() > 0:
		return strconv.Quote(v.String())
	}
	return ""
}

// shortened leaves the zeros out that String has behind minutes and hours.
func shortened(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
