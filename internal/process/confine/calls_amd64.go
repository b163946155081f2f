package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// legacyCalls are calls that newer architectures have only in another form.
var legacyCalls = []uintptr{
	unix.SYS_ARCH_PRCTL, unix.SYS_DUP2, unix.SYS_EPOLL_WAIT, unix.SYS_GETRLIMIT, unix.SYS_LSTAT,
	unix.SYS_MKDIR, unix.SYS_NEWFSTATAT, unix.SYS_OPEN, unix.SYS_PIPE, unix.SYS_POLL,
	unix.SYS_READLINK, unix.SYS_RENAME, unix.SYS_RMDIR, unix.SYS_STAT, unix.SYS_UNLINK,
	unix.SYS_TIME, unix.SYS_ACCESS, unix.SYS_CHMOD, unix.SYS_LCHOWN, unix.SYS_CHOWN,
	unix.SYS_LINK, unix.SYS_SYMLINK, unix.SYS_RENAMEAT, unix.SYS_FADVISE64,
	unix.SYS_SYNC_FILE_RANGE,
}
