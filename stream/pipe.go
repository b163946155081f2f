package stream

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/openfiles"
)

// Pipe holds bytes on their way from one stream to another, in the kernel: splice(2) moves their
// pages and does not copy the bytes. That pays for bytes that come in bulk, see Conn.WriteTo. The
// zero value is empty, and an empty Pipe holds no descriptor.
//
// The methods do not wait for the streams. But they may let other threads of the loop run, and the
// calling thread may be killed meanwhile, so Drop should be deferred.
type Pipe struct {
	p    *pipe // nil while it is empty
	held int
}

// Held returns how many bytes the pipe holds.
func (p *Pipe) Held() int { return p.held }

// Fill takes up to limit bytes that have arrived at s, and returns how many. p must be empty. The
// error is ErrWouldBlock if nothing has arrived, or io.EOF, or errors.ErrUnsupported: the system
// refuses splice(2), or has no descriptors left for pipes. After the last one the caller can read
// from s instead.
func (p *Pipe) Fill(s *Conn, limit int64) (int, error) {
	if err := s.check(&s.in, true); err != nil {
		return 0, err
	}
	if err := s.mayRead(); err != nil {
		return 0, err
	}
	if noSplice.Load() {
		return 0, errors.ErrUnsupported
	}
	p.p = pipes.Get().(*pipe)
	if p.p.size < copySize {
		p.Drop()
		return 0, errors.ErrUnsupported
	}
	n, errno := s.d.SpliceTo(p.p.w, int(min(limit, int64(p.p.size))))
	p.held = max(n, 0)
	p.done()
	if refusesSplice(errno) {
		noSplice.Store(true)
		return 0, errors.ErrUnsupported
	}
	return s.afterRead(n, errno)
}

// Drain sends to s what there is room for, and returns how many bytes are left. If s holds bytes in
// a Duplex, the caller has to send these first.
func (p *Pipe) Drain(s *Conn) (left int, err error) {
	if err := s.check(&s.out, true); err != nil {
		return p.held, err
	}
	for p.held > 0 && err == nil {
		n, errno := s.d.SpliceFrom(p.p.r, p.held)
		if errno == unix.EAGAIN {
			break
		}
		p.held -= n
		p.done()
		err = s.afterWrite(n, errno)
	}
	return p.held, err
}

// done returns the descriptors when the pipe is empty.
func (p *Pipe) done() {
	if p.held == 0 && p.p != nil {
		pipes.Put(p.p)
		p.p = nil
	}
}

// Drop drops what the pipe holds.
func (p *Pipe) Drop() {
	if p.p != nil {
		p.p.close()
		*p = Pipe{}
	}
}

// noSplice notes that the system refuses splice(2), as the filter of a container may.
var noSplice atomic.Bool

// refusesSplice reports whether errno means that the system refuses the call. It is not an error of
// the connection then: recv(2) on a connected socket returns none of these.
func refusesSplice(errno syscall.Errno) bool {
	switch errno {
	case unix.EPERM, unix.ENOSYS, unix.EACCES, unix.EINVAL:
		return true
	}
	return false
}

// pipes has the pipes that no Pipe holds.
var pipes = sync.Pool{New: func() any { return newPipe() }}

// pipe is empty while it is in the pool.
type pipe struct {
	ends
	size    int
	cleanup runtime.Cleanup
}

// ends are the descriptors of a pipe, and the budget in which they count.
type ends struct {
	r, w   int
	budget *openfiles.Budget
}

// pipeCount is the number of pipes, in the pool or not.
var pipeCount atomic.Int64

// pipeDescriptors is the budget in which the descriptors of pipes count.
var pipeDescriptors = openfiles.Process

// MaxPipeDescriptors returns how many descriptors pipes may have together: a sixteenth of the
// process's, which is half of the budget for spare descriptors. A peer that stops reading makes a
// Pipe keep two descriptors for as long as it likes, and bytes can go through memory as well.
func MaxPipeDescriptors() int { return pipeDescriptors.Limit() / 16 }

// newPipe makes a pipe that has room for TurnBudget bytes, or for fewer if the kernel grants less
// to a user with many pipes (pipe(7), pipe-user-pages-soft). The size is 0 if there are no
// descriptors left for pipes.
func newPipe() *pipe {
	var fds [2]int
	if pipeCount.Add(1) > int64(MaxPipeDescriptors()/2) || !pipeDescriptors.Keep(2) {
		pipeCount.Add(-1)
		return new(pipe)
	}
	if unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC) != nil {
		pipeDescriptors.Drop(2)
		pipeCount.Add(-1)
		return new(pipe)
	}
	p := &pipe{ends: ends{fds[0], fds[1], pipeDescriptors}}
	size, err := unix.FcntlInt(uintptr(p.w), unix.F_SETPIPE_SZ, TurnBudget)
	if err != nil {
		size, _ = unix.FcntlInt(uintptr(p.w), unix.F_GETPIPE_SZ, 0)
	}
	p.size = size
	p.cleanup = runtime.AddCleanup(p, ends.close, p.ends)
	return p
}

func (e ends) close() {
	unix.Close(e.r)
	unix.Close(e.w)
	e.budget.Drop(2)
	pipeCount.Add(-1)
}

func (p *pipe) close() {
	if p.size > 0 {
		p.cleanup.Stop()
		p.ends.close()
	}
}
