package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lwango/lwango/internal/process/config"
	"golang.org/x/sys/unix"
)

// requestUpgrade asks the server of a configuration's pid_file for an upgrade, waits for the
// result, and returns the exit code.
func requestUpgrade(c *config.Config, stdout, stderr io.Writer) int {
	if !c.Confine.Executes() {
		fmt.Fprintf(stderr, "lwango: -upgrade: a confined server cannot start another program: "+
			"restart it\n")
		return exitFailure
	}
	result, err := request(c.PIDFile)
	if err != nil {
		fmt.Fprintf(stderr, "lwango: -upgrade: %v\n", err)
		return exitFailure
	}
	if text, ok := strings.CutPrefix(result, "ok: "); ok {
		fmt.Fprintf(stdout, "%s\n", text)
		return exitStopped
	}
	fmt.Fprintf(stderr, "lwango: -upgrade: %s\n", result)
	return exitFailure
}

// request returns the result of an upgrade, as the server has written it.
func request(path string) (string, error) {
	if path == "" {
		return "", errors.New("the configuration has no pid_file, which says where the server is; " +
			"without it, send the server the signal SIGUSR2, and look at its log")
	}
	f, err := openRegular(path, os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("no server runs: there is no %s", path)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	pid, err := readPID(f)
	if err != nil {
		return "", err
	}
	if err := holds(pid, f); err != nil {
		return "", err
	}
	if err := prepareResult(path, pid); err != nil {
		return "", fmt.Errorf("the server could not say how the upgrade ends: %w; send it the signal "+
			"SIGUSR2, and look at its log", err)
	}
	if err := syscall.Kill(pid, syscall.SIGUSR2); err != nil {
		return "", fmt.Errorf("process %d: %w", pid, err)
	}
	const every, more = 20 * time.Millisecond, 10 * time.Second
	for until := time.Now().Add(upgradeWait + more); time.Now().Before(until); time.Sleep(every) {
		killed := errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
		if text, err := readResult(path); text != "" || err != nil {
			return text, err
		}
		switch {
		case !locked(f):
			return "", errors.New("the server has ended")
		case killed: // and another process has the lock
			return "", fmt.Errorf("process %d has ended before the new one was ready, which goes on if "+
				"it gets ready (systemd ends it, and starts the service anew): look at its log", pid)
		}
	}
	return "", fmt.Errorf("process %d does not say how the upgrade has ended, look at its log", pid)
}

// holds returns nil if a process has the pidFile open, as a running server has. Otherwise a server
// was killed, and its process ID may be that of any other process by now, which SIGUSR2 would end.
func holds(pid int, f *os.File) error {
	own, err := f.Stat()
	if err != nil {
		return err
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, entry := range open {
		there, err := os.Stat(filepath.Join(dir, entry.Name()))
		if err == nil && os.SameFile(own, there) {
			return nil
		}
	}
	return fmt.Errorf("no server runs: process %d, of which %s speaks, is none", pid, f.Name())
}

// locked reports whether a process has locked a pidFile.
func locked(f *os.File) bool {
	lock := wholeFile(unix.F_WRLCK)
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock)
	return err == nil && lock.Type != unix.F_UNLCK
}

// readResult returns the result of an upgrade, or "" if there is none yet.
func readResult(pidFile string) (string, error) {
	f, err := openRegular(resultOf(pidFile), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	const most = 4096 // the program's own results have a few hundred bytes
	text, err := io.ReadAll(io.LimitReader(f, most))
	return strings.TrimSpace(string(text)), err
}

// prepareResult makes an empty file, which the server can write to, for the result of an upgrade.
// The server itself need not have the right to make files there: root may have made the pid file
// before [confine] gave the process to another user.
func prepareResult(pidFile string, pid int) error {
	user, group, err := ownerOf(pid)
	if err != nil {
		return err
	}
	next := resultOf(pidFile) + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if user != os.Geteuid() {
		if err := f.Chown(user, group); err != nil {
			return err
		}
	}
	return os.Rename(next, resultOf(pidFile))
}

// ownerOf returns the effective user and group of a process. Its folder in /proc belongs to root if
// it was root's once (proc(5)).
func ownerOf(pid int) (user, group int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	ids := map[string]int{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if f := strings.Fields(value); (name == "Uid" || name == "Gid") && len(f) > 1 {
			if ids[name], err = strconv.Atoi(f[1]); err != nil {
				return 0, 0, err
			}
		}
	}
	return ids["Uid"], ids["Gid"], nil
}
