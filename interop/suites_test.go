// Package interop runs the tests of chi, gin and echo through the bridge (lwango.HTTP). Their
// sources come from the module cache. One run of them, as they are, says which tests pass with
// net/http and with recorders. In another one a copy of the same tests uses our package httptest:
// servers are lwango's, requests to a handler go to one by a socket, and what is written to a
// recorder comes back from one. Each test that passes in the first run has to pass in the second.
package interop

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/interop/httptest"
)

const (
	c = "github.com/go-chi/chi/v5"
	g = "github.com/gin-gonic/gin"
	e = "github.com/labstack/echo/v5"
)

// suite is a module whose tests are run.
type suite struct {
	module string
	tests  int // that have to pass both ways, at least; with subtests
	real   int // functions TestX of them that have to use a socket, at least
}

var suites = []suite{
	{c, 368, 87},
	{g, 670, 228},
	{e, 3400, 425},
}

// skipped are tests that run in neither way, as patterns for go test -skip, and why.
var skipped = map[string]string{
	"^TestMuxContextIsThreadSafe$": "a million requests: minutes, with a connection for each",

	"^Test(Pusher|WrapWriterHTTP2|RunEmpty|RunEmptyWithEnv|RunWithPort|RunTLS|RunQUIC)$": "runs " +
		"a server of net/http at a fixed port",
	"^Test(Bad)?(TrustedCIDRsForRun.*|UnixSocket|FileDescriptor|Listener)$": "likewise, or at a " +
		"fixed path",

	`^TestProxyRewriteRegex$/^$/^y$/^foo$/^bar\?q=1#frag$`: "waits for a request that is refused: " +
		fragment,

	"^TestThrottle(TriggerGatewayTimeout|Maximum)$": "sleeps for 16 s; others throttle, too",

	"^Test(Throttle(Backlog|RetryAfter)|ContextTimeoutWithDefaultErrorMessage|" +
		"ProxyRetryWithBackendTimeout)$": "has limits in time that a busy machine does not keep, " +
		"in either way",

	"^TestSaveUploadedCreateFailed$": "saves a file as /, which gives that folder the mode 0750 " +
		"where root runs it: nobody else comes to any file any more",
}

const (
	headBody = "looks at the body of an answer to HEAD, which only a recorder gets"
	parent   = "expects that a target that leaves the root by .. comes to the handler; lwango " +
		"answers 400"
	control   = "expects that an encoded control character comes to the handler; lwango answers 400"
	fragment  = "sends a fragment, which a target has not (RFC 9112 section 3.2); lwango answers 400"
	midway    = "looks at the answer while it is being written, where Done ends it"
	notHead   = "writes an answer to HEAD; the request of Writer is GET"
	itself    = "compares a ResponseWriter with the recorder, or expects that it cannot be hijacked"
	hostField = "sets a field Host in the header, where a server, also net/http's, leaves none"
	sentBody  = "reads the request's own body after the handler has returned; it has been sent"
)

