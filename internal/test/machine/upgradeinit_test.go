package machine_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// underInit runs a script as number 1 of a namespace of processes. $0 is the program, $@ are its
// arguments, and USR1 and TERM are sent to the script. logged waits for a line of the program's
// log.
func underInit(t *testing.T, script string) (init *exec.Cmd, logged func(expr string)) {
	t.Helper()
	ci.Root(t)
	t.Parallel()
	dir := t.TempDir()
	conf := filepath.Join(dir, "lwango.conf")
	must.Write(t, conf, "pid_file = \"pid\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n")
	cmd := exec.Command("/bin/sh", "-c", script, built(t), "-c", conf)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	log := new(logtext.Buffer)
	cmd.Stderr = log
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // and with it all of its namespace
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return cmd, func(expr string) {
		t.Helper()
		wait.Until(t, expr, func() bool { return regexp.MustCompile(expr).MatchString(log.String()) })
	}
}

// TestUpgradeUnderInit: a process that number 1 of a container has started is not replaced, since
// the container would end with it.
func TestUpgradeUnderInit(t *testing.T) {
	// As tini, this one passes signals on and ends with the process that it has started.
	cmd, logged := underInit(t, `"$0" "$@" & trap "kill -USR2 $!" USR1; trap "kill $!" TERM
		while kill -0 $! 2>/dev/null; do wait $!; done`)
	logged("msg=listening")
	must.Do(t, cmd.Process.Signal(syscall.SIGUSR1))
	logged("upgrade failed, this process goes on.*process 1 has started this one")
	must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
	logged("msg=stopped")
}

// TestUpgradeOfOrphan: one whose starter has gone has number 1 as its parent, too, and is replaced.
func TestUpgradeOfOrphan(t *testing.T) {
	cmd, logged := underInit(t, `trap 'kill -USR2 $(cat pid)' USR1
		setsid /bin/sh -c '(while kill -0 $$ 2>/dev/null; do :; done; exec "$0" "$@") &' "$0" "$@"
		while :; do sleep 1; done`)
	logged("msg=listening")
	must.Do(t, cmd.Process.Signal(syscall.SIGUSR1))
	logged("replaced by a new process")
}
