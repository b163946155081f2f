package confine

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (seccomp(2)). Arguments have 64 bits; the filter loads the lower
// half, which comes first: all of Go's 64-bit architectures with a list here are little-endian.
const (
	dataNumber = 0
	dataArch   = 4
	dataArgs   = 16
)

// FilterCalls restricts all threads to the listed system calls. Of those,
//
//   - socket(2) makes only TCP, UDP and UNIX sockets, and the one by which Go asks for interfaces;
//   - memory is never executable, which Go needs for no more than its own text;
//   - a program may make threads, but no process: there is nothing that it could execute.
//
// Other calls fail with EPERM and do not end the process: a handler of the program's own may make
// one, and gets an error, which kernels log (SECCOMP_FILTER_FLAG_LOG). A call that is newer than
// this list fails with ENOSYS, as in an older kernel, since programs then do without it. Calls of
// another architecture end the process.
func FilterCalls() error {
	if auditArch == 0 {
		return errors.New("there is no list of system calls for this architecture")
	}
	filter := program()
	prog := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// TSYNC applies the filter to all threads, and requires NoNewPrivileges.
	at, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_LOG,
		uintptr(unsafe.Pointer(prog)))
	runtime.KeepAlive(prog)
	switch {
	case errno != 0:
		return os.NewSyscallError("seccomp", errno)
	case at != 0: // a thread that has another filter
		return os.NewSyscallError("seccomp", unix.ESRCH)
	}
	return nil
}

const denied = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)

// program makes the filter. Since Linux 5.11 the kernel runs it once for each number, and remembers
// which calls are allowed with any arguments, so its length does not matter.
func program() []unix.SockFilter {
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	// test jumps over yes statements if the test succeeds, and over no statements if it fails.
	test := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | code, Jt: yes, Jf: no, K: k}
	}
	load := func(at uint32) unix.SockFilter { return stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at) }
	ret := func(action uint32) unix.SockFilter { return stmt(unix.BPF_RET|unix.BPF_K, action) }
	is := func(number uint32, action uint32) []unix.SockFilter {
		return []unix.SockFilter{test(unix.BPF_JEQ, number, 0, 1), ret(action)}
	}

	f := []unix.SockFilter{
		load(dataArch),
		test(unix.BPF_JEQ, auditArch, 1, 0),
		ret(unix.SECCOMP_RET_KILL_PROCESS),
		load(dataNumber),
		test(unix.BPF_JGT, lastKnownCall, 0, 1), // also the calls of x32, whose numbers have bit 30
		ret(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
	}
	for _, number := range allowed {
		f = append(f, is(uint32(number), unix.SECCOMP_RET_ALLOW)...)
	}
	// Each part here keeps the number loaded for calls that it is not about.
	for _, number := range []uint32{unix.SYS_MMAP, unix.SYS_MPROTECT} {
		f = append(f,
			test(unix.BPF_JEQ, number, 0, 4),
			load(dataArgs+2*8), // prot
			test(unix.BPF_JSET, unix.PROT_EXEC, 0, 1),
			ret(denied),
			ret(unix.SECCOMP_RET_ALLOW))
	}
	f = append(f,
		test(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4),
		load(dataArgs), // flags: the first argument on all architectures of the list
		test(unix.BPF_JSET, unix.CLONE_THREAD, 1, 0),
		ret(denied),
		ret(unix.SECCOMP_RET_ALLOW))
	f = append(f, test(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 7), load(dataArgs)) // domain
	for i, domain := range []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		f = append(f, test(unix.BPF_JEQ, domain, uint8(4-i), 0))
	}
	f = append(f, ret(denied), ret(unix.SECCOMP_RET_ALLOW))
	// The flags of clone3 are in memory, which no filter can read. Go does not use clone3, and
	// programs that do fall back on clone (as glibc).
	f = append(f, is(unix.SYS_CLONE3, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS))...)
	return append(f, ret(denied))
}
