package stream

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
)

// Warm reads n bytes of the regular file fd from off on into the page cache, unless they are there.
// A function off the loop does that, and t waits for it; the loop's other threads run meanwhile.
// sendfile(2) would wait for the disk on the loop, and so would all threads.
//
// It also waits if the client has left: the client may have shut only its own half of the
// connection, and a disk answers. So it does if a thread that t has started has failed. An error
// says that t was canceled. If the file cannot be read, the caller's own read returns the error.
func Warm(t *loop.Thread, fd int, off, n int64) error {
	if sysio.Cached(fd, off, n) {
		return nil
	}
	return readOffLoop(t, fd, off, n)
}

// discardBuffers are buffers for what is read only to be in the cache.
var discardBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// readOffLoop is Warm for bytes that are not cached. If t is killed, it closes fd, whose number may
// then be that of another file; so the function has a descriptor of its own.
func readOffLoop(t *loop.Thread, fd int, off, n int64) error {
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
	defer t.Layer().WaitDespiteFailures(t.Layer().WaitDespiteFailures(true))
	defer t.Layer().SetBudget(t.Layer().SetBudget(0)) // as writes, of which this is a part
	return t.Await(-1, func(context.Context) error {
		if !taken.CompareAndSwap(false, true) {
			return nil
		}
		defer unix.Close(own)
		buf := discardBuffers.Get().(*[64 << 10]byte)
		defer discardBuffers.Put(buf)
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
