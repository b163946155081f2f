package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/test/must"
)

// TestModulesStartFromTags: the defaults of a module are the tags of its settings, and nothing
// else.
func TestModulesStartFromTags(t *testing.T) {
	modules := config.Builtin()
	for _, name := range modules.ModuleNames() {
		m, _ := modules.Module(name)
		got := m.NewSettings()
		want := reflect.New(reflect.TypeOf(got).Elem())
		tags.Fill(want.Elem(), "")
		if diff := cmp.Diff(want.Interface(), got); diff != "" {
			t.Errorf("%s (-tags +module):\n%s", name, diff)
		}
	}
}

// computed are the keys whose default the program computes from others, by functions.
var computed = map[string][]string{
	"conn/limits.go:Complete": {"MaxSpool", "MaxConnections",
		"MaxConnectionsPerAddress"},
	"internal/process/tcpproxy/service.go:Build": {"MaxConnections", "MaxConnectionsPerAddress"},

	// Fields of the same name that are no keys.
	"internal/process/config/cache.go:cached":  {"Cache"},
	"internal/process/server/main.go:complete": {"Routes"},
	"internal/process/server/status.go:sum":    {"Cache"},
}

// TestDefaultsAreTags: no code sets the default of a key, a field with a tag `toml:"key"`. It would
// be a composite literal of settings outside of functions, or handed to RegisterModule; or a
// statement that gives the field a value where it has none: if x.Key == 0 { x.Key = 3 }, a case of
// a switch like that, or x.Key = cmp.Or(x.Key, 3).
func TestDefaultsAreTags(t *testing.T) {
	files := make(map[string]*ast.File)
	set := token.NewFileSet()
	must.Do(t, filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && slices.Contains([]string{".git", "bench", "interop", "samples",
			"internal/test", "testdata"}, path) {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files[path], err = parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		}
		return err
	}))
	d := defaults{keys: make(map[string][]string), settings: make(map[string]bool)}
	for path, file := range files {
		d.readKeys(filepath.Dir(path), file)
	}
	if len(d.keys) < 100 || len(d.settings) < 20 {
		t.Fatalf("%d keys of %d structs", len(d.keys), len(d.settings))
	}
	unseen := maps.Clone(computed)
	for path, file := range files {
		d.sees = []string{filepath.Dir(path)}
		for _, i := range file.Imports {
			d.sees = append(d.sees, strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module+"/"))
		}
		for _, decl := range file.Decls {
			name := ""
			if f, ok := decl.(*ast.FuncDecl); ok {
				name = f.Name.Name
			}
			for _, found := range d.literals(decl) {
				delete(unseen, path+":"+name)
				if !slices.Contains(computed[path+":"+name], found.key) {
					t.Errorf("%s: %s has a default here, and not in its tag", set.Position(found.at),
						found.key)
				}
			}
		}
	}
	if len(unseen) > 0 {
		t.Errorf("%v compute no default any more", unseen)
	}
}

// TestDefaultsAreFound: TestDefaultsAreTags finds what it looks for.
func TestDefaultsAreFound(t *testing.T) {
	const head = "package p\ntype Settings struct { Times int `toml:\"times\"` }\n"
	for _, text := range []string{
		"var Defaults = Settings{Times: 3}",
		"var defaults = wrap{Settings: Settings{Times: 3}}",
		"var defaults = &Settings{3}",
		`func f() { handlers.RegisterModule(r, "m", Settings{Times: 3}, build) }`,
		`func f() { handlers.RegisterModule(r, "m", Settings{Times: 3}, build, handlers.Uncached) }`,
		"func f(s Settings) { if s.Times == 0 { s.Times = 3 } }",
		"func f(s *wrap) { if 0 >= s.set.Times { s.set.Times = three } }",
		"func f(s Settings) { switch { case s.Times == 0: s.Times = 3 } }",
		"func f(s Settings) { s.Times = cmp.Or(s.Times, 3) }",
		"func f(s Settings) { s.Times = max(s.Times, 1) }",
		"!var Zero Settings = Settings{}",
		"!func f(s Settings) { g(Settings{Times: 3}); if s.Times == 0 { n = 3 } }",
		"!func f(s wrap) { if s.Other == 0 { s.Other = 3 } }",
	} {
		text, none := strings.CutPrefix(text, "!")
		file := must.Get(parser.ParseFile(token.NewFileSet(), "p.go", head+text, 0))(t)
		d := defaults{keys: make(map[string][]string), settings: make(map[string]bool)}
		d.sees = []string{"p"}
		d.readKeys("p", file)
		if found := d.literals(file.Decls[1]); (len(found) == 0) != none {
			t.Errorf("%s: found %v", text, found)
		}
	}
}

