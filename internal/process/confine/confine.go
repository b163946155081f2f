package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Supported returns an error if the process cannot be confined because it was built with cgo: C
// code may have threads that Go does not know, so AllThreadsSyscall refuses.
func Supported() error {
	if err := allThreads("prctl", unix.SYS_PRCTL, unix.PR_GET_SECUREBITS, 0, 0); err != nil {
		return errors.New("this program was built with cgo, and cannot confine all of its " +
			"threads; build it with CGO_ENABLED=0")
	}
	return nil
}

// allThreads makes a system call on every thread. All must have the same result.
func allThreads(name string, trap, a1, a2, a3 uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(trap, a1, a2, a3); errno != 0 {
		return os.NewSyscallError(name, errno)
	}
	return nil
}

// User is the user and the groups of a process.
type User struct {
	ID, Group int
	Groups    []int // supplementary
}

// Become makes all threads run as u. The kernel drops their capabilities together with user 0
// (capabilities(7)).
func (u User) Become() error {
	if err := syscall.Setgroups(u.Groups); err != nil {
		return os.NewSyscallError("setgroups", err)
	}
	if err := syscall.Setresgid(u.Group, u.Group, u.Group); err != nil {
		return os.NewSyscallError("setresgid", err)
	}
	return os.NewSyscallError("setresuid", syscall.Setresuid(u.ID, u.ID, u.ID))
}

// NoNewPrivileges makes sure that no executed program gets more privileges than this process.
// Landlock and seccomp require it.
func NoNewPrivileges() error {
	return allThreads("prctl", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
}

// DropCapabilities empties all sets of capabilities. It comes after Become, which needs some of
// them.
func DropCapabilities() error {
	err := allThreads("prctl", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0)
	if err != nil {
		return err
	}
	// Two parts of 32 bits each (capset(2)); pid 0 is the thread itself.
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	none := new([2]unix.CapUserData)
	err = allThreads("capset", unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)),
		uintptr(unsafe.Pointer(none)), 0)
	runtime.KeepAlive(header)
	runtime.KeepAlive(none)
	return err
}

// LimitCapabilities empties the bounding set, so that not even a program of root's gets
// capabilities. It needs CAP_SETPCAP, which Become drops; a process without CAP_SETPCAP keeps its
// set.
func LimitCapabilities() error {
	for c := uintptr(0); ; c++ {
		switch err := allThreads("prctl", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); {
		case errors.Is(err, unix.EINVAL): // the kernel has no higher capability
			return nil
		case errors.Is(err, unix.EPERM):
			return nil
		case err != nil:
			return fmt.Errorf("capability %d: %w", c, err)
		}
	}
}
