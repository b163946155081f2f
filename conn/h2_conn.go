package conn

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// streamConn is a stream of HTTP/2 that a handler has taken over, which an extended CONNECT has
// opened (RFC 8441), as a connection: bytes go from the session's frames to the handler, and back,
// without a descriptor. What the handler writes first is the head of an answer of HTTP/1.1, unless
// that has gone out. 101 becomes 200, without the fields that HTTP/2 has no use for.
//
// It is for the threads of its loop, as a stream.Conn is: one may read while another one writes.
type streamConn struct {
	st      *h2stream
	in, out side
	first   *[]byte // what has come of the head; nil: nothing
	taken   int64   // how many bytes the session has
	client  peer
	noWait  bool
	closed  bool // st may be another request's
	resets  bool // when it is closed
	failed  bool // the handler, by a panic
}

var _ HijackedConn = (*streamConn)(nil)

// side is one direction of a streamConn, as a loop.Source: something can be read, or all that was
// written has been taken.
type side struct {
	conn   *streamConn
	thread *loop.Thread // that waits; nil: none
	limit  stream.Limit // the handler's
	again  bool         // it is to look at its limit again
}

var errNoHijack = fmt.Errorf("conn: a stream of HTTP/2 has no connection to take over: %w",
	http.ErrNotSupported)

// take makes a connection of the stream.
func (st *h2stream) take() (*streamConn, error) {
	if !st.extended || st.err != nil {
		return nil, errNoHijack
	}
	l := &streamConn{st: st, client: peerOf(st.x.req.RemoteAddr())}
	l.in.conn, l.out.conn = l, l
	st.conn = l
	st.x.hijacked()
	st.x.carry(takenOver)
	st.s.port.stats.Tunnels++
	return l, nil
}

// hijack implements carrier.
func (st *h2stream) hijack() (net.Conn, *bufio.Reader, error) {
	l, err := st.take()
	if err != nil {
		return nil, nil, err
	}
	setOwner(st.x, &h2Hijacked{h2stream: st}, true)
	return l, bufio.NewReaderSize(l, hijackedBuffer), nil
}

// Watch implements loop.Source.
func (s *side) Watch(t *loop.Thread) error {
	if s.thread != nil {
		return loop.ErrAwaited
	}
	s.thread = t
	if s == &s.conn.in {
		s.conn.st.body.in.Trim(idleInput)
	}
	return nil
}

// idleInput is the size of the largest input buffer that a streamConn keeps while it has nothing to
// read.
const idleInput = 256

// Unwatch implements loop.Source.
func (s *side) Unwatch(*loop.Thread) { s.thread, s.again = nil, false }

// Ready implements loop.Source.
func (s *side) Ready() bool { return s.again || s.ready() }

func (s *side) ready() bool {
	st := s.conn.st
	if st.err != nil || s.conn.closed {
		return true
	}
	if s == &s.conn.in {
		return st.readable()
	}
	return len(st.Pending) == 0
}

func (s *side) notify() {
	if s.thread != nil {
		s.thread.Layer().NotifyLocal()
	}
}

// await waits until the side is ready, within its limit.
func (s *side) await() error {
	lp := s.conn.Loop()
	t := lp.Layer().Current()
	// as waits for a socket of the thread's own, see loop.Thread.Go
	defer t.Layer().WaitDespiteFailures(t.Layer().WaitDespiteFailures(true))
	if s == &s.conn.out { // writes to the client go on, see loop.Thread.Within
		defer t.Layer().SetBudget(t.Layer().SetBudget(0))
	}
	for !s.ready() {
		left, err := s.limit.Left(lp)
		if err != nil {
			return err
		}
		_, err = t.AwaitAny(left, s)
		if err != nil && err != loop.ErrDeadlineExceeded {
			return err
		}
	}
	return nil
}

// notify lets threads that wait for the connection look whether they can go on.
func (l *streamConn) notify() {
	l.in.notify()
	l.out.notify()
}

// fail adds what a net.Conn adds to its errors.
func (l *streamConn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: l.LocalAddr(), Addr: l.RemoteAddr(), Err: err}
}

