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

// TestUpgradeUnderInit: a process that number 1 of a container has started is not replaced, since
// the container would end with it.
func TestUpgradeUnderInit(t *testing.T) {
	ci.Root(t)
	t.Parallel()
	conf := filepath.Join(t.TempDir(), "lwango.conf")
	must.Write(t, conf, "[[listener]]\naddress = \"127.0.0.1:0\"\n")
	// As tini, this one passes signals on and ends with the process that it has started.
	cmd := exec.Command("/bin/sh", "-c", `"$0" "$@" & trap "kill -USR2 $!" USR1; trap "kill $!" TERM
		while kill -0 $! 2>/dev/null; do wait $!; done`,
		built(t), "-c", conf)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	log := new(logtext.Buffer)
	cmd.Stderr = log
	must.Do(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill() // and with it all of its namespace
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	logged := func(expr string) {
		t.Helper()
		wait.Until(t, expr, func() bool { return regexp.MustCompile(expr).MatchString(log.String()) })
	}
	logged("msg=listening")
	must.Do(t, cmd.Process.Signal(syscall.SIGUSR1))
	logged("upgrade failed, this process goes on.*process 1 has started this one")
	must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
	logged("msg=stopped")
}
