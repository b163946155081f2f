package server_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestUpgradeCommandMistrusts: the folder of the pid file may belong to the server's user. What
// that puts there neither holds up the command of root, nor shows it another file, nor lets it send
// a signal to another process.
func TestUpgradeCommandMistrusts(t *testing.T) {
	u := startUpgraded(t, "")
	result := filepath.Join(u.dir, "pid.upgrade")
	u.write("ok", "ok: all is well\n")
	for _, test := range []struct {
		what, want string
		put        func() error
	}{
		{"link", "too many levels of symbolic links", func() error { return os.Symlink("ok", result) }},
		{"pipe", "is no regular file", func() error { return syscall.Mkfifo(result, 0o600) }},
	} {
		gate := filepath.Join(u.dir, test.what)
		u.write("behaviour", gate)
		before := strings.Count(u.log.String(), "upgrade begins")
		said := make(chan string, 1)
		go func() { out, code := u.command(); said <- fmt.Sprint(code, " ", out) }()
		wait.Until(t, "the upgrade", func() bool {
			return strings.Count(u.log.String(), "upgrade begins") > before
		})
		pid := u.mustPID()
		must.Do(t, os.Remove(result))
		must.Do(t, test.put())
		select {
		case got := <-said:
			if !strings.HasPrefix(got, "1 ") || !strings.Contains(got, test.want) {
				t.Errorf("%s: %s, want %s", test.what, got, test.want)
			}
		case <-time.After(wait.Patience):
			t.Fatalf("%s: the command waits", test.what)
		}
		u.write(test.what, "")
		wait.Until(t, "the new process", func() bool { return u.mustPID() != pid })
	}
}

// TestUpgradeCommandNeedsFile: a pid file is a file.
func TestUpgradeCommandNeedsFile(t *testing.T) {
	dir := t.TempDir()
	conf, pid := filepath.Join(dir, "lwango.conf"), filepath.Join(dir, "pid")
	must.Write(t, conf, "pid_file = \"pid\"\n")
	for _, test := range []struct {
		want string
		put  func() error
	}{
		{"too many levels of symbolic links", func() error { return os.Symlink("elsewhere", pid) }},
		{"is no regular file", func() error { return syscall.Mkfifo(pid, 0o600) }},
	} {
		must.Do(t, test.put())
		// The second one is a start.
		for _, args := range [][]string{{"-c", conf, "-upgrade"}, {"-c", conf, "-l", "127.0.0.1:0"}} {
			ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], args...)
			cmd.Env = append(os.Environ(), noExitSleep, behaviour+"="+os.DevNull)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), test.want) {
				t.Errorf("%v: code %d, %s, want %s", args, code, out, test.want)
			}
		}
		must.Do(t, os.Remove(pid))
	}
}

// TestUpgradeByAnother: a command finds the server also where it cannot read the configuration as
// the server does, which has a credential of the manager.
func TestUpgradeByAnother(t *testing.T) {
	u := startUpgradedBy(t, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "LWANGO_TEST_CREDENTIAL=secret")
	}, "[headers]\nx-secret = \"${LWANGO_TEST_CREDENTIAL}\"")
	if out, code := u.command(); code != 0 {
		t.Errorf("code %d, %q", code, out)
	}
	u.servedOnlyBy(u.mustPID())
}

// TestPIDFile: a second server with the same file does not start, and does not touch it.
func TestPIDFile(t *testing.T) {
	u := startUpgraded(t, "")
	cmd := exec.Command(os.Args[0], "-c", filepath.Join(u.dir, "lwango.conf"), "-l", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), noExitSleep, behaviour+"="+os.DevNull)
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 ||
		!strings.Contains(string(out), fmt.Sprintf("a server runs already, as process %d", u.first.Pid)) {
		t.Errorf("code %d, %s", code, out)
	}
	if got := u.mustPID(); got != u.first.Pid {
		t.Errorf("the file has %d, want %d", got, u.first.Pid)
	}

	// A file that a killed server has left is nobody's: -upgrade sends no signal to what its number
	// is now, and the next server takes it.
	must.Do(t, u.first.Kill())
	<-u.gone
	u.write("pid", fmt.Sprintf("%d\n", os.Getpid())) // SIGUSR2 would end this test
	if out, code := u.command(); code != 1 || !strings.Contains(out, "no server runs") {
		t.Errorf("code %d, %s", code, out)
	}
	cmd = exec.Command(os.Args[0], "-c", filepath.Join(u.dir, "lwango.conf"))
	cmd.Env = append(os.Environ(), noExitSleep, behaviour+"="+os.DevNull)
	must.Do(t, cmd.Start())
	wait.Until(t, "the new number", func() bool { pid, _ := u.pid(); return pid == cmd.Process.Pid })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
