package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// optionalOf are the optional methods of a loop.Task that the types of the module mean to have.
var optionalOf = map[string]string{
	"conn.background":     "Client Flush",
	"conn.connection":     "BeforeEnd Client Flush IdleTimedOut",
	"conn.h1Hijacked":     "BeforeEnd Client Notified",
	"conn.h1KeptOpen":     "BeforeEnd",
	"conn.h2Hijacked":     "BeforeEnd Client",
	"conn.h2KeptOpen":     "BeforeEnd",
	"conn.h2stream":       "Client Flush",
	"conn.lingering":      "IdleTimedOut",
	"conn.session":        "BeforeEnd Flush IdleTimedOut",
	"http2client.Session": "BeforeEnd IdleTimedOut",
	"tcpproxy.connection": "Client IdleTimedOut",
}

// TestOptionalMethods: the loop looks for the optional methods of a Task by a type assertion, and
// the compiler does not say that one is missed. So their names and signatures are as the loop's.
func TestOptionalMethods(t *testing.T) {
	set := token.NewFileSet()
	parse := func(file string) *ast.File {
		return must.Get(parser.ParseFile(set, file, nil, parser.SkipObjectResolution|
			parser.ParseComments))(t)
	}
	wanted := map[string]string{} // signatures of the optional methods
	for _, decl := range parse("loop/thread.go").Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || !strings.Contains(group.Doc.Text(), "optional methods of a Task") {
			continue
		}
		for _, spec := range group.Specs {
			for _, m := range spec.(*ast.TypeSpec).Type.(*ast.InterfaceType).Methods.List {
				wanted[m.Names[0].Name] = signature(m.Type.(*ast.FuncType))
			}
		}
	}
	tasks := map[string]map[string]string{} // signatures by type and method
	for _, file := range kept(t, "*.go") {
		if strings.HasSuffix(file, "_test.go") || strings.Contains(file, "testdata/") {
			continue
		}
		for _, decl := range parse(file).Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			of := path.Base(path.Dir(file)) + "." +
				strings.TrimLeft(types.ExprString(f.Recv.List[0].Type), "*")
			if tasks[of] == nil {
				tasks[of] = map[string]string{}
			}
			tasks[of][f.Name.Name] = signature(f.Type)
		}
	}
	for of, methods := range tasks {
		if methods["Run"] != "(*Thread) (coro.Code)" {
			continue
		}
		for name := range wanted {
			if _, has := methods[name]; has && !slices.Contains(strings.Fields(optionalOf[of]), name) {
				t.Errorf("%s.%s is not in the table", of, name)
			}
		}
	}
	for of, names := range optionalOf {
		if tasks[of]["Run"] != "(*Thread) (coro.Code)" {
			t.Errorf("%s is no loop.Task", of)
		}
		for name := range strings.FieldsSeq(names) {
			got, has := tasks[of][name]
			if want, ok := wanted[name]; !ok || !has || got != want {
				t.Errorf("%s.%s has the signature %q, and the loop looks for %q", of, name, got, want)
			}
		}
	}
}

// signature is the types of f, without the names of parameters.
func signature(f *ast.FuncType) string {
	list := func(fields *ast.FieldList) string {
		var all []string
		if fields != nil {
			for _, p := range fields.List {
				text := strings.ReplaceAll(types.ExprString(p.Type), "loop.", "")
				all = append(all, slices.Repeat([]string{text}, max(len(p.Names), 1))...)
			}
		}
		return "(" + strings.Join(all, ", ") + ")"
	}
	return list(f.Params) + " " + list(f.Results)
}
