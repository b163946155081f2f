package repo_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// partsOfConn has the parts of package conn, the highest line first, as conn/doc.go has them. All
// files with another name, or with the prefix exchange_, are the part below these lines.
var partsOfConn = [][]string{
	{"server"},
	{"h1", "h2", "subrequest"},
	{"bridge", "takeover"},
	{"response"},
	{"request"},
}

// partOfConn returns the part that a file belongs to, and its height.
func partOfConn(file string) (part string, height int) {
	prefix, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".go"), "_")
	for i, line := range partsOfConn {
		if slices.Contains(line, prefix) {
			return prefix, len(partsOfConn) - i
		}
	}
	return "exchange", 0
}

// mostUpwards is how many names parts of package conn may use that a part above, or beside,
// declares. Each name counts once for each part that uses it. Lower the number when there are
// fewer.
const mostUpwards = 65

// TestPartsOfConn counts the names that parts of package conn use against their order: functions,
// types, methods, variables and constants, but not fields.
func TestPartsOfConn(t *testing.T) {
	up := upwards(t, "conn")
	if len(up) > mostUpwards {
		t.Errorf("%d names of package conn are used from below, more than %d:\n%s",
			len(up), mostUpwards, strings.Join(up, "\n"))
	}
	t.Logf("%d of %d", len(up), mostUpwards)
}

// upwards returns the uses of names against the order of parts, as "part > name (file)".
func upwards(t *testing.T, dir string) (up []string) {
	set := token.NewFileSet()
	paths, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	uses := make(map[*ast.Ident]types.Object)
	conf := types.Config{Importer: importer.ForCompiler(set, "gc", exports(t, "./"+dir))}
	pkg, err := conf.Check(dir, set, files, &types.Info{Uses: uses})
	if err != nil {
		t.Fatal(err)
	}
	for id, o := range uses {
		if o.Pkg() != pkg || !hasArrows(pkg, o) {
			continue
		}
		from, height := partOfConn(set.Position(id.Pos()).Filename)
		declared := set.Position(o.Pos()).Filename
		if to, above := partOfConn(declared); to == from || above < height {
			continue
		}
		up = append(up, from+" > "+o.Name()+" ("+filepath.Base(declared)+")")
	}
	slices.Sort(up)
	return slices.Compact(up)
}

// hasArrows reports whether an object of pkg is declared at its top, or is a method.
func hasArrows(pkg *types.Package, o types.Object) bool {
	if o.Parent() == pkg.Scope() {
		return true
	}
	f, ok := o.(*types.Func)
	return ok && f.Signature().Recv() != nil
}

// exports returns a reader of the compiled imports of a package.
func exports(t *testing.T, path string) importer.Lookup {
	cmd := exec.Command("go", "list", "-deps", "-export", "-f", "{{.ImportPath}} {{.Export}}", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	at := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		at[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(at[path]) }
}
