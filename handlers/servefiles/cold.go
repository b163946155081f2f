package servefiles

import (
	"context"
	"errors"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/loop"
)

// resolveCached is RESOLVE_CACHED of linux/openat2.h.
const resolveCached = 0x20

// openOn is open for the running thread of l, which waits if a disk has to be read for the name.
// The kernel opens what its caches know of (RESOLVE_CACHED), and refuses the rest with EAGAIN. A
// worker opens that. Where the kernel cannot be asked in that way, the loop waits for the disk.
func (r *root) openOn(l *loop.Loop, name []byte) (fd int, errno syscall.Errno) {
	if r.refused || !r.cached {
		return r.open(name, r.resolve)
	}
	fd, errno = r.open(name, r.resolve|resolveCached)
	if errno == unix.EAGAIN {
		return r.openCold(l.Layer().Current(), string(name))
	}
	return fd, errno
}

// openCold opens a name off the loop.
func (r *root) openCold(t *loop.Thread, name string) (int, syscall.Errno) {
	fd, err := elsewhere(t, func() (int, error) {
		fd, errno := r.open([]byte(name), r.resolve)
		if errno != 0 {
			return -1, errno
		}
		return fd, nil
	}, func(fd int) { unix.Close(fd) })
	if errno := syscall.Errno(unix.ECANCELED); err != nil {
		errors.As(err, &errno)
		return -1, errno
	}
	return fd, 0
}

// elsewhere opens something off the loop. If t is killed meanwhile, what has been opened is closed.
// t waits also if its client has left: a disk answers, and the client may have ended its own half
// of the connection only.
func elsewhere[T any](t *loop.Thread, open func() (T, error), close func(T)) (T, error) {
	a := &delivery[T]{close: close}
	defer a.leave()
	defer t.KeepWaiting(t.KeepWaiting(true))
	if err := t.Await(-1, func(context.Context) error { return a.put(open()) }); err != nil {
		var none T
		return none, err
	}
	return a.take(), nil
}

// delivery is what a worker opens for a thread, which may be killed before it is there.
type delivery[T any] struct {
	close func(T)

	mu   sync.Mutex
	full bool
	left bool // the thread has left
	what T
}

func (a *delivery[T]) put(what T, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
	case a.left:
		a.close(what)
	default:
		a.full, a.what = true, what
	}
	return err
}

func (a *delivery[T]) take() T {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.full = false
	return a.what
}

// leave closes what was not taken, now or when it is there.
func (a *delivery[T]) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = true
	if a.full {
		a.close(a.what)
	}
}
