package sysio

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// DescriptorLimit returns RLIMIT_NOFILE. The Go runtime has raised the soft limit to the hard one
// at its start.
func DescriptorLimit() int {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 1024 // what every system allows
	}
	return int(min(lim.Cur, 1<<30))
}

// Exhausted reports that this process, or this machine, has no more of what a system call needs:
// descriptors, buffers or memory. No peer is at fault, and the call may succeed a little later.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}