// left are tests that pass only with net/http or only with a recorder, and why; tests that have
// them as subtests are not listed. One that passes must not be here.
var left = map[string]string{
	c + "/middleware.TestRouteHeaders/" +
		"matching_header_should_route_to_correct_middleware": hostField,
	c + "/middleware.TestRouteHeaders/wildcard_pattern_should_match": hostField,

	g + ".TestRouterGroupBasicHandle":             headBody,
	g + ".TestRouterStaticFSNotFound":             headBody,
	g + ".TestContextFile/HEAD_request":           notHead,
	g + ".TestResponseWriterReset":                itself,
	g + ".TestResponseWriterHijack":               itself,
	g + ".TestResponseWriterWrite":                midway,
	g + ".TestRouterNotFound":                     parent,
	g + ".TestRouterNotFoundWithRemoveExtraSlash": parent,

	e + ".TestEchoHead":        headBody,
	e + ".TestResponse_Unwrap": itself,
	e + ".TestWrapHeadHandler_SuppressesBodyWrittenByHandler":      notHead,
	e + "/middleware.TestGzipWithMinLengthChunked":                 midway,
	e + ".TestGroup_HEAD":                                          headBody,
	e + ".TestRouterAutoHandleHEAD_AnyRoute_NotWrapped":            headBody,
	e + ".TestEcho_StaticDirectoryRedirect_controlCharacters":      control,
	e + ".TestEcho_StaticFS_nonValidatingCustomFSCannotEscapeRoot": parent,

	e +
		".TestEcho_StaticFS/do_not_allow_directory_traversal_(slash_-_unix_separator)": parent,
	e +
		".TestEcho_StaticFS/reject_an_encoded_filename_alias_whose_decoded_path_has_empty_and_dot_segments": parent,
	e +
		".TestGroup_StaticMultiTest/nok,_URL_encoded_path_traversal_(single_encoding,_slash_-_unix_separator)": parent,
	e +
		".TestRouterParamLiteralByteConflictServeHTTP/encoded_NUL/literal-first//name%00verb/x": control,
	e +
		".TestRouterParamLiteralByteConflictServeHTTP/encoded_NUL/parameter-first//name%00verb/x": control,

	e +
		"/middleware.TestStatic/nok,_trailing_dots_(Windows_edge_case)": parent,
	e +
		"/middleware.TestStatic/nok,do_not_allow_directory_traversal_(slash_-_unix_separator)": parent,
	e +
		"/middleware.TestStatic/nok,_URL_encoded_path_traversal_(mixed_encoding)": parent,
	e +
		"/middleware.TestStatic/nok,_URL_encoded_path_traversal_(single_encoding,_slash_-_unix_separator)": parent,
	e + "/middleware.TestStatic_CustomFS/nok,_file_is_not_a_subpath_of_root":      parent,
	e + "/middleware.TestStatic_nonValidatingCustomFSCannotEscapeRoot":            parent,
	e + "/middleware.TestEchoRewriteReplacementEscaping//z/foo/b%20ar?nope=1#yes": fragment,

	e + "/middleware.TestCompressRequestWithoutDecompressMiddleware": sentBody,
	e + "/middleware.TestDecompressSkipper":                          sentBody,
	e + "/middleware.TestDecompressPoolError":                        sentBody,
}