// Read implements net.Conn.
func (l *streamConn) Read(p []byte) (int, error) {
	st := l.st
	for {
		switch {
		case l.closed:
			return 0, l.fail("read", net.ErrClosed)
		case !l.noWait && l.in.limit.Expired(l.Loop()):
			return 0, l.fail("read", loop.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case st.readable():
			return st.readBody(p, false)
		case st.err != nil:
			return 0, l.fail("read", st.err)
		case l.noWait:
			if _, err := l.in.limit.Left(l.Loop()); err != nil {
				return 0, err
			}
			return 0, stream.ErrWouldBlock
		}
		if err := l.in.await(); err != nil {
			return 0, l.fail("read", err)
		}
	}
}

// Unread implements HijackedConn.
func (l *streamConn) Unread() bool { return l.in.ready() }

// SetNoWait implements HijackedConn.
func (l *streamConn) SetNoWait(on bool) { l.noWait = on }

// AwaitRead implements HijackedConn.
func (l *streamConn) AwaitRead(d time.Duration) error {
	t := l.Loop().Layer().Current()
	despite := t.Layer().WaitDespiteFailures(true) // as await
	_, err := t.AwaitAny(d, &l.in)
	t.Layer().WaitDespiteFailures(despite)
	if l.closed {
		return net.ErrClosed
	}
	return err
}

// Readable implements HijackedConn.
func (l *streamConn) Readable() loop.Source { return &l.in }

// Writable returns a source that is ready when nothing is held.
func (l *streamConn) Writable() loop.Source { return &l.out }

// mayWrite returns the error of a write that cannot begin.
func (l *streamConn) mayWrite() error {
	switch st := l.st; {
	case l.closed || st.err == nil && st.ended:
		return net.ErrClosed
	case st.err != nil:
		return st.err
	case l.out.limit.Expired(l.Loop()):
		return loop.ErrDeadlineExceeded
	}
	return nil
}

// TryWrite implements HijackedConn.
func (l *streamConn) TryWrite(p []byte) (int, error) {
	if err := l.mayWrite(); err != nil {
		return 0, l.fail("write", err)
	}
	st := l.st
	rest := p
	if !st.answered {
		if rest = l.begin(p); st.err != nil {
			return 0, l.fail("write", st.err)
		}
	}
	if len(st.Pending) == 0 {
		rest = st.sendNow(rest)
	}
	n := len(p) - len(rest)
	if n == 0 && len(p) > 0 {
		return 0, stream.ErrWouldBlock
	}
	return n, nil
}

// Write implements net.Conn. After Hold it holds what the client does not take at once.
func (l *streamConn) Write(p []byte) (int, error) {
	if err := l.mayWrite(); err != nil {
		return 0, l.fail("write", err)
	}
	st, rest := l.st, p
	if !st.answered {
		if rest = l.begin(p); st.err != nil {
			return 0, l.fail("write", st.err)
		}
	}
	if len(st.Pending) == 0 {
		rest = st.sendNow(rest)
	}
	switch {
	case len(rest) == 0:
		return len(p), nil
	case st.duplexing:
		st.Pending = append(st.Pending, rest...)
		st.allow()
		return len(p), nil
	case len(st.Pending) > 0:
		return 0, l.fail("write", loop.ErrAwaited)
	}
	left, err := l.push(rest)
	if err != nil {
		err = l.fail("write", err)
	}
	return len(p) - left, err
}

// unhold drops what was not sent.
func (st *h2stream) unhold() {
	st.s.Unqueue(&st.Sender)
	st.Pending, st.Allowed = nil, 0
}

// push lets the session send p, and waits for that. It returns how much was not sent. That is
// counted by what the session has taken: another thread may close the connection meanwhile, after
// which st may be another request's, or have it drop what is pending.
func (l *streamConn) push(p []byte) (left int, err error) {
	st, before := l.st, l.taken
	st.Pending = p
	st.allow()
	defer func() { // also when the thread is killed
		if left = len(p) - int(l.taken-before); !l.closed {
			st.unhold()
		}
	}()
	if err = l.out.await(); err == nil && l.taken-before < int64(len(p)) {
		switch {
		case l.closed:
			err = net.ErrClosed
		case st.err != nil:
			err = st.err
		default:
			err = io.ErrShortWrite
		}
	}
	return 0, err
}

// Hold says whether the connection holds what the client does not take. Then no write waits, and
// the writer has to bound what is held.
func (l *streamConn) Hold(on bool) {
	if l.closed {
		return
	}
	if l.st.duplexing = on; !on {
		l.resets = l.resets || len(l.st.Pending) > 0
		l.st.unhold()
	}
}

// Held returns how many bytes are held.
func (l *streamConn) Held() int {
	if l.closed {
		return 0
	}
	return l.st.held()
}

// SendHeld returns how many bytes are held. The session sends them by itself.
func (l *streamConn) SendHeld() (left int, err error) {
	switch {
	case l.closed:
		return 0, l.fail("write", net.ErrClosed)
	case l.st.err != nil:
		return 0, l.fail("write", l.st.err)
	}
	return l.st.held(), nil
}

// CloseWrite implements HijackedConn.
func (l *streamConn) CloseWrite() error {
	if l.closed {
		return l.fail("close", net.ErrClosed)
	}
	if l.st.answered {
		l.st.end(nil)
	} else {
		l.noHead()
	}
	return nil
}

// Close implements net.Conn.
func (l *streamConn) Close() error {
	st := l.st
	switch {
	case l.closed:
		return l.fail("close", net.ErrClosed)
	case st.answered && (l.resets || len(st.Pending) > 0):
		st.reset(http2.Cancel)
	default:
		_ = l.CloseWrite()
	}
	l.closed = true
	l.notify()
	return nil
}

// ResetOnClose implements HijackedConn.
func (l *streamConn) ResetOnClose() { l.resets = true }

// Progress implements HijackedConn. The client grants credit for what its program has read; but
// megabytes may stand before that, in the kernels. So the connection's progress counts as well.
func (l *streamConn) Progress() int64 {
	if l.closed {
		return 0
	}
	st := l.st
	return l.taken + st.Window + st.s.stream.Progress()
}

// SpendOn implements HijackedConn.
func (l *streamConn) SpendOn(n int) {
	if !l.closed {
		l.st.s.stream.SpendOn(n)
	}
}

// Loop implements HijackedConn.
func (l *streamConn) Loop() *loop.Loop { return l.st.thread.Loop() }

// LocalAddr implements net.Conn.
func (l *streamConn) LocalAddr() net.Addr {
	if l.closed {
		return &net.TCPAddr{}
	}
	return l.st.s.stream.LocalAddr()
}

// RemoteAddr implements net.Conn.
func (l *streamConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(l.client.addrPort()) }

// SetDeadline implements net.Conn.
func (l *streamConn) SetDeadline(by time.Time) error {
	_ = l.SetReadDeadline(by)
	return l.SetWriteDeadline(by)
}

// SetReadDeadline implements net.Conn.
func (l *streamConn) SetReadDeadline(by time.Time) error { return l.setDeadline(&l.in, by) }

// SetWriteDeadline implements net.Conn.
func (l *streamConn) SetWriteDeadline(by time.Time) error { return l.setDeadline(&l.out, by) }

func (l *streamConn) setDeadline(s *side, by time.Time) error {
	if l.closed {
		return l.fail("set", net.ErrClosed)
	}
	s.limit.SetDeadline(l.Loop(), by)
	if s.thread != nil {
		s.again = true
		s.notify()
	}
	return nil
}

// begin takes a part of the head of the handler's answer, or of interim responses before it, and
// returns what stands behind that.
func (l *streamConn) begin(p []byte) (rest []byte) {
	if l.first == nil {
		l.first = new([]byte)
	}
	first := append(*l.first, p...)
	for {
		n := bytes.Index(first, []byte("\r\n\r\n"))
		if n < 0 {
			if *l.first = first; len(first) > keptBuffer {
				l.noHead()
			}
			return nil
		}
		status, fields := parseSwitch(string(first[:n]))
		if status < 100 {
			*l.first = first
			l.noHead()
			return nil
		}
		rest = first[n+4:]
		if status == http.StatusSwitchingProtocols || status >= 200 {
			l.first = nil
			l.st.open(status, fields)
			return rest
		}
		first = rest
		l.st.interim(status, fields)
	}
}

// noHead resets the stream of a handler that has not written the head of an answer first.
func (l *streamConn) noHead() {
	if l.st.err != nil {
		return
	}
	if !l.failed {
		const what = "conn: a handler that has taken over a stream of HTTP/2 has not written the head " +
			"of an " +
			"answer of HTTP/1.1, which the client was to get"
		var first []byte
		if l.first != nil {
			first = *l.first
		}
		recordOf(&l.st.thread).failed(what, "written", string(first[:min(len(first), 64)]))
	}
	l.st.reset(http2.InternalError)
}

// parseSwitch parses the head of an answer of HTTP/1.1 that a handler has written. status is 0 if
// it is none.
func parseSwitch(head string) (status int, fields []Field) {
	line, rest, _ := strings.Cut(head, "\r\n")
	if !strings.HasPrefix(line, "HTTP/1.1 ") || len(line) < len("HTTP/1.1 101") {
		return 0, nil
	}
	status, _ = strconv.Atoi(line[len("HTTP/1.1 "):len("HTTP/1.1 101")])
	for line := range strings.SplitSeq(rest, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields = append(fields, Field{Name: name, Value: strings.Trim(value, " \t")})
		}
	}
	return status, fields
}

// open answers an extended CONNECT.
func (st *h2stream) open(status int, fields []Field) {
	if st.err != nil || st.answered {
		return
	}
	st.answered = true
	if status = upgradeStatus(status); status == http.StatusSwitchingProtocols {
		status = http.StatusOK
	}
	s := st.s
	at := s.beginHead(st.ID, 0, status)
	if s.port.refresh(s.set); !has(fields, "Date") {
		s.Out = append(s.Out, s.port.encodedDate...)
	}
	for _, f := range s.set.Headers {
		if !has(fields, f.Name) && f.sendable() {
			s.Out = http2.AppendField(s.Out, f.Name, f.Value)
		}
	}
	for _, f := range fields {
		if !ofServer(f.Name) && !ascii.EqualFold(f.Name, "Upgrade") &&
			!ascii.EqualFold(f.Name, "Sec-WebSocket-Accept") && http1.ValidToken(f.Name) &&
			http1.ValidFieldValue(f.Value) {
			s.Out = http2.AppendField(s.Out, f.Name, f.Value)
		}
	}
	s.endHead(at)
}

// upgrade implements carrier.
func (st *h2stream) upgrade(p *plan) { st.open(p.status, p.fields) }
