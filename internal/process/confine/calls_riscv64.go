package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_RISCV64

// RISCV_FLUSH_ICACHE is of no use without executable memory, but RISCV_HWPROBE tells Go what the
// processor can do.
var legacyCalls = []uintptr{unix.SYS_NEWFSTATAT, unix.SYS_GETRLIMIT, unix.SYS_FADVISE64,
	unix.SYS_SYNC_FILE_RANGE,
	unix.SYS_RISCV_HWPROBE}
