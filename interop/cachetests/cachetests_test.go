// Package cachetests runs the tests of https://cache-tests.fyi against the layer cache, as a
// reverse proxy. The suite is a package of npm: a server, which stands for the upstream, and a
// client.
package cachetests

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/embedded"
	"github.com/lwango/lwango/internal/test/must"
)

//go:embed package.json package-lock.json run.mjs loopback.cjs
var files embed.FS

// install puts the suite into a folder of its own.
func install(t *testing.T) (dir string) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			ci.Lacks(t, program)
		}
	}
	dir = t.TempDir()
	must.Do(t, os.CopyFS(dir, files))
	npm := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return dir
}

// startUpstream starts the server of the suite, and returns its address.
func startUpstream(t *testing.T, dir string) (address string) {
	t.Helper()
	c := exec.Command("node", "--require", "./loopback.cjs",
		"node_modules/http-cache-tests/server/server.mjs")
	c.Dir = dir
	c.Env = append(os.Environ(), "npm_config_protocol=http", "npm_config_port=0",
		"npm_config_pidfile="+filepath.Join(dir, "pid"))
	var failed bytes.Buffer
	c.Stderr = &failed
	out := must.Get(c.StdoutPipe())(t)
	must.Do(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, at, ok := strings.Cut(lines.Text(), "Listening on http://"); ok {
			go func() { // it may write more than the pipe has room for
				for lines.Scan() {
				}
			}()
			return strings.TrimSuffix(at, "/")
		}
	}
	t.Fatalf("the suite's server does not listen:\n%s", failed.String())
	return ""
}

// configuration is what the suite runs against, with the address of its server. The suite looks at
// heuristics, at what is sent when the server fails, and at Set-Cookie as an optimum.
const configuration = `[[site]]
[[site.route]]
prefix = "/"
module = "proxy"
address = "%s"
cache = { heuristic = 10, grace = "1h", keep_cookies = true }
`

// result is a line that run.mjs writes.
type result struct{ Suite, ID, Kind, Result, Why string }

// run runs the suite, or the one test of that name, and returns its results.
func run(t *testing.T, dir, base, only string) (results []result) {
	t.Helper()
	arguments := []string{"--no-warnings", "run.mjs", base}
	if only != "" {
		arguments = append(arguments, only)
	}
	c := exec.Command("node", arguments...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range bytes.Lines(out) {
		var r result
		if json.Unmarshal(line, &r) == nil && r.ID != "" {
			results = append(results, r)
		} else if only != "" {
			t.Logf("%s", line)
		}
	}
	return results
}

// row is what the manual has for each test that fails: | `id` | kind | why |
var row = regexp.MustCompile("(?m)^\\| `([a-z0-9A-Z_=-]+)` \\| (required|optimal) \\|")

// The suite of this version has 165 tests of what is required and 95 of what is optimal.
const (
	leastRequired = 150
	leastOptimal  = 85
)

// TestSuite runs all of the suite. Each failure has a row in the manual, and each row is one.
// LWANGO_CACHETEST names one test to run, and to show with all its fields.
func TestSuite(t *testing.T) {
	ci.Only(t, "installs a package of npm, takes a minute")
	dir := install(t)
	file := filepath.Join(dir, "lwango.conf")
	text := fmt.Sprintf(configuration, startUpstream(t, dir))
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	r, _ := embedded.Start(t, lwango.Server{Addr: "127.0.0.1:0", File: file})
	only := os.Getenv("LWANGO_CACHETEST")
	results := run(t, dir, "http://"+r.Addrs()[0], only)
	if only != "" {
		t.Log(results)
		return
	}

	manual := must.Get(os.ReadFile("../../handlers/cache/README.md"))(t)
	var told []string
	for _, m := range row.FindAllSubmatch(manual, -1) {
		told = append(told, string(m[1]))
	}
	passed, all := map[string]int{}, map[string]int{}
	for _, r := range results {
		all[r.Kind]++
		good := r.Result == "pass" || r.Result == "yes"
		if good {
			passed[r.Kind]++
		}
		if r.Kind == "check" {
			continue
		}
		at := slices.Index(told, r.ID)
		switch {
		case at >= 0 && !good:
			told = slices.Delete(told, at, at+1)
		case at < 0 && !good:
			t.Errorf("the manual does not name this failure: %s, %s, %s: %s (%s)", r.Suite, r.ID, r.Kind,
				r.Why, r.Result)
		}
	}
	if len(told) > 0 {
		t.Errorf("the manual says that these fail: %q", told)
	}
	t.Logf("required %d of %d, optimal %d of %d; of %d behaviours that are only looked at, %d",
		passed["required"], all["required"], passed["optimal"], all["optimal"], all["check"],
		passed["check"])
	if passed["required"] < leastRequired || passed["optimal"] < leastOptimal {
		t.Errorf("required: at least %d; optimal: at least %d", leastRequired, leastOptimal)
	}
}
