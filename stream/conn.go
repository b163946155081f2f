package stream

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// Conn is a net.Conn on a loop. A call that has to wait makes its thread wait, and not the loop.
// Code that takes a net.Conn, such as crypto/tls, runs unchanged on one thread. Code that holds a
// lock of package sync during a call of its net.Conn must not be used by two: the second thread may
// block the loop for good. A tls.Conn does; TLSServer and TLSClient make connections of which one
// thread reads while another one writes.
//
// A Conn is for the threads of its loop. One thread may read while another one writes; a second
// reader or writer that would have to wait gets loop.ErrAwaited. If the stream is over a thread's
// own descriptor (Own, StartServer), only that thread may wait for it. Any thread of the loop may
// call Close and set deadlines, and both act on waits that have begun. Other goroutines must not
// touch a Conn, and the invariants build tag checks that; Detach makes a connection for them.
//
// Besides the errors of net.Conn a wait can return two more: loop.ErrClientGone, if the thread
// waits for a stream that is not its own client and its own client has left, and loop.ErrCanceled.
type Conn struct {
	d    *loop.Descriptor
	loop *loop.Loop

	in, out Limit
	duplex  *Duplex // nil: writes wait

	remote    netip.AddrPort // of TCP
	local     net.Addr       // set when it is first asked for
	sent      int64          // bytes, in all
	spent     int32          // bytes of the turn's budget that are used up
	workUnits int32          // pieces of work in this turn that moved no bytes
	unix      bool
	// peerUnknown: the stream has not asked the kernel for the peer's address yet, so it knows
	// neither unix nor remote. A connection may get a new stream for each small exchange, and most
	// of these never need the address.
	peerUnknown bool

	noWait          bool
	closed          bool
	ended           bool // there is nothing more to read
	triedRead       bool // the Server's handler has tried to read during this call
	mayBeDuplicated bool // New got the socket, and there may be duplicates of it

	session *loop.Readiness // see Session; nil: a stop does not end reads
}

// ErrWouldBlock is the error of a call that would have to wait and must not, such as a read after
// SetNoWait. It is a temporary net.Error: crypto/tls keeps its state after such an error, and takes
// any other error for the end of the connection.
var ErrWouldBlock error = wouldBlock{}

type wouldBlock struct{}

func (wouldBlock) Error() string   { return "call would block" }
func (wouldBlock) Timeout() bool   { return false }
func (wouldBlock) Temporary() bool { return true }

var errNoThread = errors.New(
	"no thread of the stream's loop is running; other goroutines need Detach")

// New makes a stream of fd, a connected non-blocking TCP or UNIX socket. It must be called on the
// loop. On an error fd still belongs to the caller.
func New(l *loop.Loop, fd int) (*Conn, error) {
	s, err := open(l, fd)
	if err != nil {
		return nil, err
	}
	s.peerUnknown, s.mayBeDuplicated = true, true
	return s, nil
}

// open makes a stream with a descriptor of its own.
func open(l *loop.Loop, fd int) (*Conn, error) {
	s := new(struct {
		Conn
		descriptor loop.Shared
	})
	s.d, s.loop = &s.descriptor.Descriptor, l
	if err := l.Layer().Register(&s.descriptor, fd); err != nil {
		return nil, err
	}
	return &s.Conn, nil
}

// Own makes s, the zero Conn, a stream of t's own socket. remote is what RemoteAddr returns: the
// peer's address, the zero AddrPort for UNIX sockets; or that of the peer's client, if the peer is
// a proxy and has said so. After Close, Detach or Release, t is a thread without a descriptor. s
// must not be used after t has ended.
func (s *Conn) Own(t *loop.Thread, remote netip.AddrPort) {
	if invariants.Enabled && s.d != nil {
		panic("stream: Own needs the zero Conn")
	}
	s.d, s.loop, s.remote, s.unix = t.Layer().Descriptor(), t.Loop(), remote, !remote.IsValid()
}

// FD returns the number of the stream's descriptor, -1 if it is closed or was handed on. It stays
// the stream's.
func (s *Conn) FD() int { return s.d.FD() }

// SetNoWait decides what happens when a read finds nothing. With on, the read returns
// ErrWouldBlock, or the error of a limit that has passed; otherwise it waits.
func (s *Conn) SetNoWait(on bool) { s.noWait = on }

// Readable returns a source that is ready when there is something to read. It can be awaited any
// number of times.
func (s *Conn) Readable() loop.Source { return s.d.Readable() }

