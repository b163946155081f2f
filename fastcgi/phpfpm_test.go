package fastcgi_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/loopback"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// fpm is a PHP-FPM in a folder of its own.
type fpm struct {
	t       testing.TB
	path    string
	Address string
	config  string
	ini     bool // with the php.ini and the extensions of the system
	cmd     *exec.Cmd
	out     logtext.Buffer
}

// startFPM starts a PHP-FPM that listens on a UNIX socket or on TCP. pool is added to its
// configuration.
func startFPM(t testing.TB, network string, pool ...string) *fpm {
	t.Helper()
	f := newFPM(t, network, pool...)
	f.start()
	return f
}

// newFPM makes one that is not started yet.
func newFPM(t testing.TB, network string, pool ...string) *fpm {
	t.Helper()
	f := &fpm{t: t, path: findFPM(t)}
	// A socket's path has to be short, t.TempDir is not.
	dir := must.Get(os.MkdirTemp("", "fpm"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	listen := filepath.Join(dir, "s")
	f.Address = "unix:" + listen
	if network == "tcp" {
		ln := must.Get(net.Listen("tcp", loopback.Host()+":0"))(t)
		f.Address = ln.Addr().String()
		listen = f.Address
		ln.Close()
	}
	f.config = filepath.Join(dir, "fpm.conf")
	text := fmt.Sprintf(`[global]
daemonize = no
error_log = %s/error.log
process_control_timeout = 5s
[www]
listen = %s
listen.mode = 0666
pm = static
pm.status_path = /fpm-status
ping.path = /fpm-ping
security.limit_extensions = .php
php_admin_flag[log_errors] = on
php_admin_flag[display_errors] = off
%s
`, dir, listen, strings.Join(pool, "\n"))
	if !strings.Contains(text, "max_children") {
		text += "pm.max_children = 4\n"
	}
	must.Do(t, os.WriteFile(f.config, []byte(text), 0o644))
	t.Cleanup(func() { f.signal(syscall.SIGTERM) })
	return f
}

func findFPM(t testing.TB) string {
	t.Helper()
	names, _ := filepath.Glob("/usr/sbin/php-fpm*")
	if len(names) == 0 {
		ci.Lacks(t, "php-fpm: apt-get install php-fpm")
	}
	return names[len(names)-1]
}

// start starts the process, and waits until it listens.
func (f *fpm) start() {
	f.t.Helper()
	args := []string{"-F", "-O", "-y", f.config}
	if !f.ini {
		args = append(args, "-n")
	}
	if os.Getuid() == 0 {
		args = append(args, "-R")
	}
	f.cmd = exec.Command(f.path, args...)
	f.cmd.Stdout, f.cmd.Stderr = &f.out, &f.out
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	must.Do(f.t, f.cmd.Start())
	wait.Until(f.t, "php-fpm listens", func() bool {
		network, address := "tcp", f.Address
		if path, ok := strings.CutPrefix(address, "unix:"); ok {
			network, address = "unix", path
		}
		c, err := net.Dial(network, address)
		if err != nil {
			return false
		}
		c.Close()
		return bytes.Contains([]byte(f.out.String()), []byte("ready to handle connections"))
	})
}

// signal ends the process with a signal, and waits for the end.
func (f *fpm) signal(s syscall.Signal) {
	if f.cmd == nil {
		return
	}
	_ = f.cmd.Process.Signal(s)
	killer := time.AfterFunc(10*time.Second, func() { _ = f.cmd.Process.Kill() })
	_ = f.cmd.Wait()
	killer.Stop()
	f.cmd = nil
	f.out.Reset() // what the next one says counts
}

// killAll kills the process with its workers, which would go on otherwise.
func (f *fpm) killAll() {
	_ = syscall.Kill(-f.cmd.Process.Pid, syscall.SIGKILL) // the group is its own
	_ = f.cmd.Wait()
	f.cmd = nil
	f.out.Reset()
}
