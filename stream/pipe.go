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
// The methods do not wait for the streams; but they may give other threads of the loop their turn,
// and that thread may be killed meanwhile, so Drop should be deferred.
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
	if err := s.begin(&s.in, true); err != nil {
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
	return s.received(n, errno)
}

// Drain sends to s what there is room for, and returns how many bytes are left. If s holds bytes in
// a Duplex, the caller has to send these first.
func (p *Pipe) Drain(s *Conn) (left int, err error) {
	if err := s.begin(&s.out, true); err != nil {
		return p.held, err
	}
	for p.held > 0 && err == nil {
		n, errno := s.d.SpliceFrom(p.p.r, p.held)
		if errno == unix.EAGAIN {
			break
		}
		p.held -= n
		p.done()
		err = s.wrote(n, errno)
	}
	return p.held, err
}

// done gives up the descriptors when the pipe is empty.
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

// pipes are those that no Pipe holds.
var pipes = sync.Pool{New: func() any { return newPipe() }}

// pipe is empty while it is in the pool.
type pipe struct {
	ends
	size    int
	cleanup runtime.Cleanup
}

// ends are the descriptors of a pipe, and whose they are.
type ends struct {
	r, w int
	of   *openfiles.Budget
}

// made is how many pipes there are, in the pool or not.
var made atomic.Int64

// budget has the descriptors of pipes: they are kept at hand.
var budget = openfiles.Process

// MaxPipeDescriptors returns how many descriptors pipes may have together: a sixteenth of the
// process's, so half of those that are kept at hand. A peer that stops reading makes a Pipe keep
// its two for as long as it likes, and bytes can go through memory as well.
func MaxPipeDescriptors() int { return budget.Limit() / 16 }

// newPipe makes a pipe. Its size is 0 if there are no descriptors left for pipes. It is large
// enough for all that a turn may move, unless the kernel grants less to a user with many pipes
// (pipe(7), pipe-user-pages-soft).
func newPipe() *pipe {
	var fds [2]int
	if made.Add(1) > int64(MaxPipeDescriptors()/2) || !budget.Keep(2) {
		made.Add(-1)
		return new(pipe)
	}
	if unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC) != nil {
		budget.Drop(2)
		made.Add(-1)
		return new(pipe)
	}
	p := &pipe{ends: ends{fds[0], fds[1], budget}}
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
	e.of.Drop(2)
	made.Add(-1)
}

func (p *pipe) close() {
	if p.size > 0 {
		p.cleanup.Stop()
		p.ends.close()
	}
}