// Writable returns a source that is ready when there is room to write.
func (s *Conn) Writable() loop.Source { return s.d.Writable() }

// AwaitRead waits until there may be something to read, at most d; negative: without limit.
// AwaitRead, AwaitWrite and AwaitReadWrite ignore the stream's deadlines. Their errors are those of
// the methods of loop.Descriptor with the same names.
func (s *Conn) AwaitRead(d time.Duration) error {
	return s.await((*loop.Descriptor).AwaitRead, d)
}

// AwaitWrite waits until there may be room to write.
func (s *Conn) AwaitWrite(d time.Duration) error {
	return s.await((*loop.Descriptor).AwaitWrite, d)
}

// AwaitReadWrite waits until there may be something to read, or room to write.
func (s *Conn) AwaitReadWrite(d time.Duration) error {
	return s.await((*loop.Descriptor).AwaitReadWrite, d)
}

func (s *Conn) await(
	wait func(*loop.Descriptor, *loop.Thread, time.Duration) error, d time.Duration,
) error {
	s.loop.Layer().Check()
	t := s.loop.Layer().Current()
	switch {
	case s.isClosed():
		return net.ErrClosed
	case t == nil:
		return errNoThread
	}
	err := wait(s.d, t, d)
	s.spent, s.workUnits = 0, 0
	if s.isClosed() {
		return net.ErrClosed
	}
	return err
}

// Unread reports whether there may be something to read: a read has not found the socket empty
// since the loop last saw input.
func (s *Conn) Unread() bool { return s.d.Unread() }

// Read implements net.Conn.
func (s *Conn) Read(p []byte) (int, error) {
	if err := s.checkRead(); err != nil {
		return 0, s.opError("read", err)
	}
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := s.receive(p)
		if err == ErrWouldBlock {
			if err = s.waitRead(); err == nil {
				continue
			}
		}
		return n, s.readError(err)
	}
}

// TryRead reads what has arrived, or a part of it if that is much, and does not wait. If nothing
// has arrived, the error is ErrWouldBlock, or that of a limit that has passed. Data that has
// arrived is returned, however late the caller reads it. The error has no net.OpError around it.
func (s *Conn) TryRead(p []byte) (int, error) {
	if d := s.duplex; d != nil && d.offLoop {
		return d.readOffLoop(p)
	}
	s.loop.Layer().Check()
	switch {
	case s.isClosed():
		return 0, net.ErrClosed
	case len(p) == 0:
		return 0, nil
	}
	n, err := s.receive(p)
	if err == ErrWouldBlock {
		err = s.blocked()
	}
	return n, err
}

// AwaitInput waits until there may be something to read, within the limits of Read. The error has
// no net.OpError around it.
func (s *Conn) AwaitInput() error {
	s.loop.Layer().Check()
	if s.isClosed() {
		return net.ErrClosed
	}
	return s.wait(s.awaitInput, &s.in)
}

// receive reads what has arrived, and does not wait.
func (s *Conn) receive(p []byte) (int, error) {
	if err := s.mayRead(); err != nil {
		return 0, err
	}
	return s.afterRead(s.d.Recv(p[:min(len(p), TurnBudget)]))
}

// mayRead comes before a read that does not wait. The error is ErrWouldBlock if there is nothing to
// read. The loop's other threads have their turn here, if that is due, and not after the read:
// then what was read would wait in the caller's memory.
func (s *Conn) mayRead() error {
	switch {
	case !s.unread():
		return ErrWouldBlock
	case s.Due():
		return s.giveWay()
	}
	return nil
}

// unread reports whether a read is worth a system call. If nothing has arrived since the socket was
// read empty, the call would be wasted. During a stop the stream asks the kernel all the same,
// because bytes that arrived this very moment count as in flight.
func (s *Conn) unread() bool {
	s.triedRead = true
	return s.d.Unread() || s.loop.Stopping()
}

// received handles the result of a read.
func (s *Conn) afterRead(n int, errno syscall.Errno) (int, error) {
	switch {
	case errno == unix.EAGAIN:
		return 0, ErrWouldBlock
	case errno != 0:
		s.ended = true
		return 0, os.NewSyscallError("read", errno)
	case n == 0:
		s.ended = true
		return 0, io.EOF
	}
	s.in.Moved(s.loop, n)
	s.spent += int32(opCost + n)
	return n, nil
}

