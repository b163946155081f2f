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

// rewrite makes a file of tests use our httptest: its import; each call h.ServeHTTP(w, r), which
// becomes Serve(h.ServeHTTP, w, r); and a recorder w that the test has made. That becomes Writer(w)
// where it is given to something else, and Done(w) where the test looks at it or returns it. Lines
// keep their numbers.
func rewrite(name string, src []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	var edits []edit
	wrap := func(e ast.Expr, function string) {
		edits = append(edits, edit{at(e.Pos()), at(e.Pos()), "interop." + function + "("},
			edit{at(e.End()), at(e.End()), ")"})
	}
	for _, spec := range file.Imports {
		if path, _ := strconv.Unquote(spec.Path.Value); path == "net/http/httptest" {
			edits = append(edits, edit{at(spec.Path.Pos()), at(spec.Path.End()), strconv.Quote(ours)})
		}
	}
	imports := len(edits)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ReturnStmt:
			for _, result := range n.Results {
				if isRecorder(result) {
					wrap(result, "Done")
				}
			}
		case *ast.SelectorExpr:
			if !isRecorder(n.X) {
				break
			}
			switch n.Sel.Name {
			case "Code", "Body", "Flushed", "Result":
				wrap(n.X, "Done")
			}
		case *ast.CallExpr:
			called := ""
			switch f := n.Fun.(type) {
			case *ast.Ident:
				called = f.Name
			case *ast.SelectorExpr:
				called = f.Sel.Name
				if isRecorder(f.X) && called == "Header" {
					edits = append(edits, edit{at(f.X.Pos()), at(f.X.Pos()), "interop.Header("},
						edit{at(f.X.End()), at(n.Rparen), ""})
				}
			}
			switch {
			case called == "ServeHTTP" && len(n.Args) == 2:
				edits = append(edits, edit{at(n.Pos()), at(n.Pos()), "interop.Serve("},
					edit{at(n.Lparen), at(n.Lparen) + 1, ", "})
			case called != "Equal" && called != "Same": // of testify
				for _, arg := range n.Args {
					if isRecorder(arg) {
						wrap(arg, "Writer")
					}
				}
			}
		}
		return true
	})
	if len(edits) > imports {
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

// isRecorder reports whether e is a variable that is set to httptest.NewRecorder() where it is
// declared.
func isRecorder(e ast.Expr) bool {
	ident, ok := e.(*ast.Ident)
	if !ok || ident.Obj == nil {
		return false
	}
	assign, ok := ident.Obj.Decl.(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != len(assign.Rhs) {
		return false
	}
	for i, left := range assign.Lhs {
		if l, ok := left.(*ast.Ident); ok && l.Obj == ident.Obj {
			call, ok := assign.Rhs[i].(*ast.CallExpr)
			if !ok {
				return false
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			return ok && f.Sel.Name == "NewRecorder"
		}
	}
	return false
}
