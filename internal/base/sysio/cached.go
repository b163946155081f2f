//go:build linux && !386 && !arm && !mips && !mipsle

package sysio

import (
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Cached reports whether n bytes of a regular file from off on lie in the page cache, so that a
// read of them does not wait for a disk. If the kernel cannot tell, it returns true.
//
// cachestat(2), of Linux 6.5, counts the pages in the cache, including those that are being read.
// They are read in order, so an attempt to read the last byte shows whether all have arrived. On an
// older kernel, and if cachestat counts none, as on overlayfs, the first and the last byte stand
// for the rest. cachestat also counts none for a cold file. Then the attempt to read the first byte
// makes the kernel read some pages, perhaps before it returns, and a second count finds them.
func Cached(fd int, off, n int64) bool {
	if n <= 0 {
		return true
	}
	pages := pagesOf(fd, off, n)
	if pages == 0 {
		if !arrived(fd, off) {
			return false
		}
		pages = pagesOf(fd, off, n)
	}
	page := int64(os.Getpagesize())
	return (pages == 0 || pages > (off+n-1)/page-off/page) && arrived(fd, off+n-1)
}

// pagesOf counts the pages of n bytes from off on that lie in the page cache: 0 if the kernel does
// not tell.
func pagesOf(fd int, off, n int64) int64 {
	if noCachestat.Load() {
		return 0
	}
	asked := unix.CachestatRange{Off: uint64(off), Len: uint64(n)}
	var found unix.Cachestat_t
	err := unix.Cachestat(uint(fd), &asked, &found, 0)
	if err == unix.ENOSYS || err == unix.EPERM {
		noCachestat.Store(true)
	}
	if err != nil {
		return 0
	}
	return int64(found.Cache)
}

// noCachestat is set once the kernel, or the filter of a container, has refused cachestat.
var noCachestat atomic.Bool

// arrived reports whether a byte can be read without waiting.
func arrived(fd int, off int64) bool {
	var b [1]byte
	_, e := ReadCached(fd, b[:], off)
	return e != unix.EAGAIN
}

// ReadCached is pread(2) as far as it does not have to wait for a disk: EAGAIN says that it would.
// EOPNOTSUPP says that the filesystem cannot tell. p is not empty.
func ReadCached(fd int, p []byte, off int64) (int, syscall.Errno) {
	iov := unix.Iovec{Base: &p[0], Len: uint64(len(p))}
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&iov)),
			1, uintptr(off), 0, unix.RWF_NOWAIT)
		if e != unix.EINTR {
			return count(n, e)
		}
	}
}
