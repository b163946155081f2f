package stream

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// Stream is a net.Conn on a loop: what waits in it is a thread of the loop, and nothing else. Code that takes a
// net.Conn, such as crypto/tls, runs unchanged on a thread.
//
// A Stream is for the threads of its loop. One of them may read while another one writes; a second reader or writer
// that would have to wait gets loop.ErrAwaited. A Stream over a thread's own descriptor (Own, Serve) is
// waited for by that thread alone. Close and the deadlines are for any of them, and end waits. Other goroutines must
// not touch it, which the invariants build tag checks; Detach is the way to them.
//
// Besides those of net.Conn a wait can end with loop.ErrClientGone, when what is waited for is not the thread's own
// client, and that one has left, and with loop.ErrCanceled.
type Stream struct {
	d    *loop.Descriptor
	loop *loop.Loop

	in, out limit
	duplex  *Duplex // nil: writes wait

	remote netip.AddrPort // of TCP
	local  net.Addr       // once it was asked for
	spent  int32          // of the turn's budget
	unix   bool
	// unnamed: whose socket it is was not asked yet, and neither unix nor remote is known. A connection that is used
	// for one small exchange at a time is made a stream for each.
	unnamed bool

	noWait bool
	closed bool
	ended  bool // there is nothing more to read
	asked  bool // there was a read, in this call of Serve's handler
}

// TurnBudget is how many bytes one connection may move before others get their turn.
const TurnBudget = 256 << 10

const opCost = 4 << 10 // what a system call counts at least

// ErrWouldBlock is the error of a read that has nothing to give at the moment, after SetNoWait. It is a net.Error and
// temporary: crypto/tls keeps its state over such an error, and takes any other for the end.
var ErrWouldBlock error = wouldBlock{}

type wouldBlock struct{}

func (wouldBlock) Error() string   { return "read would block" }
func (wouldBlock) Timeout() bool   { return false }
func (wouldBlock) Temporary() bool { return true }

var errNoThread = errors.New("no thread of the stream's loop is running; other goroutines need Detach")

// New makes a stream of the connected socket fd, non-blocking, TCP or UNIX. It is called on the loop. On an
// error fd is still the caller's.
func New(l *loop.Loop, fd int) (*Stream, error) {
	s, err := open(l, fd)
	if err != nil {
		return nil, err
	}
	s.unnamed = true
	return s, nil
}

// open makes a stream with a descriptor of its own.
func open(l *loop.Loop, fd int) (*Stream, error) {
	s := new(struct {
		Stream
		descriptor loop.Shared
	})
	s.d, s.loop = &s.descriptor.Descriptor, l
	if err := l.Open(&s.descriptor, fd); err != nil {
		return nil, err
	}
	return &s.Stream, nil
}

// Own makes s, which is the zero Stream or is not used any more, a stream of t's own socket, whose
// peer is remote; the zero AddrPort for UNIX sockets. Once it is closed or detached, t is a thread
// without a descriptor. It must not be used after t's end.
func (s *Stream) Own(t *loop.Thread, remote netip.AddrPort) {
	*s = Stream{d: loop.Own(t), loop: t.Loop(), remote: remote, unix: !remote.IsValid()}
}

// SetNoWait says whether reads that would wait return ErrWouldBlock instead, or the error of a limit that has passed.
func (s *Stream) SetNoWait(on bool) { s.noWait = on }

// Readable returns a source that is ready when there is something to read. It can be used again and again.
func (s *Stream) Readable() *loop.Readiness { return s.d.Readable() }

// Writable returns a source that is ready when there is room to write.
func (s *Stream) Writable() *loop.Readiness { return s.d.Writable() }

// AwaitRead waits until there is perhaps something to read, at most d; negative: without limit. Deadlines play no part
// here and in AwaitWrite and AwaitReadWrite. The errors are those of loop.Descriptor's methods of the same name.
func (s *Stream) AwaitRead(d time.Duration) error {
	return s.await((*loop.Descriptor).AwaitRead, d)
}

// AwaitWrite waits until there is perhaps room to write.
func (s *Stream) AwaitWrite(d time.Duration) error {
	return s.await((*loop.Descriptor).AwaitWrite, d)
}

// AwaitReadWrite waits until there is perhaps something to read, or room to write.
func (s *Stream) AwaitReadWrite(d time.Duration) error {
	return s.await((*loop.Descriptor).AwaitReadWrite, d)
}

func (s *Stream) await(wait func(*loop.Descriptor, *loop.Thread, time.Duration) error, d time.Duration) error {
	s.loop.Check()
	t := s.loop.Current()
	switch {
	case s.gone():
		return net.ErrClosed
	case t == nil:
		return errNoThread
	}
	err := wait(s.d, t, d)
	s.spent = 0
	if s.gone() {
		return net.ErrClosed
	}
	return err
}

