package sysio

import (
	"errors"
	"syscall"
)

// Exhausted reports that this process, or this machine, has no more of what a system call needs:
// descriptors, buffers or memory. No peer is at fault, and the call may succeed a little later.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}
