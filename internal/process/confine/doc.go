// Package confine gives up what a server does not need once its sockets listen: the rest of the
// file system, the user root, capabilities, and system calls. Nothing restores them.
//
// On Linux most of this is a property of each thread, and a Go program has many. So each call here
// applies to all threads, by syscall.AllThreadsSyscall, which does not work in a program with cgo;
// see Supported. The functions may be called from any goroutine, one at a time, in this order:
//
//	confine.go   Become, DropCapabilities: another user
//	landlock.go  Files: only these folders (landlock(7))
//	seccomp.go   FilterCalls: only these system calls (seccomp(2))
//	calls.go     the system calls that stay allowed
//	calls_*.go   the system calls that only some architectures have
package confine
