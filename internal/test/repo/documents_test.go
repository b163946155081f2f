package repo_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/must"
)

// kept returns the names of the repository's files that fit a pattern, for git.
func kept(t *testing.T, pattern string) (files []string) {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "-co", "--exclude-standard", pattern).Output()
	if err != nil {
		t.Skipf("no clone of the repository: %v", err)
	}
	for file := range strings.Lines(string(out)) {
		files = append(files, strings.TrimSpace(file))
	}
	return files
}

// documents returns the repository's files of Markdown, with their texts.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, file := range kept(t, "*.md") {
		if text, err := os.ReadFile(file); err == nil { // it may be removed, and not yet committed
			texts[file] = string(text)
		}
	}
	return texts
}

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	mark    = regexp.MustCompile(`[^\pL\pN _-]`)
)

// anchors returns the anchors that GitHub makes of a text's headings.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		plain := mark.ReplaceAllString(strings.ToLower(m[1]), "")
		found[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return found
}

// broken says what is wrong with the links of a text to files, folders and headings of the
// repository.
func broken(file, text string, texts map[string]string) (wrong []string) {
	for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		path, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(path, ":") { // another site
			continue
		}
		to := file
		if path != "" {
			to = filepath.Join(filepath.Dir(file), path)
		}
		if _, err := os.Stat(to); err != nil && texts[to] == "" {
			wrong = append(wrong, m[1]+": no such file")
		} else if anchor != "" && !anchors(texts[to])[anchor] {
			wrong = append(wrong, m[1]+": no such heading")
		}
	}
	return wrong
}

// TestLinks: each link of a document to the repository leads somewhere.
func TestLinks(t *testing.T) {
	texts := documents(t)
	for file, text := range texts {
		for _, wrong := range broken(file, text, texts) {
			t.Errorf("%s: %s", file, wrong)
		}
	}
	bad := "# A `b` c?\n[x](#a-b-c) [x](nowhere.md) [x](README.md#nowhere) [x](https://example.org/x)"
	texts["x.md"] = bad
	if wrong := broken("x.md", bad, texts); len(wrong) != 2 {
		t.Errorf("of two links that lead nowhere: %q", wrong)
	}
}

