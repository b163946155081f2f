package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

var legacyCalls = []uintptr{unix.SYS_NEWFSTATAT, unix.SYS_GETRLIMIT, unix.SYS_RENAMEAT,
	unix.SYS_FADVISE64, unix.SYS_SYNC_FILE_RANGE}
