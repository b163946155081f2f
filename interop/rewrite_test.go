package interop

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
)

const ours = "github.com/lwango/lwango/interop/httptest"

// edit replaces the bytes from..to of a source.
type edit struct {
	from, to int
	text     string
}

// rewrite makes a file of tests use our httptest: its import, and each call h.ServeHTTP(w, r), which
// becomes Serve(h.ServeHTTP, w, r). Lines keep their numbers.
func rewrite(name string, src []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	var edits []edit
	for _, spec := range file.Imports {
		if path, _ := strconv.Unquote(spec.Path.Value); path == "net/http/httptest" {
			edits = append(edits, edit{at(spec.Path.Pos()), at(spec.Path.End()), strconv.Quote(ours)})
		}
	}
	serves := false
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "ServeHTTP" {
			serves = true
			edits = append(edits, edit{at(call.Pos()), at(call.Pos()), "interop.Serve("},
				edit{at(call.Lparen), at(call.Lparen) + 1, ", "})
		}
		return true
	})
	if serves {
		end := at(file.Name.End())
		edits = append(edits, edit{end, end, "; import interop " + strconv.Quote(ours)})
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	done := 0
	for _, e := range edits {
		out.Write(src[done:e.from])
		out.WriteString(e.text)
		done = e.to
	}
	out.Write(src[done:])
	return out.Bytes(), nil
}
