package server_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestUpgradedServerLeavesAddress: what the new process closes is closed, though the old one
// drains.
func TestUpgradedServerLeavesAddress(t *testing.T) {
	u := startUpgraded(t, "")
	socket, _, err := gorilla.DefaultDialer.Dial("ws://"+u.addresses["tcp"]+"/socket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close() // it keeps the old process
	if out, code := u.command(); code != 0 {
		t.Fatal(out, code)
	}
	next := u.mustPID()
	refused := func(network string) {
		t.Helper()
		wait.Until(t, "the end of "+network, func() bool {
			c, err := net.Dial(network, u.addresses[network])
			if err == nil {
				c.Close()
			}
			return err != nil
		})
	}

	// A reload leaves the TCP address.
	unix := strings.SplitAfter(u.config, "pid_file = \"pid\"\n")[0] + "[[listener]]\n" +
		u.config[strings.Index(u.config, "address = \"unix"):]
	u.write("lwango.conf", unix)
	must.Do(t, syscall.Kill(next, syscall.SIGHUP))
	u.logged("no longer listening. address=127")
	refused("tcp")
	if got := u.served("unix"); got != next {
		t.Errorf("process %d answers, want %d", got, next)
	}

	// The end of the new process closes the rest, and removes the file.
	must.Do(t, syscall.Kill(next, syscall.SIGTERM))
	refused("unix")
	wait.Until(t, "the end of the pid file", func() bool {
		_, err := u.pid()
		return errors.Is(err, os.ErrNotExist)
	})
	if err := socket.WriteMessage(gorilla.TextMessage, []byte("here")); err != nil {
		t.Error(err)
	}
	if _, text, err := socket.ReadMessage(); string(text) != "here" || err != nil {
		t.Error(string(text), err)
	}
}

// TestUpgradeKilled: kill -9 of the old process at any time leaves the new one serving, and that of
// the new one before it is ready the old one.
func TestUpgradeKilled(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (u *upgraded, old, next int, release func()) {
		u = startUpgraded(t, "threads = 2")
		gate := filepath.Join(u.dir, "gate")
		u.write("behaviour", gate)
		old = u.mustPID()
		must.Do(t, syscall.Kill(old, syscall.SIGUSR2))
		next, _ = strconv.Atoi(u.logged(`upgrade begins.* pid=(\d+)`))
		return u, old, next, func() { u.write("gate", "") }
	}
	kill := func(t *testing.T, pid int) {
		must.Do(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	t.Run("new one before it is ready", func(t *testing.T) {
		u, old, next, _ := begin(t)
		must.Do(t, syscall.Kill(old, syscall.SIGUSR2)) // twice
		u.logged("upgrade refused: one is under way")
		kill(t, next)
		u.logged("upgrade failed, this process goes on.*signal: killed")
		u.servedOnlyBy(old)
	})
	t.Run("old one before the new one is ready", func(t *testing.T) {
		u, old, next, release := begin(t)
		kill(t, old)
		<-u.gone
		release()
		u.logged("the process before has ended already")
		u.servedOnlyBy(next)
		wait.Until(t, "the pid file", func() bool { pid, _ := u.pid(); return pid == next })
		if out, code := u.command(); code != 0 { // and it can be replaced
			t.Error(out, code)
		}
	})
	t.Run("old one while a command waits", func(t *testing.T) {
		u := startUpgraded(t, "")
		u.write("behaviour", filepath.Join(u.dir, "gate"))
		said := make(chan string)
		go func() { out, code := u.command(); said <- fmt.Sprint(code, " ", out) }()
		u.logged("upgrade begins")
		kill(t, u.first.Pid)
		want := fmt.Sprintf("1 lwango: -upgrade: process %d has ended before the new one was ready",
			u.first.Pid)
		select {
		case got := <-said:
			if !strings.HasPrefix(got, want) ||
				!strings.Contains(got, "systemd ends it, and starts the service anew") {
				t.Errorf("%s, want %s", got, want)
			}
		case <-time.After(wait.Patience):
			t.Error("the command waits")
		}
		u.write("gate", "")
		u.logged("the process before has ended already")
	})
	t.Run("middle one of three", func(t *testing.T) {
		u, old, middle, release := begin(t)
		socket, _, err := gorilla.DefaultDialer.Dial("ws://"+u.addresses["tcp"]+"/socket", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close() // it keeps the first one
		release()
		u.logged("replaced by a new process")
		u.servedOnlyBy(middle)
		gate := filepath.Join(u.dir, "second")
		u.write("behaviour", gate)
		must.Do(t, syscall.Kill(middle, syscall.SIGUSR2))
		last, _ := strconv.Atoi(u.logged(`(?s)upgrade begins.*upgrade begins.* pid=(\d+)`))
		kill(t, middle)
		wait.Until(t, "the end of the middle one", func() bool {
			return errors.Is(syscall.Kill(middle, 0), syscall.ESRCH)
		})
		u.write("second", "")
		u.logged("the process before has ended already")
		u.servedOnlyBy(last)
		if got := u.mustPID(); got != last {
			t.Errorf("the pid file has %d, want %d, and not %d", got, last, old)
		}
	})
	t.Run("old one while it drains", func(t *testing.T) {
		u, old, next, release := begin(t)
		socket, _, err := gorilla.DefaultDialer.Dial("ws://"+u.addresses["tcp"]+"/socket", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		release()
		u.logged("replaced by a new process")
		kill(t, old)
		<-u.gone
		u.servedOnlyBy(next)
	})
	t.Run("old one stops while the new one starts", func(t *testing.T) {
		u, old, next, _ := begin(t)
		must.Do(t, syscall.Kill(old, syscall.SIGTERM))
		<-u.gone
		wait.Until(t, "the end of the new process", func() bool {
			return errors.Is(syscall.Kill(next, 0), syscall.ESRCH) || zombie(next)
		})
	})
}

// TestUpgradedServerFails: a new process that fails while the old one drains ends as any server
// that fails, with all files, so that the manager starts another one. The old one goes on with what
// it has.
func TestUpgradedServerFails(t *testing.T) {
	m := listenAsManager(t)
	u := startUpgraded(t, "threads = 2\ngrace = \"1m\"")
	m.told(`READY=1\nSTATUS=serving at .*`)
	old := u.mustPID()
	c := must.Get(u.dial("tcp"))(t)
	defer c.close()
	if pid, _, err := c.ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); pid != old || err != nil {
		t.Fatal(pid, err)
	}
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo") // it keeps the old one
	if out, code := u.command(); code != 0 {
		t.Fatal(out, code)
	}
	next := u.mustPID()
	m.told(fmt.Sprintf(`MAINPID=%d\nSTATUS=process .*`, next))
	u.fail()
	m.told(`STOPPING=1\nEXTEND_TIMEOUT_USEC=[0-9]+\nSTATUS=.*`)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(next, &status, 0, nil); err != nil || status.ExitStatus() != 1 {
		t.Errorf("the new process ends with %d, %v, want 1", status.ExitStatus(), err)
	}
	if pid, _, err := c.ask("dy"); pid != old || err != nil {
		t.Errorf("the request in flight: %d, %v", pid, err)
	}
	c.close()
	<-u.gone
	for _, name := range []string{"pid", "socket"} {
		if _, err := os.Lstat(filepath.Join(u.dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}

// TestDrainedServerIsSignalled: a signal that comes when drain is over, the first one that the old
// process gets, does not cut short what has its grace period then.
func TestDrainedServerIsSignalled(t *testing.T) {
	t.Parallel()
	u := startUpgraded(t, "drain = \"10ms\"\ngrace = \"1m\"")
	old := u.mustPID()
	c := must.Get(u.dial("tcp"))(t)
	defer c.close()
	if pid, _, err := c.ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); pid != old || err != nil {
		t.Fatal(pid, err)
	}
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo")
	if out, code := u.command(); code != 0 {
		t.Fatal(out, code)
	}
	u.logged("drain is over")
	must.Do(t, syscall.Kill(old, syscall.SIGTERM))
	u.logged("(stopping already|stopped at once)")
	if pid, last, err := c.ask("dy"); pid != old || !last || err != nil {
		t.Errorf("the request in flight: %d, last %v, %v", pid, last, err)
	}
	<-u.gone
}
