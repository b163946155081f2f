package repo_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// without are packages whose examples need more than a test has, so that they are only compiled.
var without = map[string]string{
	"github.com/lwango/lwango/pubsub/redis": "a broker",
	"github.com/lwango/lwango/lwangotest":   "a *testing.T",
}

// TestExamples: each package that a program can import has an example, and one that is run.
func TestExamples(t *testing.T) {
	out := must.Get(exec.Command("go", "list", "-f",
		`{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}} {{.Dir}}{{end}}`, "./...").Output())(t)
	n := 0
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path == "" || strings.Contains(path+"/", "/internal/") {
			continue
		}
		n++
		files := must.Get(filepath.Glob(filepath.Join(dir, "*_test.go")))(t)
		var parsed []*ast.File
		fset := token.NewFileSet()
		for _, file := range files {
			f := must.Get(parser.ParseFile(fset, file, nil, parser.ParseComments))(t)
			parsed = append(parsed, f)
		}
		examples, runs := doc.Examples(parsed...), false
		for _, e := range examples {
			runs = runs || e.Output != "" || e.EmptyOutput
		}
		switch {
		case len(examples) == 0:
			t.Errorf("%s has no example", path)
		case !runs && without[path] == "":
			t.Errorf("%s has no example with an output", path)
		case runs && without[path] != "":
			t.Errorf("%s has an example with an output, although that needs %s", path, without[path])
		}
	}
	if n < 20 {
		t.Errorf("only %d packages", n)
	}
}
