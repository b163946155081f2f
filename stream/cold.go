package stream

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
)

// Warm sees to it that n bytes of the regular file fd from off on lie in the page cache. If they do
// not, a function off the loop reads them, for which t waits; until then the loop's other threads
// run. sendfile(2) would wait for the disk on the loop, with all of them.
//
// It waits also if the client has left: the client may have ended only its own half of the
// connection, and a disk answers. An error says that t was canceled. What is wrong with the file,
// the caller finds out when it reads it.
func Warm(t *loop.Thread, fd int, off, n int64) error {
	if sysio.Cached(fd, off, n) {
		return nil
	}
	return fetch(t, fd, off, n)
}

// scratch are buffers for what is read only to be in the cache.
var scratch = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// fetch is Warm for bytes that are not cached. If t is killed, it closes fd, whose number may then
// be that of another file; so the function has a descriptor of its own.
func fetch(t *loop.Thread, fd int, off, n int64) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil // no descriptor is left: the loop has to wait for the disk
	}
	var taken atomic.Bool // own is the function's, or else has been closed
	defer func() {
		if taken.CompareAndSwap(false, true) {
			unix.Close(own)
		}
	}()
	defer t.KeepWaiting(t.KeepWaiting(true))
	return t.Await(-1, func(context.Context) error {
		if !taken.CompareAndSwap(false, true) {
			return nil
		}
		defer unix.Close(own)
		buf := scratch.Get().(*[64 << 10]byte)
		defer scratch.Put(buf)
		for n > 0 {
			k, err := unix.Pread(own, buf[:min(n, int64(len(buf)))], off)
			switch {
			case err == unix.EINTR:
				continue
			case err != nil || k == 0:
				return nil
			}
			off, n = off+int64(k), n-int64(k)
		}
		return nil
	})
}
