package server_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestEarlySignal: a signal that comes while the configuration is read does not end the process,
// and is obeyed when it serves.
func TestEarlySignal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, none := filepath.Join(dir, "lwango.conf"), filepath.Join(dir, "behaviour")
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	must.Write(t, none, "")
	w := must.Get(os.OpenFile(fifo, os.O_RDWR, 0))(t) // which needs no reader
	defer w.Close()
	cmd := exec.Command(os.Args[0], "-c", fifo)
	cmd.Env = append(os.Environ(), noExitSleep, behaviour+"="+none)
	log := new(logtext.Buffer)
	cmd.Stderr = log
	must.Do(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Log(log.String())
		}
	})
	wait.Until(t, "the configuration is being read", func() bool {
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid))
		for _, fd := range open {
			if to, _ := os.Readlink(fd); to == fifo {
				return true
			}
		}
		return false
	})
	must.Do(t, cmd.Process.Signal(syscall.SIGHUP))
	must.Get(io.WriteString(w, "[[listener]]\naddress = \"127.0.0.1:0\"\n"))(t)
	w.Close()
	wait.Until(t, "the signal is obeyed", func() bool {
		select {
		case <-ended:
			t.Fatal("the process has ended")
		default:
		}
		return strings.Contains(log.String(), "msg=listening") &&
			strings.Contains(log.String(), "reload refused")
	})
}
