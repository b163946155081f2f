package server

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// starter is what a child of process 1 can find out about the process that has started it. That may
// be process 1 itself, which usually ends its container or its service with this process; or
// another process that has ended since, so that this one is an orphan. The kernel does not say
// which.
type starter struct {
	pid, session, group int
	init                struct{ session, group int } // of process 1
	cgroup              string                       // as /proc/self/cgroup has it
	// SYSTEMD_EXEC_PID: systemd has started that process
	main   string
	openRC bool // the machine runs OpenRC
}

func findStarter() starter {
	s := starter{pid: os.Getpid(), group: unix.Getpgrp(), main: os.Getenv("SYSTEMD_EXEC_PID")}
	s.session, _ = unix.Getsid(0)
	s.init.session, _ = unix.Getsid(1)
	s.init.group, _ = unix.Getpgid(1)
	text, _ := os.ReadFile("/proc/self/cgroup")
	s.cgroup = string(text)
	_, err := os.Stat("/run/openrc/softlevel")
	s.openRC = !errors.Is(err, fs.ErrNotExist)
	return s
}

// orphan reports whether it is certain that process 1 has not started this one.
//
// A child of process 1 is in its session and group, or is the leader of its own (tini, dumb-init,
// systemd, inittab). A shell's background job is in the session or the group of that shell, or of
// a part of it, which may have ended. What start-stop-daemon of OpenRC has put into the background
// leads a session of its own, too; but there process 1 starts no services.
//
// A process of a unit of systemd is no orphan, whatever its parent was: systemd ends the whole unit
// with its main process.
func (s starter) orphan() bool {
	if s.main == strconv.Itoa(s.pid) || s.inUnit() {
		return false
	}
	if s.session != s.pid && s.session != s.init.session ||
		s.group != s.pid && s.group != s.init.group {
		return true
	}
	return s.session == s.pid && s.openRC
}

// inUnit reports whether the process belongs to a service of systemd. A login's processes are in a
// scope.
func (s starter) inUnit() bool {
	for line := range strings.Lines(s.cgroup) {
		if strings.HasSuffix(path.Base(strings.TrimSpace(line)), ".service") {
			return true
		}
	}
	return false
}