// TestArchitecture: the files that ARCHITECTURE.md and the decisions name exist, and so do the
// folders of its table of wings. Its floors are those of the test of imports, and each package is
// named in the row of its wing.
func TestArchitecture(t *testing.T) {
	texts := documents(t)
	named := regexp.MustCompile("`([a-z0-9_]+/[a-z0-9_/]+\\.go)`")
	for file, text := range texts {
		if file != "ARCHITECTURE.md" && !strings.HasPrefix(file, "docs/why/") {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	_, section, _ := strings.Cut(texts["ARCHITECTURE.md"], "\n## Wings\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var order []string
	for _, wings := range floors {
		order = append(order, cmp.Or(strings.Join(wings, " "), "lwango"))
	}
	if want := strings.Join(order,
		" < "); !strings.Contains(strings.Join(strings.Fields(section), " "), want) {
		t.Errorf("ARCHITECTURE.md does not have the floors of the test of imports: %s", want)
	}
	rows := map[string]bool{}
	folder := regexp.MustCompile("`([a-z][a-z0-9/]*)(?:/\\*)?`")
	for row := range strings.Lines(section) {
		cells := strings.Split(row, " | ")
		if !strings.HasPrefix(row, "| ") || len(cells) < 3 {
			continue
		}
		var wings []string
		for _, m := range folder.FindAllStringSubmatch(cells[0], -1) {
			wings = append(wings, m[1])
			rows[m[1]] = true
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("ARCHITECTURE.md, the table of wings: %v", err)
			}
		}
		for _, m := range folder.FindAllStringSubmatch(cells[1], -1) {
			in := func(wing string) string { // also where the row has the whole path
				return filepath.Join(wing, strings.TrimPrefix(m[1], wing+"/"))
			}
			i := slices.IndexFunc(wings, func(wing string) bool {
				_, err := os.Stat(in(wing))
				return err == nil
			})
			if i < 0 {
				t.Errorf("ARCHITECTURE.md, the table of wings: %s is not in %v", m[1], wings)
			} else {
				rows[in(wings[i])] = true
			}
		}
	}
	for _, file := range kept(t, "*.go") {
		dir := filepath.Dir(file)
		top, _, _ := strings.Cut(dir, "/")
		if dir == "." || rows[dir] ||
			slices.Contains([]string{"bench", "contrib", "interop", "samples"}, top) ||
			strings.HasPrefix(dir, "internal/test/") || strings.Contains(file, "/testdata/") {
			continue
		}
		t.Errorf("ARCHITECTURE.md has no row for %s", dir)
		rows[dir] = true
	}
}

// TestIndexIsWhole: docs/README.md has a link to each page and to each manual.
func TestIndexIsWhole(t *testing.T) {
	texts := documents(t)
	linked := map[string]bool{}
	for _, m := range link.FindAllStringSubmatch(texts["docs/README.md"], -1) {
		path, _, _ := strings.Cut(m[1], "#")
		linked[filepath.Join("docs", path)] = true
	}
	for file := range texts {
		dir := filepath.Dir(file)
		page := strings.HasPrefix(file, "docs/") && dir != "docs"
		manual := strings.HasPrefix(file, "handlers/") || dir == "fastcgi"
		if page && !linked[file] || manual && !linked[file] && !linked[dir] {
			t.Errorf("docs/README.md has no link to %s", file)
		}
	}
}

// TestConfigurationsOfDocuments: a server starts with each configuration that is shown whole.
func TestConfigurationsOfDocuments(t *testing.T) {
	texts := documents(t)
	indented := regexp.MustCompile(`(?m)(?:^    .*\n|^\n)+`)
	toml := regexp.MustCompile("(?s)```toml\n(.*?)```")
	var shown []string
	for _, m := range indented.FindAllString(texts["README.md"], -1) {
		shown = append(shown, strings.ReplaceAll(m, "\n    ", "\n"))
	}
	for _, m := range toml.FindAllStringSubmatch(texts["docs/use/operate.md"], -1) {
		shown = append(shown, m[1])
	}
	whole := 0
	for _, text := range shown {
		if !strings.Contains(text, "[[listener]]") || !strings.Contains(text, "[[site]]") {
			continue
		}
		whole++
		dir := t.TempDir()
		file := filepath.Join(dir, "lwango.conf")
		must.Do(t, os.Mkdir(filepath.Join(dir, "wwwroot"), 0o700))
		sockets := 0
		text = regexp.MustCompile(`address = ".*"`).ReplaceAllStringFunc(text, func(string) string {
			sockets++
			return fmt.Sprintf(`address = "unix:%d"`, sockets)
		})
		must.Write(t, file, text)
		ctx, stop := context.WithCancel(t.Context())
		running, err := lwango.Server{File: file, Threads: 1,
			Logger: slog.New(slog.DiscardHandler)}.Start(ctx)
		stop()
		if err == nil {
			err = running.Wait()
		}
		if err != nil {
			t.Errorf("%v, of\n%s", err, text)
		}
	}
	if whole != 2 {
		t.Errorf("%d whole configurations, want that of README.md and that of docs/use/operate.md", whole)
	}
}

// TestDocumentsAreShort: what a newcomer reads first stays short. A decision goes to docs/why,
// what a handler can do to docs/write/handlers.md, what a server can do to docs/use/operate.md.
func TestDocumentsAreShort(t *testing.T) {
	for file, most := range map[string]int{"README.md": 9 << 10, "ARCHITECTURE.md": 20 << 10} {
		text := must.Get(os.ReadFile(file))(t)
		if n := len(text); n > most {
			t.Errorf("%s has %d bytes, %d at most", file, n, most)
		}
	}
}

// TestNoBinaries: what is built stays out of the repository, which every clone pays for.
func TestNoBinaries(t *testing.T) {
	for _, file := range kept(t, "*") {
		info, err := os.Stat(file)
		if err != nil {
			continue // removed, and not yet committed
		}
		if n := info.Size(); n > 256<<10 {
			t.Errorf("%s has %d bytes", file, n)
		}
	}
}
