package repo_test

import (
	"bytes"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/must"
)

// TestSignaturesNameNoInternalType: what a program can call, it can also name: no exported
// declaration of a public package has a type of an internal package in it.
func TestSignaturesNameNoInternalType(t *testing.T) {
	// With the profile of cmd/lwango, its packages would be there a second time, with its name behind
	// theirs.
	list := exec.Command("go", "list", "-pgo=off", "-export", "-deps", "-f",
		"{{.ImportPath}} {{.Export}}", module+"/...")
	list.Stderr = os.Stderr
	out := must.Get(list.Output())(t)
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
	imports := importer.ForCompiler(token.NewFileSet(), "gc", open)
	outside := []string{"internal", "cmd", "samples", "bench", "interop"}
	for path, file := range files {
		name := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		// Without a file, a package has nothing but tests.
		if file == "" || !strings.HasPrefix(path, module) ||
			slices.ContainsFunc(strings.Split(name, "/"), func(dir string) bool {
				return slices.Contains(outside, dir)
			}) {
			continue
		}
		p := must.Get(imports.Import(path))(t)
		for _, name := range p.Scope().Names() {
			o := p.Scope().Lookup(name)
			if !o.Exported() {
				continue
			}
			declared(o, func(part string, at types.Type) {
				if found := internalIn(at); found != "" {
					t.Errorf("%s.%s names a type of %s", path, part, found)
				}
			})
		}
	}
}

// declared calls visit for the types in the exported declaration of o, with their names there.
func declared(o types.Object, visit func(part string, t types.Type)) {
	name, ok := o.(*types.TypeName)
	if !ok {
		visit(o.Name(), o.Type())
		return
	}
	if a, ok := o.Type().(*types.Alias); ok {
		visit(name.Name(), a.Rhs())
		return
	}
	named := o.Type().(*types.Named)
	for i := range named.TypeParams().Len() {
		visit(name.Name(), named.TypeParams().At(i).Constraint())
	}
	if s, ok := named.Underlying().(*types.Struct); ok {
		for f := range s.Fields() {
			if f.Exported() {
				visit(name.Name()+"."+f.Name(), f.Type())
			}
		}
	} else {
		visit(name.Name(), named.Underlying())
	}
	for m := range named.Methods() {
		if m.Exported() {
			visit(name.Name()+"."+m.Name(), m.Type())
		}
	}
}

// internalIn returns the name of an internal type that t names, or "".
func internalIn(t types.Type) (found string) {
	var b bytes.Buffer
	types.WriteType(&b, t, func(p *types.Package) string {
		if strings.HasPrefix(p.Path(), module) && strings.Contains(p.Path(), "/internal/") {
			found = p.Path()
		}
		return p.Name()
	})
	return found
}

// TestMethodsOfHandlers: the methods that the comments of lwango.Request and Response list are
// there, under which a newcomer looks: they are aliases, of which go doc shows no method.
func TestMethodsOfHandlers(t *testing.T) {
	for name, of := range map[string]reflect.Type{
		"Request": reflect.TypeFor[*lwango.Request](), "Response": reflect.TypeFor[*lwango.Response](),
	} {
		text := must.Get(exec.Command("go", "doc", module, name).Output())(t)
		n := 0
		for line := range strings.Lines(string(text)) {
			list, ok := strings.CutPrefix(line, "        ") // a line of code in a comment
			if !ok {
				continue
			}
			list, _, _ = strings.Cut(list, "  ")
			for _, method := range strings.Fields(list) {
				n++
				if _, ok := of.MethodByName(method); !ok {
					t.Errorf("%s has no method %s", name, method)
				}
			}
		}
		if n < 15 {
			t.Errorf("%s: %d methods in\n%s", name, n, text)
		}
	}
}
