package uring

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// refusal explains the error of io_uring_setup.
func refusal(errno syscall.Errno) error {
	why := "the kernel refuses to make a ring"
	switch errno {
	case unix.EPERM, unix.EACCES:
		why = "this process may not use io_uring: the filter of a container forbids it, as Docker's " +
			"does unless told otherwise, or the sysctl kernel.io_uring_disabled"
	case unix.ENOSYS:
		why = "the kernel has no io_uring, or the filter of a container hides it"
	case unix.EINVAL:
		why = "the sizes are wrong, or the kernel does not know an option: Linux 6.1 is needed"
	case unix.ENOMEM:
		why = "no memory for a ring"
	}
	return fmt.Errorf("%s (io_uring_setup: %w)", why, errno)
}
