// Package machine gives a test a machine to change: systemd runs it, in namespaces of its own, on
// top of the files that are there. Its own tests are those of the program when root starts it.
package machine

import (
	"bytes"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

//go:embed boot
var boot string

// Machine is a running systemd and what it has started.
type Machine struct {
	t   *testing.T
	pid string // of systemd, as this process sees it
}

// Start boots a machine, which ends with the test. It has the packages of the machine that it runs
// on, and starts none of their services. Its network is loopback alone. binds are folders that it
// sees, "from:to". The test is left out unless .ci/run runs it, and where the kernel refuses the
// namespaces, as it does in most containers.
func Start(t *testing.T, binds ...string) *Machine {
	t.Helper()
	ci.Root(t)
	for _, tool := range []string{"/lib/systemd/systemd", "systemctl", "unshare", "nsenter", "ip",
		"setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("a machine: %v", err)
		}
	}
	group := newGroup(t)
	dir := t.TempDir()
	// The group has to be that of the process before unshare makes it the root of its name space.
	const start = `echo $$ >"$0/cgroup.procs"
exec unshare --mount --pid --fork --kill-child --cgroup --uts --ipc --net sh -euc "$@"`
	command := func(script string, args ...string) *exec.Cmd {
		cmd := exec.Command("sh", append([]string{"-euc", start, group, script, "boot"}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		return cmd
	}
	// What the kernel may refuse, of all that boot does.
	const probe = `mount --make-rprivate /; mount -t tmpfs tmpfs "$1"; mkdir "$1/u" "$1/w" "$1/r"
mount -t overlay -o "lowerdir=/,upperdir=$1/u,workdir=$1/w" overlay "$1/r"
mount -t proc proc "$1/r/proc"; mount -t sysfs -o ro sysfs "$1/r/sys"
mount -t cgroup2 cgroup2 "$1/r/sys/fs/cgroup"; mkdir "$1/r/sys/fs/cgroup/x"`
	if out, err := command(probe, dir).CombinedOutput(); err != nil {
		t.Skipf("the kernel allows no machine here: %v: %s", err, out)
	}
	must.Do(t, os.Remove(filepath.Join(group, "x")))

	var said bytes.Buffer
	cmd := command(boot, append([]string{dir}, binds...)...)
	cmd.Stdout, cmd.Stderr = &said, &said
	must.Do(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // and with it, by --kill-child, all of the machine
		<-ended
	})
	m := &Machine{t: t}
	children := fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid)
	wait.Until(t, "systemd is up", func() bool {
		select {
		case <-ended:
			t.Fatalf("systemd does not start: %s", said.String())
		default:
		}
		child, _ := os.ReadFile(children)
		m.pid = strings.TrimSpace(string(child))
		name, _ := os.ReadFile("/proc/" + m.pid + "/comm")
		if strings.TrimSpace(string(name)) != "systemd" {
			return false
		}
		state, _ := m.command("systemctl is-system-running").CombinedOutput()
		is := strings.TrimSpace(string(state))
		return is == "running" || is == "degraded"
	})
	return m
}

// newGroup makes a cgroup beside this process's, which is removed when the test ends.
func newGroup(t *testing.T) string {
	t.Helper()
	mounts := must.Get(os.ReadFile("/proc/self/mounts"))(t)
	own := must.Get(os.ReadFile("/proc/self/cgroup"))(t)
	for line := range strings.Lines(string(mounts)) {
		field := strings.Fields(line)
		if field[2] != "cgroup2" {
			continue
		}
		for line := range strings.Lines(string(own)) {
			path, is := strings.CutPrefix(strings.TrimSpace(line), "0::")
			if !is {
				continue
			}
			group, err := os.MkdirTemp(filepath.Join(field[1], path), "lwango-test-")
			if err != nil {
				t.Skipf("a machine needs a cgroup: %v", err)
			}
			t.Cleanup(func() { remove(t, group) })
			return group
		}
	}
	t.Skip("a machine needs cgroups of version 2")
	return ""
}

// remove removes a group and those in it, as soon as their processes have ended.
func remove(t *testing.T, group string) {
	var all []string
	_ = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	wait.Until(t, "a cgroup is empty", func() bool {
		for i := len(all) - 1; i >= 0; i-- {
			if err := syscall.Rmdir(all[i]); err != nil && err != syscall.ENOENT {
				return false
			}
		}
		return true
	})
}

// Path is where this process finds a file of the machine.
func (m *Machine) Path(name string) string { return "/proc/" + m.pid + "/root" + name }

// Write makes a file of the machine, and its folders.
func (m *Machine) Write(name, text string, mode fs.FileMode) {
	m.t.Helper()
	path := m.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		m.t.Fatal(err)
	}
}

// command is a shell of the machine's root. What it starts ends with the machine.
func (m *Machine) command(script string) *exec.Cmd {
	cmd := exec.Command("nsenter", "--target", m.pid, "--all", "sh", "-euc", script)
	cmd.Env = []string{"HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive",
		"SYSTEMD_PAGER=", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return cmd
}

// Try runs a script as the machine's root.
func (m *Machine) Try(script string) (said string, err error) {
	out, err := m.command(script).CombinedOutput()
	return string(out), err
}

// Run is Try for what must succeed; the test ends with the services' words if it does not.
func (m *Machine) Run(script string) string {
	m.t.Helper()
	said, err := m.Try(script)
	if err != nil {
		journal, _ := m.Try("journalctl --sync; journalctl --no-pager -n 80")
		m.t.Fatalf("%s\n%v: %s\n%s", script, err, said, journal)
	}
	return said
}
