package repo_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// prelude is what the Go code of README.md and of the guides may use besides what it declares: the
// imports, and names that stand for what the reader has.
const prelude = `package guide

import (
	"bytes"
	"context"
	"crypto/tls"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/lwangotest"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/stream"
)
`

// given are the names. One that the code declares itself is left out.
var given = map[string]string{
	"Item":      "type Item struct{ Name string `json:\"name\"` }",
	"find":      "func find(ctx context.Context, id string) (item Item, err error) { return }",
	"show":      "func show(req *lwango.Request, resp *lwango.Response) int { return 0 }",
	"add":       "func add(req *lwango.Request, resp *lwango.Response) int { return 0 }",
	"get":       "func get(req *lwango.Request, resp *lwango.Response) int { return 0 }",
	"remove":    "func remove(req *lwango.Request, resp *lwango.Response) int { return 0 }",
	"hello":     "func hello(req *lwango.Request, resp *lwango.Response) int { return 0 }",
	"h":         "var h lwango.Handler",
	"count":     "func count(next lwango.Handler) lwango.Handler { return next }",
	"staffOnly": "func staffOnly(next lwango.Handler) lwango.Handler { return next }",
	"isStaff":   "func isStaff(name, password string) bool { return false }",
	"routes":    "func routes() *lwango.Mux { return lwango.NewMux() }",
	"fetch":     "func fetch() string { return \"\" }",
	"prices":    "var prices struct { sync.Mutex; list string }",
	"askPrice":  "func askPrice(t *loop.Thread) (int, error) { return 0, nil }",
	"db":        "var db *sql.DB",
	"pipe":      "var pipe int",
	"fd":        "var fd int",
	"buf":       "var buf []byte",
	"d":         "var d time.Duration",
	"ch":        "var ch chan int",
	"p":         "var p []byte",
	"ln":        "var ln net.Listener",
	"ctx":       "var ctx context.Context",
	"tlsConfig": "var tlsConfig *tls.Config",
	"next":      "var next lwango.Server",
	"sub":       "var sub *pubsub.Subscription",
	"price":     "var price *loop.Promise[int]",
	"up":        "var up *stream.Conn",
	"mux":       "var mux *lwango.Mux",
	"id":        "var id string",
	"Price":     "type Price struct{}",
	"shops":     "var shops []string",
}

// notGo is how blocks of README.md begin that are not Go: the others all are.
var notGo = regexp.MustCompile(`^(go (run|test|mod) |\[|lwango\.conf:)`)

// block is Go code of a text.
type block struct {
	file string
	line int
	code string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.file, b.line) }

// blocks returns the Go code of a text: what is fenced as go, and in README.md what is indented.
func blocks(t *testing.T, file string) (all []block) {
	t.Helper()
	text := must.Read(t, file)
	var b *block
	fence := ""
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		indented, isIndented := strings.CutPrefix(line, "    ")
		switch {
		case fence != "" && line == "```":
			b, fence = nil, ""
		case fence == "" && strings.HasPrefix(line, "```"):
			if fence = line; line == "```go" {
				all = append(all, block{file: file, line: i + 2})
				b = &all[len(all)-1]
			}
		case fence != "":
			if b != nil {
				b.code += line + "\n"
			}
		case file != "README.md":
		case isIndented:
			if b == nil {
				all = append(all, block{file: file, line: i + 1})
				b = &all[len(all)-1]
			}
			b.code += indented + "\n"
		case line == "" && b != nil: // the code may go on behind it
			b.code += "\n"
		default:
			b = nil
		}
	}
	var code []block
	for _, b := range all {
		if strings.HasPrefix(lines[b.line-1], "    ") && notGo.MatchString(b.code) {
			continue
		}
		code = append(code, b)
	}
	return code
}

// exported finds what the compiler has exported of a package, in the build's cache.
var exported = sync.OnceValues(func() (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", prelude, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "cmp"}
	for _, i := range file.Imports {
		args = append(args, strings.Trim(i.Path.Value, `"`))
	}
	cmd := exec.Command("go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, stderr.Bytes())
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files, nil
})

// compile returns what is wrong with a block, as a compiler would say it. A whole file stands for
// itself. Declarations, or statements of a handler, may leave variables and imports unused, and
// lines out ("...").
func (b block) compile(imports types.Importer, fset *token.FileSet) (wrong []error) {
	code := regexp.MustCompile(`(?m)^(\s*)\.\.\.$`).ReplaceAllString(b.code, "")
	code = strings.ReplaceAll(code, "{ ... }", "{ panic(0) }")
	whole := strings.HasPrefix(code, "package ")
	at := fmt.Sprintf("//line %s:%d\n", b.file, b.line)
	check := func(texts ...string) (wrong []error) {
		var files []*ast.File
		for _, text := range texts {
			file, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution)
			if err != nil {
				return []error{err}
			}
			files = append(files, file)
		}
		config := types.Config{Importer: imports, Error: func(err error) {
			if text := err.Error(); whole || !strings.Contains(text, "declared and not used") &&
				!strings.Contains(text, "imported and not used") {
				wrong = append(wrong, err)
			}
		}}
		_, _ = config.Check("guide", fset, files, nil)
		return wrong
	}
	if whole {
		return check(at + code)
	}
	names := prelude
	for name, text := range given {
		if !declares(code, name) {
			names += text + "\n"
		}
	}
	if _, err := parser.ParseFile(fset, "", "package p\n"+code, 0); err == nil {
		return check(prelude+at+code, names)
	}
	return check(prelude+"func _(req *lwango.Request, resp *lwango.Response) int {\n"+at+code+
		"\nreturn 0 }\n", names)
}