func TestSuites(t *testing.T) {
	dir := t.TempDir()
	args := []string{"mod", "edit"}
	var packages []string
	for _, s := range suites {
		packages = append(packages, s.module+"/...")
	}
	if _, err := goCommand(append([]string{"list", "-deps", "-test"},
		packages...)...).Output(); err != nil {
		ci.Lacks(t, "a way to download the modules: "+text(err))
	}
	for _, s := range suites {
		out, err := goCommand("list", "-m", "-f", "{{.Dir}}", s.module).Output()
		if err != nil {
			t.Fatal(text(err))
		}
		from := strings.TrimSpace(string(out))
		to := filepath.Join(dir, filepath.Base(filepath.Dir(s.module)), filepath.Base(s.module))
		must.Do(t, copyModule(to, from))
		args = append(args, "-replace="+s.module+"="+to)
	}
	modfile := filepath.Join(dir, "go.mod")
	for _, name := range []string{"go.mod", "go.sum"} {
		data := must.Get(os.ReadFile(name))(t)
		must.Do(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	root := must.Get(filepath.Abs(".."))(t)
	args = append(args, "-replace=github.com/lwango/lwango="+root, modfile)
	if out, err := goCommand(args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// At the same time, since some of the tests sleep for ten seconds.
	var plain, bridged map[name]result
	log := filepath.Join(dir, "log")
	var wg sync.WaitGroup
	wg.Go(func() { plain = run(t, "", "", packages) })
	wg.Go(func() { bridged = run(t, modfile, log, packages) })
	wg.Wait()
	if t.Failed() {
		return
	}
	ways := readLog(t, log)
	for _, s := range suites {
		compare(t, s, plain, bridged, ways)
	}
}

func goCommand(args ...string) *exec.Cmd { return exec.Command("go", args...) }

func text(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(exit.Stderr)
	}
	return err.Error()
}

// copyModule copies a module, and rewrites its tests.
func copyModule(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, "_test.go") {
			if data, err = rewrite(path, data); err != nil {
				return err
			}
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
}

// name is a test's: the package, and TestX, or TestX/sub.
type name struct{ pkg, test string }

func (n name) String() string { return n.pkg + "." + n.test }

// result is what became of a test.
type result struct {
	outcome string // pass, fail or skip
	output  string
}

// run runs tests.
func run(t *testing.T, modfile, log string, packages []string) map[name]result {
	t.Helper()
	begin := time.Now()
	args := []string{"test", "-json", "-vet=off", "-timeout=2m",
		"-skip=" + strings.Join(slices.Sorted(maps.Keys(skipped)), "|")}
	if modfile != "" {
		args = append(args, "-modfile="+modfile)
	}
	cmd := goCommand(append(args, packages...)...)
	cmd.Env = append(os.Environ(), httptest.LogVar+"="+log)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output() // an error if one of the tests fails
	if err != nil && len(out) == 0 {
		t.Errorf("%v\n%s", err, stderr.Bytes())
		return nil
	}
	results := make(map[name]result)
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var event struct{ Action, Package, Test, Output, ImportPath string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Errorf("%v: %q", err, lines.Bytes())
		}
		n := name{event.Package, event.Test}
		r := results[n]
		switch event.Action {
		case "pass", "fail", "skip":
			r.outcome = event.Action
		case "output", "build-output":
			r.output += event.Output
		}
		results[n] = r
	}
	t.Logf("%d results after %v", len(results), time.Since(begin).Round(time.Second/10))
	return results
}

// readLog reads the log of httptest: how many requests each test has sent each way.
func readLog(t *testing.T, file string) map[name]map[string]int {
	data := must.Get(os.ReadFile(file))(t)
	ways := make(map[name]map[string]int)
	for line := range strings.Lines(string(data)) {
		test, way, _ := strings.Cut(strings.TrimSpace(line), " ")
		dot := max(strings.LastIndexByte(test, '.'), 0)
		n := name{test[:dot], strings.TrimPrefix(test[dot:], ".")}
		if ways[n] == nil {
			ways[n] = make(map[string]int)
		}
		ways[n][way]++
	}
	return ways
}

func compare(t *testing.T, s suite, plain, bridged map[name]result, ways map[name]map[string]int) {
	tests, real := 0, 0
	requests := make(map[string]int)
	// ours reports whether the function of a test has used lwango.
	ours := func(n name) bool {
		n.test, _, _ = strings.Cut(n.test, "/")
		w := ways[n]
		return w["socket"]+w["server"]+w["writer"] > 0
	}
	for n, want := range plain {
		if want.outcome != "pass" || n.test == "" || !strings.HasPrefix(n.pkg+"/", s.module+"/") {
			continue
		}
		got := bridged[n]
		switch reason := left[n.String()]; {
		case got.outcome == "pass":
			if reason != "" {
				t.Errorf("%v passes, and need not be left: %s", n, reason)
			}
		case reason != "" || hasLeft(n):
			continue
		case got.outcome == "fail" && !ours(n):
			// a limit in time that a busy machine has not kept; nothing of lwango's
			continue
		default:
			t.Errorf("%v: %s\n%s", n, cmp.Or(got.outcome, "did not run"), got.output)
			continue
		}
		tests++
		if w := ways[n]; w["socket"]+w["server"]+w["writer"] > 0 {
			real++
		}
		for way, k := range ways[n] {
			requests[way] += k
		}
	}
	t.Logf("%s: %d tests pass both ways, %d functions of them by a socket; requests: %v", s.module,
		tests, real, requests)
	if tests < s.tests || real < s.real {
		t.Errorf("%s: %d tests and %d functions are too few, want %d and %d", s.module, tests, real,
			s.tests, s.real)
	}
}

// hasLeft reports whether a subtest of n is left.
func hasLeft(n name) bool {
	for other := range left {
		if strings.HasPrefix(other, n.String()+"/") {
			return true
		}
	}
	return false
}
