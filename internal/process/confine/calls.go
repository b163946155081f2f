package confine

import "golang.org/x/sys/unix"

// lastKnownCall is the last number when this list was made: mseal. The architectures of the list
// have the same numbers from 424 on.
const lastKnownCall = unix.SYS_MSEAL

// allowed are the calls that are allowed whatever their arguments are. Go's runtime is the first
// part, then files, then sockets; a program's own handlers work with files and sockets as well.
// Neither execve nor anything about mounts, modules, other processes' memory, keys, io_uring, bpf
// or users is here.
var allowed = append(legacyCalls,
	// Memory and threads.
	unix.SYS_BRK, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_FUTEX,
	unix.SYS_GETCPU, unix.SYS_GETRANDOM, unix.SYS_GET_ROBUST_LIST, unix.SYS_MADVISE,
	unix.SYS_MEMBARRIER, unix.SYS_MINCORE, unix.SYS_MLOCK, unix.SYS_MREMAP, unix.SYS_MUNLOCK,
	unix.SYS_MUNMAP, unix.SYS_PRCTL, unix.SYS_PRLIMIT64, unix.SYS_RESTART_SYSCALL, unix.SYS_RSEQ,
	unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_YIELD, unix.SYS_SET_ROBUST_LIST,
	unix.SYS_SET_TID_ADDRESS, unix.SYS_SYSINFO, unix.SYS_UNAME,

	// Signals, clocks and timers; CPU profiles have a timer for each thread.
	unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP,
	unix.SYS_GETITIMER, unix.SYS_GETRUSAGE, unix.SYS_GETTIMEOFDAY, unix.SYS_KILL,
	unix.SYS_NANOSLEEP, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGPROCMASK,
	unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGSUSPEND,
	unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_SETITIMER, unix.SYS_SIGALTSTACK, unix.SYS_TGKILL,
	unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_GETTIME, unix.SYS_TIMERFD_SETTIME,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_DELETE, unix.SYS_TIMER_GETOVERRUN,
	unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_SETTIME, unix.SYS_TIMES, unix.SYS_TKILL,

	// Identity of the process.
	unix.SYS_CAPGET, unix.SYS_GETEGID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETGROUPS,
	unix.SYS_GETPGID, unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETPRIORITY,
	unix.SYS_GETRESGID, unix.SYS_GETRESUID, unix.SYS_GETSID, unix.SYS_GETTID, unix.SYS_GETUID,

	// Waiting.
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2,
	unix.SYS_EVENTFD2, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_INOTIFY_INIT1,
	unix.SYS_INOTIFY_RM_WATCH, unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_SIGNALFD4,

	// Descriptors and files. Modes and owners are those of the sockets of listeners.
	unix.SYS_CACHESTAT, unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE, unix.SYS_COPY_FILE_RANGE,
	unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_FALLOCATE,
	unix.SYS_FCHDIR, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN,
	unix.SYS_FCHOWNAT, unix.SYS_FCNTL, unix.SYS_FDATASYNC, unix.SYS_FGETXATTR, unix.SYS_FLOCK,
	unix.SYS_FSTAT, unix.SYS_FSTATFS, unix.SYS_FSYNC, unix.SYS_FTRUNCATE, unix.SYS_GETCWD,
	unix.SYS_GETDENTS64, unix.SYS_IOCTL, unix.SYS_LINKAT, unix.SYS_LSEEK, unix.SYS_MEMFD_CREATE,
	unix.SYS_MKDIRAT, unix.SYS_MSYNC, unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_PIPE2,
	unix.SYS_PREAD64, unix.SYS_PREADV, unix.SYS_PREADV2, unix.SYS_PWRITE64, unix.SYS_PWRITEV,
	unix.SYS_PWRITEV2, unix.SYS_READ, unix.SYS_READAHEAD, unix.SYS_READLINKAT, unix.SYS_READV,
	unix.SYS_RENAMEAT2, unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_STATFS, unix.SYS_STATX,
	unix.SYS_SYMLINKAT, unix.SYS_TEE, unix.SYS_TRUNCATE, unix.SYS_UMASK,
	unix.SYS_UNLINKAT, unix.SYS_UTIMENSAT, unix.SYS_VMSPLICE, unix.SYS_WRITE, unix.SYS_WRITEV,

	// Sockets.
	unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_BIND, unix.SYS_CONNECT, unix.SYS_GETPEERNAME,
	unix.SYS_GETSOCKNAME, unix.SYS_GETSOCKOPT, unix.SYS_LISTEN, unix.SYS_RECVFROM,
	unix.SYS_RECVMMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG, unix.SYS_SENDMSG, unix.SYS_SENDTO,
	unix.SYS_SETSOCKOPT, unix.SYS_SHUTDOWN, unix.SYS_SOCKETPAIR,
)