// declares reports whether code declares a name outside of functions.
func declares(code, name string) bool {
	return regexp.MustCompile(`(?m)^(func|type|var) ` + name + `\b`).MatchString(code)
}

// TestGoOfGuides compiles the Go code of README.md and of the guides. Those in docs/write, for
// programmers, have some.
func TestGoOfGuides(t *testing.T) {
	files := append(must.Get(filepath.Glob("docs/*/*.md"))(t), "README.md")
	written := 0
	exports := must.Get(exported())(t)
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if file := exports[path]; file != "" {
			return os.Open(file)
		}
		return nil, errors.New("the test does not import it")
	})
	for _, file := range files {
		all := blocks(t, file)
		if strings.HasPrefix(file, "docs/write/") || file == "README.md" {
			written++
			if len(all) == 0 && len(snippetsOf(must.Read(t, file))) == 0 {
				t.Errorf("%s has no Go code", file)
			}
		}
		for _, b := range all {
			for _, err := range b.compile(imports, fset) {
				t.Errorf("%v: %v", b, err)
				if strings.Contains(err.Error(), "undefined: ") {
					t.Log(
						"if the name stands for something of the reader's, tell it to the test: given, or prelude")
				}
			}
		}
	}
	if written < 2 {
		t.Error("docs/write has no guides")
	}
}

// TestGuidesAreChecked: the test above finds what it is there for.
func TestGuidesAreChecked(t *testing.T) {
	exports := must.Get(exported())(t)
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for code, want := range map[string]string{
		"resp.JSN(200, nil)": "JSN",
		"func f() int {}":    "missing return",
		"x := (":             "expected",
		"n, err := req.ReadFD(d, fd, buf)\n...\n_ = n":            "",
		"package main\n\nimport \"fmt\"\n\nfunc main() {}":        "not used",
		"package main\n\nfunc main() {}":                          "",
		"func show(req *lwango.Request) int { return undefined }": "undefined",
	} {
		wrong := fmt.Sprint(block{"x.md", 7, code}.compile(imports, fset))
		if want == "" && wrong != "[]" || !strings.Contains(wrong, want) ||
			want != "" && !strings.Contains(wrong, "x.md:") {
			t.Errorf("%q: %s, want %q", code, wrong, want)
		}
	}
}

// TestReportOfGuide runs the program of docs/write/blocking.md, and holds the report that the page
// shows to the real one. Numbers, folders and Go's own functions may differ.
func TestReportOfGuide(t *testing.T) {
	ci.Only(t, "builds a program")
	page := must.Read(t, "docs/write/blocking.md")
	_, rest, _ := strings.Cut(page, "```report\n")
	shown, _, ok := strings.Cut(rest, "```")
	var program string
	for _, b := range blocks(t, "docs/write/blocking.md") {
		if strings.HasPrefix(b.code, "package main") {
			program = b.code
		}
	}
	if !ok || program == "" {
		t.Fatal("the page has no report, or no program")
	}
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "prices")
	must.Write(t, source, program)
	if out, err := exec.Command("go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(binary, "-l", "127.0.0.1:0")
	log := must.Get(os.Create(filepath.Join(dir, "log")))(t)
	defer log.Close()
	cmd.Stderr = log
	must.Do(t, cmd.Start())
	text := func() string {
		text := must.Read(t, log.Name())
		return text
	}
	listening := regexp.MustCompile(`msg=listening address=(\S+)`)
	report := regexp.MustCompile(`(?m)^\S+ (level=WARN msg="loop: held up" .*)$`)
	wait.Until(t, "the program listens", func() bool { return listening.MatchString(text()) })
	address := listening.FindStringSubmatch(text())[1]
	wait.Until(t, "the log has a report", func() bool {
		if body := get(t, "http://"+address+"/prices"); string(body) != "apples 3\n" && len(body) > 0 {
			t.Errorf("%q", body)
		}
		return report.MatchString(text())
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	logtext.NoPanic(t, text())
	real := strings.ReplaceAll(report.FindStringSubmatch(text())[1], `\n`, "\n")
	plain := func(s string) string {
		s = regexp.MustCompile(`held=\S+`).ReplaceAllString(s, "held=")
		s = regexp.MustCompile(`[^ =]*/([^/ ]+\.go):\d+`).ReplaceAllString(s, "$1")
		return strings.NewReplacer(`stack="`, "stack=\"\n", `instead="`, "instead=\"\n").Replace(s)
	}
	got := plain(real)
	for line := range strings.Lines(plain(shown)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "internal/") || strings.HasPrefix(line, "runtime.") {
			continue
		}
		if !strings.Contains(got, line+"\n") {
			t.Errorf("the page shows %q, which is not in the report:\n%s", line, real)
		}
	}
}
