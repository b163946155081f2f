package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// TestDoors: the comments of packages whose names are for several readers say whom each name is
// for: handlers and programs, or layers and protocols. Each exported name is under one of the two
// headings, and what package lwango, the samples and the guides for programs use, under the first.
func TestDoors(t *testing.T) {
	for _, pkg := range []string{"conn", "loop"} {
		names := exportedNames(t, pkg)
		users, layers := namesUnder(t, pkg, "For handlers and programs"), namesUnder(t, pkg,
			"For layers and protocols")
		for _, name := range names {
			if n := count(users, name) + count(layers, name); n != 1 {
				t.Errorf("%s/doc.go lists %s %d times", pkg, name, n)
			}
		}
		for _, name := range slices.Concat(users, layers) {
			if !slices.Contains(names, name) {
				t.Errorf("%s/doc.go lists %s, which is not declared", pkg, name)
			}
		}
		for _, name := range usedNames(t, pkg) {
			if !slices.Contains(users, name) && slices.Contains(names, name) {
				t.Errorf("%s/doc.go does not list %s for programs, which use it", pkg, name)
			}
		}
	}
}

func count(all []string, name string) (n int) {
	for _, s := range all {
		if s == name {
			n++
		}
	}
	return n
}

// exportedNames returns the functions, types, variables and constants of a package, but for
// constants of a type of its own.
func exportedNames(t *testing.T, pkg string) (names []string) {
	for _, path := range must.Get(filepath.Glob(pkg + "/*.go"))(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names = append(names, d.Name.Name)
				}
			case *ast.GenDecl:
				typed := false
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names = append(names, s.Name.Name)
					case *ast.ValueSpec:
						typed = d.Tok == token.CONST && (s.Type != nil || typed && s.Values == nil)
						for _, name := range s.Names {
							if !typed {
								names = append(names, name.Name)
							}
						}
					}
				}
			}
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !ast.IsExported(name) })
	slices.Sort(names)
	return slices.Compact(names) // files of several systems
}

// namesUnder returns the names that a section of a package's comment lists: a line has names, two
// spaces, and what they are for.
func namesUnder(t *testing.T, pkg, heading string) (names []string) {
	file := must.Get(parser.ParseFile(token.NewFileSet(), pkg+"/doc.go", nil,
		parser.ParseComments|parser.PackageClauseOnly))(t)
	_, section, ok := strings.Cut(file.Doc.Text(), "\n# "+heading+"\n")
	if !ok {
		t.Fatalf("%s/doc.go has no heading %s", pkg, heading)
	}
	section, _, _ = strings.Cut(section, "\n# ")
	for line := range strings.Lines(section) {
		if line, ok := strings.CutPrefix(line, "\t"); ok {
			line, _, _ = strings.Cut(line, "  ")
			for _, word := range strings.Fields(line) {
				if name := strings.TrimSuffix(word, ","); ast.IsExported(name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// usedNames returns what package lwango, the samples and the guides name of a package.
func usedNames(t *testing.T, pkg string) (names []string) {
	named := regexp.MustCompile(`\b` + pkg + `\.([A-Z]\w*)`)
	for _, pattern := range []string{"*.go", "samples/*/*.go", "docs/write/*.md", "README.md"} {
		for _, path := range must.Get(filepath.Glob(pattern))(t) {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, m := range named.FindAllStringSubmatch(must.Read(t, path), -1) {
				names = append(names, m[1])
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