// Unread reports whether a read may have something to give at once.
func (s *Stream) Unread() bool { return s.d.Unread() }

// Read implements net.Conn.
func (s *Stream) Read(p []byte) (int, error) {
	if err := s.beginRead(); err != nil {
		return 0, s.fail("read", err)
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
		return n, s.failRead(err)
	}
}

// TryRead reads what is there, of a large amount a part. Where nothing is there, the error is
// ErrWouldBlock, or that of a limit that has passed. What has come counts, however late it is read.
// The error has no net.OpError around it.
func (s *Stream) TryRead(p []byte) (int, error) {
	s.loop.Check()
	switch {
	case s.gone():
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

// AwaitInput waits until there is perhaps something to read, within the limits of Read. The error has
// no net.OpError around it.
func (s *Stream) AwaitInput() error {
	s.loop.Check()
	if s.gone() {
		return net.ErrClosed
	}
	return s.wait((*loop.Descriptor).AwaitRead, &s.in)
}

// receive reads what is there.
func (s *Stream) receive(p []byte) (int, error) {
	if !s.unread() {
		return 0, ErrWouldBlock
	}
	return s.received(s.d.Recv(p[:min(len(p), TurnBudget)]))
}

// unread reports whether the kernel is worth asking. Where nothing has come since the socket was
// read empty, that would be a system call for nothing; but at a stop the kernel is asked, since what
// came in this very moment is in flight, too.
func (s *Stream) unread() bool {
	s.asked = true
	return s.d.Unread() || s.loop.Stopping()
}

// received acts on what a read came to.
func (s *Stream) received(n int, errno syscall.Errno) (int, error) {
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
	s.in.moved(n)
	_ = s.spend(n) // whether it was closed meanwhile is for whatever is next to find out
	return n, nil
}

// Write implements net.Conn. It returns when all of p was written, or held in a Duplex, or with an error.
func (s *Stream) Write(p []byte) (int, error) {
	n, err := s.Send(p, nil, false)
	if err != nil {
		err = s.fail("write", err)
	}
	return n, err
}

// Send is Write of a and then b, with as few system calls as it takes. more announces that further
// data follows at once. The error has no net.OpError around it.
func (s *Stream) Send(a, b []byte, more bool) (written int, err error) {
	err = s.beginWrite()
	if d := s.duplex; err == nil && d != nil && len(d.held) > 0 { // the order of things
		d.hold(a, b)
		return len(a) + len(b), nil
	}
	for err == nil && len(a)+len(b) > 0 {
		var n int
		var errno syscall.Errno
		if len(a) == 0 {
			a, b = b, nil
		}
		// The kernel may take megabytes at once, and nobody else is served meanwhile.
		if len(b) == 0 || len(a) >= TurnBudget {
			n, errno = s.d.Send(a[:min(len(a), TurnBudget)], more)
		} else {
			n, errno = s.d.Sendv(a, b[:min(len(b), TurnBudget)])
		}
		if errno == unix.EAGAIN && s.duplex != nil {
			s.duplex.hold(a, b)
			return written + len(a) + len(b), nil
		}
		k := min(n, len(a))
		a, b = a[k:], b[n-k:]
		written += n
		err = s.wrote(n, errno)
	}
	return written, err
}

// SendFile sends n bytes of the regular file fd from off on, by sendfile(2). If it sends fewer without
// an error, the file ends there. It is not for a Duplex: it waits, and what is held would come after
// the file. The error has no net.OpError around it.
func (s *Stream) SendFile(fd int, off, n int64) (sent int64, err error) {
	if err := s.beginWrite(); err != nil {
		return 0, err
	}
	return s.sendFile(fd, &off, n)
}

// sendFile sends up to n bytes of a file, from *off on or, without off, from the file's own position on; it moves
// either. errNoSendfile means that nothing has been done.
func (s *Stream) sendFile(fd int, off *int64, n int64) (sent int64, err error) {
	for sent < n && err == nil {
		k, errno := s.d.Sendfile(fd, off, int(min(n-sent, TurnBudget)))
		switch {
		case sent == 0 && errno == unix.EINVAL:
			return 0, errNoSendfile
		case k == 0 && errno == 0:
			return sent, nil // the end
		}
		sent += int64(k)
		err = s.wrote(k, errno)
	}
	return sent, err
}

// TryWrite writes what there is room for, and returns ErrWouldBlock where that is nothing.
func (s *Stream) TryWrite(p []byte) (int, error) {
	if err := s.beginWrite(); err != nil {
		return 0, s.fail("write", err)
	}
	if s.duplex != nil && s.duplex.Held() > 0 {
		return 0, ErrWouldBlock
	}
	n, errno := s.d.Send(p[:min(len(p), TurnBudget)], false)
	if errno == unix.EAGAIN {
		return 0, ErrWouldBlock
	}
	if err := s.wrote(n, errno); err != nil {
		return n, s.fail("write", err)
	}
	return n, nil
}

// wrote acts on what a write came to: it waits where there was no room.
func (s *Stream) wrote(n int, errno syscall.Errno) error {
	switch errno {
	case 0:
		s.out.moved(n)
		return s.spend(n)
	case unix.EAGAIN:
		return s.wait((*loop.Descriptor).AwaitWrite, &s.out)
	}
	return os.NewSyscallError("write", errno)
}

// beginRead and beginWrite refuse what cannot be.
func (s *Stream) beginRead() error  { return s.begin(&s.in, s.noWait || s.duplex != nil) }
func (s *Stream) beginWrite() error { return s.begin(&s.out, false) }

func (s *Stream) begin(l *limit, try bool) error {
	s.loop.Check()
	switch {
	case s.gone():
		return net.ErrClosed
	case !try && l.deadline.passed(): // one that only tries is told when there is nothing, see blocked
		return os.ErrDeadlineExceeded
	}
	return nil
}

// blocked is the error of a read that would have to wait and must not.
func (s *Stream) blocked() error {
	if _, err := s.in.left(); err != nil {
		return err
	}
	return ErrWouldBlock
}

// gone reports that there is no descriptor any more.
func (s *Stream) gone() bool { return s.closed || s.d.FD() < 0 }

// Spend counts work that moves no bytes as one system call in the turn's budget, and gives the loop's
// other threads their turn when that is used up.
func (s *Stream) Spend() { _ = s.spend(0) }

func (s *Stream) spend(n int) error {
	if s.spent += int32(opCost + n); s.spent < TurnBudget {
		return nil
	}
	s.spent = 0
	if t := s.loop.Current(); t != nil {
		t.Yield()
		if s.gone() {
			return net.ErrClosed
		}
	}
	return nil
}

// waitRead waits until there is perhaps something to read, if reads may wait.
func (s *Stream) waitRead() error {
	if s.noWait || s.duplex != nil {
		return s.blocked()
	}
	return s.wait((*loop.Descriptor).AwaitRead, &s.in)
}

func (s *Stream) wait(await func(*loop.Descriptor, *loop.Thread, time.Duration) error, l *limit) error {
	t := s.loop.Current()
	if t == nil {
		return errNoThread
	}
	left, err := l.left()
	if err != nil {
		return err
	}
	before := s.loop.Time()
	err = await(s.d, t, left)
	s.spent = 0
	l.waited(s.loop.Time().Sub(before))
	if s.gone() {
		return net.ErrClosed
	}
	if err == os.ErrDeadlineExceeded {
		return nil // what has come meanwhile counts, and the deadline may have been moved; else it is found above
	}
	return err
}

// Close implements net.Conn. A thread that waits for the stream gets net.ErrClosed, as does a second Close.
func (s *Stream) Close() error {
	s.loop.Check()
	if s.gone() {
		return s.fail("close", net.ErrClosed)
	}
	s.closed = true
	s.loop.CloseDescriptor(s.d)
	return nil
}

// CloseWrite tells the peer that no more will be written.
func (s *Stream) CloseWrite() error {
	s.loop.Check()
	if s.gone() {
		return s.fail("close", net.ErrClosed)
	}
	if err := unix.Shutdown(s.d.FD(), unix.SHUT_WR); err != nil {
		return s.fail("close", os.NewSyscallError("shutdown", err))
	}
	return nil
}

// Detach makes an ordinary net.Conn of the stream, a *net.TCPConn or *net.UNIXConn, for any goroutines, and leaves the
// stream as after Close. On an error it is closed. Deadlines are not taken over.
func (s *Stream) Detach() (net.Conn, error) {
	s.loop.Check()
	if s.gone() {
		return nil, s.fail("detach", net.ErrClosed)
	}
	s.closed = true
	f := os.NewFile(uintptr(s.loop.Release(s.d)), "stream")
	defer f.Close() // net.FileConn duplicates it
	c, err := net.FileConn(f)
	if err != nil {
		return nil, s.fail("detach", err)
	}
	return c, nil
}

// Release takes the socket out of the loop, which is left to the caller, and leaves the stream as after Close. It may
// be given to New later, on any loop.
func (s *Stream) Release() (fd int, err error) {
	s.loop.Check()
	if s.gone() {
		return -1, s.fail("release", net.ErrClosed)
	}
	s.closed = true
	return s.loop.Release(s.d), nil
}

// fail says in which operation and on what connection an error came up, as package net does.
func (s *Stream) fail(op string, err error) error {
	local := s.LocalAddr()
	return &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: s.RemoteAddr(), Err: err}
}

// failRead is fail for a read, the common ends of which go as they are.
func (s *Stream) failRead(err error) error {
	if err == nil || err == io.EOF || err == ErrWouldBlock {
		return err
	}
	return s.fail("read", err)
}