// Write implements net.Conn. It returns when all of p was written or is held in a Duplex, or on an
// error.
func (s *Conn) Write(p []byte) (int, error) {
	n, err := s.Send(p, nil, false)
	if err != nil {
		err = s.opError("write", err)
	}
	return n, err
}

// Send writes a and then b, as Write does, with as few system calls as possible. more says that the
// caller will write more data at once. With nothing to write it waits until all that was put off is
// sent. The error has no net.OpError around it.
func (s *Conn) Send(a, b []byte, more bool) (written int, err error) {
	d := s.duplex
	if d != nil && d.offLoop {
		return d.sendOffLoop(a, b), nil
	}
	err = s.checkWrite()
	// What most answers are: one piece, which the kernel takes. A function of its own for the others
	// would make the stack of each that waits deeper.
	if err == nil && len(b) == 0 && len(a) > 0 && len(a) <= overloadedBudget &&
		(d == nil || len(d.held) == 0) && !s.out.limited() {
		n, errno := s.d.Send(a, more)
		if errno == unix.EAGAIN && d != nil {
			d.hold(a, nil)
			return len(a), nil
		}
		if err = s.afterWrite(n, errno); err != nil || n == len(a) {
			return n, err
		}
		written, a = n, a[n:]
	}
	if d := s.duplex; err == nil && d != nil && len(d.held) > 0 { // what is held goes out first
		d.hold(a, b)
		return len(a) + len(b), nil
	}
	for err == nil && (len(a)+len(b) > 0 || s.d.HasRemainder()) {
		var n int
		var errno syscall.Errno
		if len(a) == 0 {
			a, b = b, nil
		}
		if pause := s.out.Pause(s.loop); pause > 0 {
			if s.duplex != nil {
				s.duplex.hold(a, b)
				return written + len(a) + len(b), nil
			}
			err = s.sleep(pause)
			continue
		}
		// The kernel may take megabytes at once, and the loop serves no other connection meanwhile.
		piece := min(s.out.Piece(), s.budget())
		if len(b) == 0 || len(a) >= piece {
			n, errno = s.d.Send(a[:min(len(a), piece)], more)
		} else {
			n, errno = s.d.Sendv(a, b[:min(len(b), piece-len(a))])
		}
		if errno == unix.EAGAIN && s.duplex != nil {
			s.duplex.hold(a, b)
			return written + len(a) + len(b), nil
		}
		k := min(n, len(a))
		a, b = a[k:], b[n-k:]
		written += n
		err = s.afterWrite(n, errno)
	}
	return written, err
}

// SendFile sends n bytes of the regular file fd from offset off on, by sendfile(2). If it sends
// fewer without an error, the file ends there. It must not be called during a Duplex: it waits, and
// the peer would get the held bytes after the file. The error has no net.OpError around it.
func (s *Conn) SendFile(fd int, off, n int64) (sent int64, err error) {
	if err := s.checkWrite(); err != nil {
		return 0, err
	}
	return s.sendFile(fd, &off, n, off, off+n)
}

// sendFile sends up to n bytes of a file, from *off on, or from the file's own position on if off
// is nil. It advances the one that it uses. The file's bytes from at on are sent, and it ends at
// end, as far as is known. errNoSendfile means that nothing was sent.
func (s *Conn) sendFile(fd int, off *int64, n, at, end int64) (sent int64, err error) {
	for sent < n && err == nil {
		if pause := s.out.Pause(s.loop); pause > 0 {
			err = s.sleep(pause)
			continue
		}
		// A piece ends at a multiple of the budget, so that what was read for one is sent with it.
		part := min(n-sent, TurnBudget-(at+sent)%TurnBudget, int64(s.out.Piece()),
			int64(s.budget()))
		if known := min(part, end-at-sent); known > 0 {
			if err := Warm(s.loop.Layer().Current(), fd, at+sent, known); err != nil {
				return sent, err
			}
		}
		k, errno := s.d.Sendfile(fd, off, int(part))
		switch {
		case sent == 0 && errno == unix.EINVAL:
			return 0, errNoSendfile
		case k == 0 && errno == 0:
			return sent, nil // the file ends here
		}
		sent += int64(k)
		err = s.afterWrite(k, errno)
	}
	return sent, err
}

