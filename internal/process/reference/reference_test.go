package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lwango/lwango/internal/test/must"
)

const root = "../../.."

// TestUpToDate: what is generated is what is there.
func TestUpToDate(t *testing.T) {
	files := must.Get(generate(root))(t)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(string(got), want); diff != "" {
			t.Errorf(
				"%s is not up to date: run go generate ./internal/process/reference (-there +generated):\n%s",
				name, diff)
		}
	}
}

// TestComplete: each key is in each text, with its type, default and range.
func TestComplete(t *testing.T) {
	tables := must.Get(read(root))(t)
	files := must.Get(generate(root))(t)
	page, manual := files["docs/use/reference.md"], files["contrib/man/lwango.conf.5"]
	n := 0
	for _, table := range tables {
		for _, k := range table.keys {
			n++
			if !strings.Contains(page, "| `"+k.name+"` | "+k.kind) {
				t.Errorf("the page has no %s %s", table.name, k.name)
			}
			if !strings.Contains(manual,
				".B "+roff(k.name)+"\n"+roff(plain(k.text))+"\n.br\n("+roff(k.facts())+")\n") {
				t.Errorf("the manual has no %s %s", table.name, k.name)
			}
		}
	}
	if !strings.Contains(page, "| `Forwarded`, `X-Forwarded-For`, `") {
		t.Error("a default of several words has not the marks of the manual")
	}
	if n < 100 {
		t.Errorf("%d keys", n)
	}
	if !json.Valid([]byte(files["docs/use/lwango.schema.json"])) {
		t.Error("the schema is no JSON")
	}
}

// TestBashCompletes: a shell finds flags and files by the script.
func TestBashCompletes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"site.conf", "site.pem"} {
		must.Write(t, filepath.Join(dir, name), "")
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, "sites"), 0o700))
	for _, row := range []struct{ words, want string }{
		{"lwango -up", "-upgrade"},
		{"lwango to", "top"},
		{"lwango -c si", "site.conf site.pem sites"},
		{"lwango -r si", "sites"},
		{"lwango -l si", ""},
	} {
		script := must.Get(filepath.Abs(filepath.Join(root, "contrib/completion/lwango.bash")))(t)
		cmd := exec.Command("bash", "-c", `. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _lwango; `+
			`printf '%s\n' "${COMPREPLY[@]}" | sort | xargs echo`, script)
		cmd.Args = append(cmd.Args, strings.Fields(row.words)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != row.want {
			t.Errorf("%s: %v, %q, want %q", row.words, err, out, row.want)
		}
	}
}

// TestManualsAreRoff: man finds nothing to complain of.
func TestManualsAreRoff(t *testing.T) {
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip("groff is not installed")
	}
	for _, name := range []string{"lwango.1", "lwango.conf.5"} {
		out, err := exec.Command("groff", "-man", "-Tutf8", "-ww", "-z",
			filepath.Join(root, "contrib/man", name)).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
