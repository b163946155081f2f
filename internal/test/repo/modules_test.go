package repo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
)

const (
	// userProgram is a program that uses nothing but this package.
	userProgram = `package main

import "github.com/lwango/lwango"

func hello(req *lwango.Request, resp *lwango.Response) int {
	resp.WriteString("Hello from " + req.Path())
	return 200
}

func main() {
	lwango.Handle("/", hello)
	lwango.Main()
}
`
	// userTest is its test.
	userTest = `package main

import (
	"testing"

	"github.com/lwango/lwango/lwangotest"
)

func TestMain(m *testing.M) { lwangotest.Main(m) }

func TestHello(t *testing.T) {
	s := lwangotest.Start(t, hello)
	if a := s.Get("/you"); a.StatusCode != 200 || a.Text != "Hello from /you" {
		t.Errorf("%s: %q", a.Status, a.Text)
	}
}
`
)

// linked are the modules that such a program has in it. They are what its go.mod gets and what is
// downloaded to build and to test it.
var linked = []string{
	"github.com/BurntSushi/toml",
	"github.com/andybalholm/brotli",
	"github.com/go-crypt/x",        // hashes of passwords
	"github.com/golang-jwt/jwt/v5", // tokens
	"github.com/klauspost/compress",
	"github.com/landlock-lsm/go-landlock",
	"github.com/lwango/lwango",
	"github.com/mholt/acmez/v3",
	"github.com/youmark/pkcs8", // keys with a password
	"golang.org/x/crypto",
	"golang.org/x/sys",
	"kernel.org/pub/linux/libs/security/libcap/psx", // of go-landlock
}

// named are the modules that the go command knows of beside those, because a go.mod names them:
// that of lwango, or those of linked modules. Their code is not in the program, and is not
// downloaded to build and test it.
var named = []string{
	"github.com/chromedp/cdproto", // tests
	"github.com/chromedp/chromedp",
	"github.com/go-json-experiment/json",
	"github.com/google/go-cmp",
	"github.com/gorilla/websocket",
	"github.com/rogpeppe/go-internal",
	"golang.org/x/tools",

	"github.com/cespare/xxhash/v2", // pubsub/redis
	"github.com/redis/go-redis/v9",
	"go.uber.org/atomic",

	"code.pfad.fr/check", // tests of acmez, go-crypt/x and others
	"github.com/go-jose/go-jose/v4",
	"github.com/letsencrypt/challtestsrv",
	"github.com/letsencrypt/pebble/v2",
	"github.com/miekg/dns",
	"github.com/stretchr/testify",
	"go.yaml.in/yaml/v3",
	"golang.org/x/mod",
	"golang.org/x/sync",

	"github.com/xyproto/randomstring", // tests of brotli
	"golang.org/x/net",                // of x/crypto
	"golang.org/x/term",
	"golang.org/x/text",
}

// tested are the modules that go mod tidy downloads beside the linked ones, and puts into go.sum,
// because tests of packages of the program import them: the go command reads the tests of all
// packages of a program. What only the tests of other packages import is not among them, so what is
// large, such as a browser, is for those (internal/test/editor and pages, samples).
var tested = []string{
	"github.com/google/go-cmp", // conn, internal/process/server

	"github.com/cespare/xxhash/v2", // internal/process/server, by pubsub/redis
	"github.com/redis/go-redis/v9",
	"go.uber.org/atomic",

	"github.com/gorilla/websocket", // conn, stream: hijacked connections
}

// TestModulesOfPrograms: a program of ten lines gets the modules that it needs, and no others; and
// neither does its test. What tests of lwango use, and Redis, is not among them.
func TestModulesOfPrograms(t *testing.T) {
	ci.Only(t, "builds a program and its test")
	ci.Without(t, race.Enabled, "builds a program, which is the same one with the race detector")
	here := must.Get(os.Getwd())(t)
	sum := must.Read(t, "go.sum")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.go":      userProgram,
		"main_test.go": userTest,
		"go.sum":       sum,
		"go.mod": "module example.org/user\n\ngo 1.26.0\n\nrequire " + module + " v0.0.0\n\n" +
			"replace " + module + " => " + here + "\n",
	} {
		must.Write(t, filepath.Join(dir, name), text)
	}
	run := func(args ...string) (lines []string) {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		// with the flags of this run: with others, the standard library would be compiled anew
		cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOWORK=off")
		var errors strings.Builder
		cmd.Stderr = &errors
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, errors.String())
		}
		lines = strings.Fields(string(out))
		slices.Sort(lines)
		return slices.Compact(lines)
	}
	run("build", "-o", "user", ".")
	run("test", ".")

	const path = "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"
	compare(t, "in the program", run("list", "-deps", "-f", path, "."), linked)
	const gorilla = "github.com/gorilla/websocket" // the WebSockets of lwangotest
	intested := append(slices.Clone(linked), gorilla)
	slices.Sort(intested)
	compare(t, "in its test", run("list", "-deps", "-test", "-f", path, "."), intested)
	const other = "{{if not .Main}}{{.Path}}{{end}}"
	graph := slices.Concat(linked, named)
	slices.Sort(graph)
	compare(t, "in the module graph", run("list", "-m", "-f", other, "all"), graph)
	compare(t, "in go.mod", required(t, filepath.Join(dir, "go.mod")), intested)

	// go mod tidy itself would need the network, for tests of linked modules.
	const own = "{{with .Module}}{{if eq .Path \"" + module + "\"}}{{$.ImportPath}}{{end}}{{end}}"
	packages := run("list", "-deps", "-f", own, ".")
	sums := slices.Concat(linked, tested)
	slices.Sort(sums)
	compare(t, "in go.sum by go mod tidy",
		run(append([]string{"list", "-deps", "-test", "-f", path}, packages...)...), sums)
}

// required returns the modules that a go.mod with blocks of requirements names.
func required(t *testing.T, file string) (modules []string) {
	t.Helper()
	text := must.Read(t, file)
	for line := range strings.Lines(text) {
		f := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(f) >= 2 && strings.HasPrefix(f[1], "v") {
			modules = append(modules, f[0])
		}
	}
	return modules
}

// compare says what is in got and not in want, and the other way round.
func compare(t *testing.T, where string, got, want []string) {
	t.Helper()
	for _, m := range got {
		if !slices.Contains(want, m) {
			t.Errorf("%s: unexpected %s", where, m)
		}
	}
	for _, m := range want {
		if !slices.Contains(got, m) {
			t.Errorf("%s: %s is missing; the list names it in vain", where, m)
		}
	}
}
