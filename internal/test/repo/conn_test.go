package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// protocols has the types of package conn that belong to one protocol, by the prefix of the files
// that may name them. Other files use a carrier (conn/carrier.go), which both protocols implement.
var protocols = map[string][]string{
	"h1_": {"turn", "ofConnection", "framing", "greeting", "h1Hijacked", "h1KeptOpen"},
	"h2_": {"h2stream", "session", "activeState", "streamConn", "streamSocket", "closedStream", "h2Hijacked",
		"h2KeptOpen"},
}

// knowing has the files that name such a type all the same, and the reasons.
var knowing = map[string][]string{
	"connection.go": {"turn"}, // the record of a connection has its turn
}

// TestProtocolsOfConn finds files of package conn that name a type of one protocol, and are not its
// own.
func TestProtocolsOfConn(t *testing.T) {
	files, err := filepath.Glob("conn/*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := make(map[string]bool)
	known := make(map[[2]string]bool) // pairs of knowing
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := filepath.Base(path)
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				declared[spec.Name.Name] = true
			}
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			for prefix, types := range protocols {
				if !slices.Contains(types, id.Name) || strings.HasPrefix(file, prefix) {
					continue
				}
				if slices.Contains(knowing[file], id.Name) {
					known[[2]string{file, id.Name}] = true
					continue
				}
				t.Errorf("%s names %s, which only files %s* may", set.Position(id.Pos()), id.Name, prefix)
			}
			return true
		})
	}
	for prefix, types := range protocols {
		for _, name := range types {
			if !declared[name] {
				t.Errorf("package conn has no type %s: the types of %s* are wrong here", name, prefix)
			}
		}
	}
	for file, types := range knowing {
		for _, name := range types {
			if !known[[2]string{file, name}] {
				t.Errorf("conn/%s does not name %s, which it may", file, name)
			}
		}
	}
}
