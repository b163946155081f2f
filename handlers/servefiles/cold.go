package servefiles

import (
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
		return r.openCold(l.Current(), string(name))
	}
	return fd, errno
}

// openCold opens a name off the loop. t waits also if its client has left: a disk answers, and the
// client may have ended its own half of the connection only.
func (r *root) openCold(t *loop.Thread, name string) (int, syscall.Errno) {
	var a arrival
	defer a.leave()
	defer t.KeepWaiting(t.KeepWaiting(true))
	err := t.Await(func() error {
		a.put(r.open([]byte(name), r.resolve))
		return nil
	}, -1)
	if err != nil {
		return -1, unix.ECANCELED
	}
	return a.take()
}

// arrival is a descriptor that a worker opens for a thread, which may be killed before it is there.
type arrival struct {
	mu    sync.Mutex
	full  bool
	left  bool // the thread has left
	fd    int
	errno syscall.Errno
}

func (a *arrival) put(fd int, errno syscall.Errno) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left && errno == 0 {
		unix.Close(fd)
		return
	}
	a.full, a.fd, a.errno = true, fd, errno
}

func (a *arrival) take() (int, syscall.Errno) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.full = false
	return a.fd, a.errno
}

// leave closes the descriptor that was not taken, now or when it is there.
func (a *arrival) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = true
	if a.full && a.errno == 0 {
		unix.Close(a.fd)
	}
}
