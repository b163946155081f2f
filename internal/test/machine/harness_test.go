package machine_test

import (
	"fmt"
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

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(static.dir)
	os.Exit(code)
}

var static struct {
	once sync.Once
	dir  string
	err  error
}

// built returns the path of lwango without cgo, as it has to be to confine itself.
func built(t *testing.T) string {
	t.Helper()
	ci.Only(t, "builds lwango without cgo")
	static.once.Do(func() {
		if static.dir, static.err = os.MkdirTemp("", "lwango"); static.err != nil {
			return
		}
		if static.err = os.Chmod(static.dir, 0o755); static.err != nil { // for other users
			return
		}
		// As contrib/deb builds it: that may have compiled its packages already.
		build := exec.Command("go", "build", "-pgo=auto", "-trimpath", "-o",
			filepath.Join(static.dir, "lwango"), "../../../cmd/lwango")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			static.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if static.err != nil {
		t.Fatal(static.err)
	}
	return filepath.Join(static.dir, "lwango")
}

// jail is a folder with what a confined server serves.
type jail struct {
	t    *testing.T
	dir  string
	root bool // the server has the folder as its root folder
	cmd  *exec.Cmd
	logs *logtext.Buffer
}

// another is who the server becomes: nobody, on Debian.
const another = 65534

func newJail(t *testing.T) *jail {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "jail"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	j := &jail{t: t, dir: dir}
	for name, mode := range map[string]os.FileMode{".": 0o755, "etc": 0o755, "www": 0o755,
		"secrets": 0o755, "log": 0o700,
		"run": 0o700, "debug": 0o700, "keys": 0o755, "tmp": 0o777} {
		must.Do(t, os.MkdirAll(j.in(name), 0o755))
		must.Do(t, os.Chmod(j.in(name), mode)) // whatever the umask is
		if mode == 0o700 {
			j.give(name)
		}
	}
	return j
}

func (j *jail) in(name string) string { return filepath.Join(j.dir, name) }

// lines counts those of a file.
func (j *jail) lines(name string) int {
	text := must.Read(j.t, j.in(name))
	return strings.Count(text, "\n")
}

func (j *jail) give(name string) {
	j.t.Helper()
	must.Do(j.t, os.Chown(j.in(name), another, another))
}

func (j *jail) write(name, text string) {
	j.t.Helper()
	must.Do(j.t, os.WriteFile(j.in(name), []byte(text), 0o644))
}

// start runs the server, and returns the addresses at which it listens.
func (j *jail) start(n int) (addresses []string) {
	j.t.Helper()
	j.logs = new(logtext.Buffer)
	j.cmd = exec.Command(built(j.t), "-c", j.in("etc/lwango.conf"))
	j.cmd.Dir = j.dir
	if j.root {
		must.Do(j.t, os.Link(j.cmd.Path, j.in("lwango")))
		j.cmd = exec.Command("/lwango", "-c", "/etc/lwango.conf")
		j.cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: j.dir}
		j.cmd.Dir = "/"
	}
	j.cmd.Stderr = j.logs
	j.cmd.Env = append(os.Environ(), "TMPDIR=/tmp")
	must.Do(j.t, j.cmd.Start())
	j.t.Cleanup(func() {
		if j.cmd.ProcessState == nil {
			j.cmd.Process.Kill()
			j.cmd.Wait()
		}
		logtext.NoPanic(j.t, j.logs.String())
		if j.t.Failed() {
			j.t.Logf("log of the server:\n%s", j.logs)
		}
	})
	for _, m := range j.says(`msg=listening address=(\S+)`, n) {
		addresses = append(addresses, m[1])
	}
	return addresses
}

// says waits until n lines of the log match.
func (j *jail) says(expr string, n int) (matches [][]string) {
	j.t.Helper()
	re := regexp.MustCompile(expr)
	wait.Until(j.t, "the log says "+expr, func() bool {
		log := j.logs.String()
		if strings.Contains(log, "cannot start") || strings.HasPrefix(log, j.dir) {
			j.t.Fatal("the server has not started")
		}
		matches = re.FindAllStringSubmatch(log, -1)
		return len(matches) >= n
	})
	return matches
}

// pid returns what the pid file in etc says.
func (j *jail) pid() (pid int, err error) {
	text, err := os.ReadFile(j.in("etc/pid"))
	if err == nil {
		_, err = fmt.Sscan(string(text), &pid)
	}
	return pid, err
}

func (j *jail) signal(sig syscall.Signal) {
	j.t.Helper()
	must.Do(j.t, j.cmd.Process.Signal(sig))
}

// threads checks what each thread of the server has given up.
func (j *jail) threads(seccomp string) {
	j.t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", j.cmd.Process.Pid))
	if err != nil || len(tasks) == 0 {
		j.t.Fatalf("%d threads, %v", len(tasks), err)
	}
	user := fmt.Sprintf("%[1]d\t%[1]d\t%[1]d\t%[1]d", another)
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for _, want := range []string{"Uid:\t" + user, "Gid:\t" + user, "CapPrm:\t0000000000000000",
			"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1",
			"Seccomp:\t" + seccomp} {
			if !strings.Contains(string(text), "\n"+want+"\n") {
				j.t.Errorf("%s has no line %q:\n%s", task, want, text)
			}
		}
		groups := regexp.MustCompile(`(?m)^Groups:\s*(.*?)\s*$`).FindStringSubmatch(string(text))
		if groups == nil || groups[1] != "" && groups[1] != fmt.Sprint(another) {
			j.t.Errorf("%s: groups %q, want those of nobody", task, groups)
		}
	}
}
