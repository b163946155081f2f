package repo_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// snippet is code that a page shows of a program: a block that is fenced as "go FILE".
type snippet struct {
	file  string
	parts [][]string // lines; between two parts of a block the program has more, which is left out
}

var fencedProgram = regexp.MustCompile("(?ms)^```go (\\S+)\n(.*?)^```$")

func snippetsOf(page string) (all []snippet) {
	for _, m := range fencedProgram.FindAllStringSubmatch(page, -1) {
		s := snippet{file: m[1]}
		for part := range strings.SplitSeq(m[2], "...\n") {
			s.parts = append(s.parts, withoutIndent(strings.Split(strings.TrimSuffix(part, "\n"), "\n")))
		}
		all = append(all, s)
	}
	return all
}

// missing returns the first line of a part that is not in the text, behind the parts before it; or
// "".
func (s snippet) missing(text string) string {
	lines := strings.Split(text, "\n")
	at := 0
next:
	for _, part := range s.parts {
		for ; at+len(part) <= len(lines); at++ {
			if slices.Equal(withoutIndent(lines[at:at+len(part)]), part) {
				at += len(part)
				continue next
			}
		}
		return part[0]
	}
	return ""
}

// withoutIndent returns the lines without the tabs that all of them begin with.
func withoutIndent(lines []string) []string {
	common := -1
	for _, l := range lines {
		if n := len(l) - len(strings.TrimLeft(l, "\t")); l != "" && (common < 0 || n < common) {
			common = n
		}
	}
	out := slices.Clone(lines)
	for i, l := range out {
		out[i] = l[min(max(common, 0), len(l)):]
	}
	return out
}

// TestSnippetsOfGuides: what a page shows of a program is in that program, which has tests.
func TestSnippetsOfGuides(t *testing.T) {
	n := 0
	for _, page := range must.Get(filepath.Glob("docs/*/*.md"))(t) {
		for _, s := range snippetsOf(must.Read(t, page)) {
			n++
			if line := s.missing(must.Read(t, s.file)); line != "" {
				t.Errorf("%s: %s does not have the lines from %q", page, s.file, line)
			}
			if len(must.Get(filepath.Glob(filepath.Join(filepath.Dir(s.file), "*_test.go")))(t)) == 0 {
				t.Errorf("%s: %s has no test", page, s.file)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d snippets", n)
	}
}

// TestSnippetsAreCompared: the test above finds what it is there for.
func TestSnippetsAreCompared(t *testing.T) {
	const program = "func f() {\n\tif a {\n\t\tb()\n\t}\n\n\tc()\n}\n"
	for block, want := range map[string]string{
		"if a {\n\tb()\n}\n":               "",
		"if a {\n\tb()\n...\nc()\n":        "",
		"c()\n...\nif a {\n":               "if a {",
		"if a {\nb()\n}\n":                 "if a {",
		"func f() {\n\tif a {\n\t\tb(1)\n": "func f() {",
	} {
		all := snippetsOf("text\n```go x.go\n" + block + "```\n")
		if len(all) != 1 || all[0].file != "x.go" || all[0].missing(program) != want {
			t.Errorf("%q: %v", block, all)
		}
	}
}
