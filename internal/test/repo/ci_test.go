package repo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// stubs stand for the programs that .ci/run calls. go notes how it is called, and fails, or hangs,
// if the case says so.
var stubs = map[string]string{
	"go": `#!/bin/sh
call="$PWD: $* CI=$LWANGO_CI"
echo "$call" >>"$STUBS/calls"
if [ -n "$HANGS" ] && echo "$call" | grep -q -e "$HANGS"; then
	echo $$ >"$STUBS/hangs.new" && mv "$STUBS/hangs.new" "$STUBS/hangs"
	exec sleep 1000
fi
# a test of the rest does not end before the one beside it hangs
if [ -n "$HANGS" ] && [ "$3" = -p ]; then while ! [ -e "$STUBS/hangs" ]; do sleep 0.01; done; fi
if [ -n "$FAILS" ] && echo "$call" | grep -q -e "$FAILS"; then exit 3; fi
if [ "$1" = list ]; then echo example.org/a; echo example.org/contrib/deb; fi
`,
	"git": "#!/bin/sh\ncase \"$*\" in *go.mod*) echo samples/rest/go.mod; echo interop/go.mod; " +
		"esac\n",
	"gofmt":   "#!/bin/sh\n",
	"apt-get": "#!/bin/sh\n",
	"unshare": "#!/bin/sh\nexit 1\n",
}

// TestGate: .ci/run is green if each of its steps is, and otherwise not, whichever step fails,
// beside the others or not. What runs beside them ends with it.
func TestGate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, fails, hangs string }{
		{"green", "", ""},
		{"vet", "vet ./... ./cmd/lwango", ""},
		{"vet of invariants", "vet -race -tags", ""},
		{"staticcheck", "staticcheck", ""},
		{"tests", "test -vet=off -p 4.* -skip .* example.org/a ", ""},
		{"race", ": test -vet=off -race -tags", ""},
		{"tests, while others run", "test -vet=off -p 4 -parallel", "test.* ./contrib"},
		{"packages", "test.* ./contrib", ""},
		{"machines", "test.* -run .* ./fastcgi", ""},
		{"other modules", "interop: test", ""},
		{"rest", "samples/rest: test.* -race", ""},
		{"bench", "bench: run", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range stubs {
				must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
			}
			cmd := exec.Command(".ci/run")
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "STUBS="+dir,
				"TMPDIR="+dir, "FAILS="+c.fails, "HANGS="+c.hangs)
			out, err := cmd.CombinedOutput()
			if green := c.fails == ""; green != (err == nil) ||
				green != strings.Contains(string(out), "\n== done") {
				t.Errorf("%v:\n%s", err, out)
			}
			calls := must.Get(os.ReadFile(filepath.Join(dir, "calls")))(t)
			if strings.Contains(string(calls), "-fuzz") || !strings.Contains(string(calls), "CI=1") {
				t.Errorf("fuzzing, or no LWANGO_CI:\n%s", calls)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "tmp.*")); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if c.hangs == "" {
				return
			}
			text := must.Read(t, filepath.Join(dir, "hangs"))
			pid := must.Get(strconv.Atoi(strings.TrimSpace(text)))(t)
			wait.Until(t, "what hangs has ended", func() bool {
				return syscall.Kill(pid, 0) == syscall.ESRCH
			})
		})
	}
}