// afterWrite handles the result of a write. If there was no room, it waits for some.
func (s *Conn) afterWrite(n int, errno syscall.Errno) error {
	switch errno {
	case 0:
		s.sent += int64(n)
		s.out.Moved(s.loop, n)
		return s.spend(n)
	case unix.EAGAIN:
		return s.wait((*loop.Descriptor).AwaitWrite, &s.out)
	}
	return os.NewSyscallError("write", errno)
}

// sleep lets the thread sleep before the next write, see Pace.MaxRate. A peer that has sent all
// that it will send still gets the rest.
func (s *Conn) sleep(d time.Duration) error {
	t := s.loop.Layer().Current()
	if t == nil {
		return errNoThread
	}
	was, budget := t.KeepWaiting(true), t.Layer().SetBudget(0)
	despite := t.Layer().WaitDespiteFailures(true)
	err := t.Sleep(d)
	t.Layer().WaitDespiteFailures(despite)
	t.Layer().SetBudget(budget)
	t.KeepWaiting(was)
	s.spent, s.workUnits = 0, 0
	if s.isClosed() {
		return net.ErrClosed
	}
	return err
}

// checkRead and checkWrite return the error of a call that cannot begin.
func (s *Conn) checkRead() error  { return s.check(&s.in, s.noWait || s.duplex != nil) }
func (s *Conn) checkWrite() error { return s.check(&s.out, false) }

func (s *Conn) check(l *Limit, try bool) error {
	s.loop.Layer().Check()
	switch {
	case s.isClosed():
		return net.ErrClosed
	case !try && l.deadline.passed(s.loop): // a try reads what has arrived first, see blocked
		return loop.ErrDeadlineExceeded
	}
	return nil
}

// blocked returns the error of a read that would have to wait and must not.
func (s *Conn) blocked() error {
	if _, err := s.in.Left(s.loop); err != nil {
		return err
	}
	return ErrWouldBlock
}

// isClosed reports whether the stream has no descriptor any more.
func (s *Conn) isClosed() bool { return s.closed || s.d.FD() < 0 }

// waitRead waits until there may be something to read, if reads may wait.
func (s *Conn) waitRead() error {
	if s.noWait || s.duplex != nil {
		return s.blocked()
	}
	return s.wait(s.awaitInput, &s.in)
}

// awaitInput waits until there may be something to read. In a Session, a stop ends the wait.
func (s *Conn) awaitInput(d *loop.Descriptor, t *loop.Thread, left time.Duration) error {
	if s.session == nil {
		return d.AwaitRead(t, left)
	}
	i, err := t.AwaitAny(left, s.session, t.Loop().Stopped())
	if i == 1 && !s.Unread() {
		return io.EOF
	}
	return err
}

func (s *Conn) wait(
	await func(*loop.Descriptor, *loop.Thread, time.Duration) error, l *Limit,
) error {
	t := s.loop.Layer().Current()
	if t == nil {
		return errNoThread
	}
	left, err := l.Left(s.loop)
	if err != nil {
		return err
	}
	l.StartWait(s.loop)
	err = await(s.d, t, left)
	s.spent, s.workUnits = 0, 0
	l.StopWait(s.loop)
	if s.isClosed() {
		return net.ErrClosed
	}
	if err == loop.ErrDeadlineExceeded {
		// The caller tries again: bytes that have arrived meanwhile count, and the deadline may
		// have been moved. If it was not, the next wait finds above that it has passed.
		return nil
	}
	return err
}

// Close implements net.Conn. Threads that wait for the stream get net.ErrClosed, and so does a
// second Close.
func (s *Conn) Close() error {
	s.loop.Layer().Check()
	if s.isClosed() {
		return s.opError("close", net.ErrClosed)
	}
	s.closed = true
	if s.mayBeDuplicated { // a duplicate would keep it in epoll, whose events would go on
		sysio.Close(s.loop.Layer().Deregister(s.d))
	} else {
		s.loop.Layer().CloseDescriptor(s.d)
	}
	return nil
}

// Loop returns the loop that the stream belongs to.
func (s *Conn) Loop() *loop.Loop { return s.loop }

// fail adds the operation and the connection's addresses to an error, as package net does.
func (s *Conn) opError(op string, err error) error {
	local := s.LocalAddr()
	return &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: s.RemoteAddr(), Err: err}
}

// readError is fail for a read. It returns the usual ends of a read as they are.
func (s *Conn) readError(err error) error {
	if err == nil || err == io.EOF || err == ErrWouldBlock {
		return err
	}
	return s.opError("read", err)
}
