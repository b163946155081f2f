package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/wait"
)

// A sample that is killed cannot clean up; PHP-FPM ends nevertheless.
func TestKilled(t *testing.T) {
	s := run(t)
	worker := s.worker(t)
	if code := s.End(t, syscall.SIGKILL); code != -1 {
		t.Errorf("exit code %d", code)
	}
	wait.Until(t, "php-fpm ends", func() bool { return !runs(s.master) && !runs(worker) })
	for _, name := range s.left(t) {
		os.RemoveAll(filepath.Join(s.tmp, name))
	}
}

// Without PHP-FPM there is nothing to serve. Those of its processes that outlive it are ended.
func TestPHPFPMDies(t *testing.T) {
	s := run(t)
	worker := s.worker(t)
	must.Do(t, syscall.Kill(s.master, syscall.SIGKILL))
	if code := s.End(t, 0); code != 1 {
		t.Errorf("exit code %d", code)
	}
	s.Logged(t, `msg=stopping cause="php-fpm has ended: signal: killed"`)
	s.Logged(t, `level=ERROR msg="php-fpm has ended, and not because of us" .*killed`)
	wait.Until(t, "its process ends", func() bool { return !runs(worker) })
}

// A sample that cannot serve says why, and exits with 1.
func TestCannotStart(t *testing.T) {
	tests := []struct {
		php  string
		want []string // parts of what is said
	}{
		{"php-fpm-that-nobody-has",
			[]string{"there is no php-fpm-that-nobody-has in PATH", "apt-get install php-fpm"}},
		{"/nowhere/php-fpm", []string{"/nowhere/php-fpm", "no such file"}},
		{"/bin/false", []string{"cannot start php-fpm", "exit status 1"}},
	}
	tmp := temporary(t)
	for _, test := range tests {
		args := []string{"-l", "127.0.0.1:0", "-php-fpm", test.php}
		out := program.Fails(t, args, 1, test.want...)
		if strings.Contains(out, "listening") {
			t.Errorf("%s: listens: %s", test.php, out)
		}
	}
	if left := left(t, tmp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// If PHP-FPM refuses its configuration, the log says why.
func TestPHPFPMRefuses(t *testing.T) {
	needFPM(t)
	path := must.Get(find("php-fpm"))(t)
	// The wrapper spoils our configuration before it starts PHP-FPM.
	wrapper := filepath.Join(t.TempDir(), "php-fpm")
	script := fmt.Sprintf("#!/bin/sh\nprintf 'pm = none\\n' >>php-fpm.conf\nexec %s \"$@\"\n", path)
	must.Do(t, os.WriteFile(wrapper, []byte(script), 0o755))
	temporary(t)
	program.Fails(t, []string{"-l", "127.0.0.1:0", "-php-fpm", wrapper}, 1,
		"ERROR php-fpm", "invalid process manager", "cannot start php-fpm",
		"exit status 78")
}

func TestFind(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	t.Setenv("PATH", strings.Join([]string{one, "/nowhere", ".", two}, ":"))
	for path, mode := range map[string]os.FileMode{
		one + "/some98.9":    0o755,
		one + "/some99.1":    0o644, // not to be executed
		one + "/some-old":    0o755,
		one + "/some":        0o644,
		two + "/some98.10":   0o755,
		two + "/some7":       0o755,
		two + "/other8.2":    0o755,
		two + "/other":       0o755,
		one + "/other8.3":    0o755,
		one + "/only8.2.bak": 0o755,
	} {
		must.Do(t, os.WriteFile(path, nil, mode))
	}
	for name, want := range map[string]string{
		"some":            two + "/some98.10",
		"other":           two + "/other",
		"some98.9":        one + "/some98.9",
		one + "/some98.9": one + "/some98.9",
		"only":            "",
		one + "/some":     "",
	} {
		if got, err := find(name); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
}

// A signal counts before PHP-FPM listens, too. A PHP-FPM that does not end is killed with all its
// processes.
func TestStopWhileStarting(t *testing.T) {
	for what, script := range map[string]string{
		"obeys":    "echo begun $$; exec sleep 600",
		"does not": "trap '' TERM; sleep 600 & echo begun $!; wait",
	} {
		tmp := temporary(t)
		slow := filepath.Join(t.TempDir(), "php-fpm")
		must.Do(t, os.WriteFile(slow, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		cmd := program.Command(t, "-l", "127.0.0.1:0", "-php-fpm", slow)
		log := must.Get(cmd.StderrPipe())(t)
		must.Do(t, cmd.Start())
		lines := bufio.NewScanner(log)
		for lines.Scan() && !strings.Contains(lines.Text(), "begun") {
		}
		_, rest, _ := strings.Cut(lines.Text(), "begun ")
		process := atoi(t, strings.Trim(rest, `"`))
		must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
		var said strings.Builder
		for lines.Scan() {
			said.WriteString(lines.Text() + "\n")
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("%s: %v", what, err)
		}
		if !strings.Contains(said.String(), "cannot start php-fpm") ||
			strings.Contains(said.String(), "listening") {
			t.Errorf("%s: said %s", what, said.String())
		}
		wait.Until(t, "the process ends", func() bool { return !runs(process) })
		if left := left(t, tmp); len(left) > 0 {
			t.Errorf("%s: left behind: %v", what, left)
		}
	}
}
