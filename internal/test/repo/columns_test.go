package repo_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is how many columns a line of Go may have. A tab counts as one.
const maxColumns = 100

// spaces are those between words and columns of a line.
var spaces = regexp.MustCompile(` +`)

// TestColumns tests that no line of Go is longer than maxColumns. Three things may be: what is in
// backquotes, such as tags and configurations; the expected output of examples; and in tests a line
// that would fit if its strings were empty and its columns not aligned, such as a row of a table.
func TestColumns(t *testing.T) {
	files := 0
	for _, file := range kept(t, "*.go") {
		if strings.Contains(file, "testdata/") {
			continue
		}
		src, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		files++
		for _, long := range longLines(src, strings.HasSuffix(file, "_test.go")) {
			t.Errorf("%s:%s", file, long)
		}
	}
	if files < 1000 {
		t.Errorf("the test has read %d files only", files)
	}

	long := strings.Repeat("x ", maxColumns/2)
	for _, c := range []struct {
		name, src string
		test      bool
		lines     int
	}{
		{"a comment", "package p\n\n// " + long + "\nvar a int\n", false, 1},
		{"a comment behind code", "package p\n\nvar a int // " + long + "\n", true, 1},
		{"code", "package p\n\nvar a = 1" + strings.Repeat(" + 1", 30) + "\n", true, 1},
		{"a string", "package p\n\nvar a = \"" + long + "\"\n", false, 1},
		{"a string of a test", "package p\n\nvar a = \"" + long + "\"\n", true, 0},
		{"backquotes", "package p\n\nvar a = `" + long + "\n" + long + "\n`\n", false, 0},
		{"a tag", "package p\n\ntype a struct {\n\tB int `" + long + "`\n}\n", false, 0},
		{"output", "package p\n\nfunc ExampleA() {\n\t// Output:\n\t// " + long + "\n}\n", true, 0},
		{"no output", "package p\n\nfunc ExampleA() {\n\t// Output:\n}\n\n// " + long + "\n", true, 1},
	} {
		if got := longLines([]byte(c.src), c.test); len(got) != c.lines {
			t.Errorf("%s: %d long lines expected: %q", c.name, c.lines, got)
		}
	}
}

// longLines returns the number and the length of each line of src that is too long.
func longLines(src []byte, test bool) (found []string) {
	lines := strings.Split(string(src), "\n")
	over := false
	for _, line := range lines {
		over = over || utf8.RuneCountInString(line) > maxColumns
	}
	if !over {
		return nil
	}
	exempt := map[int]bool{} // lines with backquotes or output
	quoted := map[int]int{}  // by line, how long its strings are
	output := 0              // the line that goes on with the output before it; 0: none
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		line := file.Line(pos)
		switch {
		case tok == token.STRING && text[0] == '`':
			for i := range strings.Count(text, "\n") + 1 {
				exempt[line+i] = true
			}
		case tok == token.STRING && test:
			quoted[line] += utf8.RuneCountInString(text) - len(`""`)
		case tok == token.COMMENT && test:
			words := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(text, "//")))
			if line == output || strings.HasPrefix(words, "output:") ||
				strings.HasPrefix(words, "unordered output:") {
				exempt[line], output = true, line+1
			}
		}
	}
	for i, line := range lines {
		columns := utf8.RuneCountInString(line)
		if columns <= maxColumns || exempt[i+1] {
			continue
		}
		if n := quoted[i+1]; n > 0 {
			aligned := columns - utf8.RuneCountInString(spaces.ReplaceAllString(line, " "))
			if columns-n-aligned <= maxColumns {
				continue
			}
		}
		found = append(found, fmt.Sprintf("%d: %d columns, of at most %d", i+1, columns, maxColumns))
	}
	return found
}
