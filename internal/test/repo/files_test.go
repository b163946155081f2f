package repo_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tableAbove is the number of files above which a package needs a table of them.
const tableAbove = 4

// fileRow is a row of a table of files: the name of a file, or several with commas between them,
// and what the file is about. A name may be a pattern (calls_*.go) for files that differ in their
// build tags. The further lines of a row begin with spaces.
var fileRow = regexp.MustCompile(`^((?:[\w.*-]+, )*[\w.-]*\w(?:\.go|\.s|\*|\*\.go)) +\S`)

// TestFileTables tests that a package of more than tableAbove files has a table of them in its
// package comment, and that each table is complete and true: each file has one row, except tests
// and doc.go, and each row has a file.
func TestFileTables(t *testing.T) {
	folders := map[string][]string{}
	for _, file := range append(kept(t, "*.go"), kept(t, "*.s")...) {
		if _, err := os.Stat(file); err != nil || strings.Contains(file, "testdata/") {
			continue
		}
		if !strings.HasSuffix(file, "_test.go") {
			folders[filepath.Dir(file)] = append(folders[filepath.Dir(file)], filepath.Base(file))
		}
	}
	tables := 0
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		comment, in := "", ""
		for _, file := range folders[folder] {
			if filepath.Ext(file) != ".go" {
				continue
			}
			name := filepath.Join(folder, file)
			mode := parser.PackageClauseOnly | parser.ParseComments
			parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, mode)
			if err != nil {
				t.Fatal(err)
			}
			if parsed.Doc != nil {
				if in == "" || len(rowsOf(parsed.Doc.Text())) > 0 {
					in = name
				}
				comment += parsed.Doc.Text() + "\n"
			}
		}
		for _, wrong := range wrongRows(comment, folders[folder]) {
			t.Errorf("%s: %s", in, wrong)
		}
		if len(rowsOf(comment)) > 0 {
			tables++
		}
	}
	if tables < 30 {
		t.Errorf("the test has found %d tables only: it does not read what it should", tables)
	}

	for _, c := range []struct {
		name, comment string
		files         string
		wrong         int
	}{
		{"complete", "P.\n\n\ta.go    x\n\tb_*.go  y\n\n\tc.go    z\n", "a.go b_1.go b_2.go c.go doc.go",
			0},
		{"a file without a row", "P.\n\n\ta.go  x\n", "a.go b.go", 1},
		{"a row without a file", "P.\n\n\ta.go  x\n\tb.go  y\n", "a.go", 1},
		{"two rows for a file", "P.\n\n\ta.go  x\n\ta.go  y\n", "a.go", 1},
		{"no table, few files", "P.\n", "a.go b.go c.go d.go", 0},
		{"no table, many files", "P.\n", "a.go b.go c.go d.go e.go", 1},
	} {
		if wrong := wrongRows(c.comment, strings.Fields(c.files)); len(wrong) != c.wrong {
			t.Errorf("%s: %d faults expected: %q", c.name, c.wrong, wrong)
		}
	}
}

// rowsOf returns the names in the table of files of a package comment.
func rowsOf(comment string) (names []string) {
	for line := range strings.Lines(comment) {
		if row, ok := strings.CutPrefix(line, "\t"); ok {
			if m := fileRow.FindStringSubmatch(row); m != nil {
				names = append(names, strings.Split(m[1], ", ")...)
			}
		}
	}
	return names
}

// wrongRows returns what has to be changed in a package comment, for a folder with these files.
func wrongRows(comment string, files []string) (wrong []string) {
	rows := rowsOf(comment)
	if len(rows) == 0 {
		if len(files) > tableAbove {
			wrong = append(wrong, fmt.Sprintf("add a table of the files, a line \"//\\tFILE  what it is "+
				"about\" for each, because there are more than %d", tableAbove))
		}
		return wrong
	}
	has := map[string]int{}
	for _, name := range rows {
		found := filepath.Ext(name) != ".go" && !strings.Contains(name, "*") // works.toml
		for _, file := range files {
			if ok, _ := path.Match(name, file); ok {
				found = true
				has[file]++
			}
		}
		if !found {
			wrong = append(wrong, "remove "+name+" from the table of files, or correct the name")
		}
	}
	for _, file := range files {
		switch {
		case has[file] == 0 && file != "doc.go":
			wrong = append(wrong, "add a line to the table of files: \"//\\t"+file+"  what it is about\"")
		case has[file] > 1:
			wrong = append(wrong, "leave one of the rows of "+file+" in the table of files")
		}
	}
	return wrong
}