// defaults finds defaults that are not tags.
type defaults struct {
	keys     map[string][]string // the folders of the fields with a key, by their names
	settings map[string]bool     // structs that have some, by folder and name
	sees     []string            // the folders of a file and of what it imports
}

type literal struct {
	key string
	at  token.Pos
}

func (d *defaults) readKeys(dir string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			return false
		}
		for _, f := range s.Fields.List {
			if f.Tag == nil {
				continue
			}
			text, _ := strconv.Unquote(f.Tag.Value)
			key := reflect.StructTag(text).Get("toml")
			if key == "" || key == "-" {
				continue
			}
			d.settings[dir+"."+spec.Name.Name] = true
			for _, name := range f.Names {
				if key[0] != ',' {
					d.keys[name.Name] = append(d.keys[name.Name], dir)
				}
			}
		}
		return false
	})
}

// literals returns the defaults in a declaration of the file.
func (d *defaults) literals(decl ast.Decl) (all []literal) {
	_, function := decl.(*ast.FuncDecl)
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if !function && len(n.Elts) > 0 && d.isSettings(n.Type) {
				all = append(all, literal{types.ExprString(n.Type), n.Pos()})
			}
		case *ast.CallExpr:
			if len(n.Args) >= 4 && strings.HasSuffix(types.ExprString(n.Fun), "RegisterModule") {
				if c, ok := n.Args[2].(*ast.CompositeLit); ok && len(c.Elts) > 0 {
					all = append(all, literal{types.ExprString(c.Type), c.Pos()})
				}
			}
		case *ast.AssignStmt:
			if key, ok := d.fallsBack(n); ok {
				all = append(all, literal{key, n.Pos()})
			}
		case *ast.IfStmt:
			all = append(all, d.set([]ast.Expr{n.Cond}, n.Body.List)...)
		case *ast.CaseClause:
			all = append(all, d.set(n.List, n.Body)...)
		}
		return true
	})
	return all
}

// isSettings reports whether a type is a struct with keys, of the file's package or of another one.
func (d *defaults) isSettings(t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.Ident:
		return d.settings[d.sees[0]+"."+t.Name]
	case *ast.SelectorExpr:
		for name := range d.settings {
			if strings.HasSuffix("/"+name, "/"+types.ExprString(t)) {
				return true
			}
		}
	}
	return false
}

// fallsBack reports whether a statement is x.Key = f(x.Key, ...), with a function that chooses.
func (d *defaults) fallsBack(a *ast.AssignStmt) (key string, ok bool) {
	if len(a.Lhs) != 1 {
		return "", false
	}
	call, ok := a.Rhs[0].(*ast.CallExpr)
	if !ok || len(call.Args) < 2 ||
		!slices.Contains([]string{"cmp.Or", "max"}, types.ExprString(call.Fun)) {
		return "", false
	}
	at := types.ExprString(a.Lhs[0])
	same := func(e ast.Expr) bool { return types.ExprString(e) == at }
	key, ok = d.key(a.Lhs[0])
	return key, ok && slices.ContainsFunc(call.Args, same)
}

// set returns the keys that statements set where conditions compare them with zero.
func (d *defaults) set(conditions []ast.Expr, body []ast.Stmt) (all []literal) {
	for _, c := range conditions {
		b, ok := c.(*ast.BinaryExpr)
		if !ok {
			continue
		}
		x, y := b.X, b.Y
		if isZero(x) {
			x, y = y, x
		}
		key, ok := d.key(x)
		if !ok || !isZero(y) {
			continue
		}
		for _, s := range body {
			if a, ok := s.(*ast.AssignStmt); ok && slices.ContainsFunc(a.Lhs, func(to ast.Expr) bool {
				return types.ExprString(to) == types.ExprString(x)
			}) {
				all = append(all, literal{key, s.Pos()})
			}
		}
	}
	return all
}

// key returns the name of the field that an expression selects, if it has a key.
func (d *defaults) key(e ast.Expr) (name string, ok bool) {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	return s.Sel.Name, slices.ContainsFunc(d.keys[s.Sel.Name], func(dir string) bool {
		return slices.Contains(d.sees, dir)
	})
}

func isZero(e ast.Expr) bool {
	return slices.Contains([]string{"0", `""`, "nil", "false"}, types.ExprString(e))
}
