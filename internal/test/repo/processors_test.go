package repo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
)

// TestOtherProcessors: all packages of the repository and their tests are right Go for the other
// processors that lwango runs on, and are refused by name for those of 32 bits. The types of
// everything are checked from the sources: what a processor lacks is a name, such as a system call
// in golang.org/x/sys/unix, or a constant that is too large. To compile the standard library for
// each of them would take minutes and find no more.
func TestOtherProcessors(t *testing.T) {
	ci.Only(t, "checks all packages, with the standard library, for three processors")
	t.Parallel()
	for _, c := range []struct{ arch, pattern, refused string }{
		{"arm64", "./...", ""},
		{"riscv64", "./...", ""},
		{"386", "./internal/base/sysio", "undefined: lwango_needs_Linux_on_a_64_bit_processor"},
	} {
		t.Run(c.arch, func(t *testing.T) {
			t.Parallel()
			checked, faults := checkFor(t, c.arch, c.pattern)
			switch {
			case checked == 0:
				t.Error("nothing was checked")
			case c.refused != "":
				if !strings.Contains(errors.Join(faults...).Error(), c.refused) {
					t.Errorf("not refused as it should be: %v", faults)
				}
			case len(faults) > 0:
				t.Error(errors.Join(faults...))
			}
		})
	}
}

// checkFor checks the types of this module's packages that fit the pattern, of their tests and of
// what they import, for a processor. It returns how many packages of the module these are, and
// what is wrong with them.
func checkFor(t *testing.T, arch, pattern string) (checked int, faults []error) {
	list := exec.Command("go", "list", "-e", "-pgo=off", "-deps", "-test",
		"-json=ImportPath,Dir,GoFiles,ImportMap,Standard,Module", pattern)
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out := must.Get(list.Output())(t)
	files := token.NewFileSet()
	packages := map[string]*types.Package{"unsafe": types.Unsafe}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
			ImportMap       map[string]string // for those of a test, and of the standard library
			Standard        bool
			Module          *struct{ Main bool }
		}
		if err := decoder.Decode(&p); err == io.EOF {
			return checked, faults
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue // a test's main function is made when it is built
		}
		own := p.Module != nil && p.Module.Main
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		config := types.Config{
			Importer: importing(func(path string) (*types.Package, error) {
				if other := p.ImportMap[path]; other != "" {
					path = other
				}
				if found := packages[path]; found != nil {
					return found, nil
				}
				return nil, errors.New("no package " + path)
			}),
			Sizes:            types.SizesFor("gc", arch),
			IgnoreFuncBodies: !own,
			Error: func(err error) {
				if own {
					faults = append(faults, err)
				}
			},
		}
		// a package with its test's files has the test behind it
		path, _, _ := strings.Cut(p.ImportPath, " ")
		packages[p.ImportPath], _ = config.Check(path, files, parsed, nil)
		if own {
			checked++
		}
	}
}

// importing makes an importer of a function.
type importing func(path string) (*types.Package, error)

func (f importing) Import(path string) (*types.Package, error) { return f(path) }
