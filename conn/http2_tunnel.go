package conn

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/http2"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

// tunnel joins a stream of HTTP/2 that a handler has taken over, which an extended CONNECT has opened
// (RFC 8441), with a socket whose other end the handler has. So the handler gets what Hijack gives it
// with HTTP/1.1: bytes, on the loop or off it. What it writes first is the head of an answer of
// HTTP/1.1, unless that has gone out. 101 becomes 200, without the fields that HTTP/2 has no use for.
type tunnel struct {
	st     *h2stream
	near   *stream.Stream
	ended  loop.Promise[int]
	closed bool // by a handler of the loop: nobody reads what the client sends
	failed bool // the handler, by a panic

	head         []byte // what has come of the handler's head
	up           []byte // for the handler, on its way
	upEnded      bool
	downEnded    bool
	inputSources []loop.Source
}

// open begins a tunnel, and returns the handler's end.
func (st *h2stream) open() (*stream.Stream, error) {
	if !st.extended || st.err != nil {
		return nil, errNoHijack
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	l := st.thread.Loop()
	near, err := stream.New(l, fds[0])
	if err != nil {
		sysio.Close(fds[0])
		sysio.Close(fds[1])
		return nil, err
	}
	far, err := stream.New(l, fds[1])
	if err != nil {
		near.Close()
		sysio.Close(fds[1])
		return nil, err
	}
	w := &tunnel{st: st, near: near}
	st.tunnel, st.duplexing = w, true
	st.x.hijacked()
	st.x.via = takenOver
	st.s.port.tally.Tunnels++
	st.user = l.Go(w.run)
	return far, nil
}

// hijack implements carrier.
func (st *h2stream) hijack() (net.Conn, *bufio.Reader, error) {
	far, err := st.open()
	if err != nil {
		return nil, nil, err
	}
	x := &st.x
	h := &takeover{id: x.req.ID(), route: x.req.prefix}
	ended := x.logLater()
	loop.SetLocal(&st.thread, h)
	st.thread.Defer(func() {
		if ended != nil {
			ended(h)
		}
		_ = far.Close()
		st.tunnel.closed, st.tunnel.failed = true, h.panicked
		st.notify()
		loop.SetLocal(&st.thread, nil)
	})
	c := tunneled{far, net.TCPAddrFromAddrPort(x.req.RemoteAddr())}
	return c, bufio.NewReaderSize(c, hijackedBuffer), nil
}

// tunneled is a handler's end of a tunnel.
type tunneled struct {
	*stream.Stream
	client net.Addr
}

// RemoteAddr implements net.Conn.
func (c tunneled) RemoteAddr() net.Addr { return c.client }

// detach implements carrier.
func (st *h2stream) detach() (net.Conn, *bufio.Reader, error) {
	far, err := st.open()
	if err != nil {
		return nil, nil, err
	}
	c, err := far.Detach()
	if err != nil {
		return nil, nil, err
	}
	c = forwardedUNIX{c.(*net.UnixConn), st.x.req.RemoteAddr()}
	return c, bufio.NewReaderSize(c, hijackedBuffer), nil
}

var errNoHijack = errors.New("conn: a stream of HTTP/2 has no connection to take over")

// join waits for the end of the tunnel. The stream and its exchange are in use until then.
func (w *tunnel) join(t *loop.Thread) {
	was := t.KeepWaiting(true)
	_, _ = t.AwaitAny(-1, &w.ended)
	t.KeepWaiting(was)
	w.st.s.port.tally.Tunnels--
}

// over reports whether the tunnel has nothing more to do.
func (w *tunnel) over() bool {
	st := w.st
	return st.err != nil || st.ended && (w.upEnded || w.closed)
}

// run moves bytes in both directions. It is the tunnel's thread.
func (w *tunnel) run(t *loop.Thread) {
	t.Defer(func() { w.ended.Resolve(0) }) // also if the thread is killed
	w.move(t)
	w.close()
}

// close ends the tunnel. If a stop has killed its thread, and then the handler's, what the handler
// has left goes out.
func (w *tunnel) close() {
	st := w.st
	if w.near.FD() < 0 {
		return
	}
	for w.down() {
	}
	_ = w.near.Close()
	if !st.ended && st.err == nil {
		st.reset(http2.Cancel)
	}
}

func (w *tunnel) move(t *loop.Thread) {
	st := w.st
	readable, writable := w.near.Readable(), w.near.Writable()
	for {
		for w.down() || w.deliver() {
		}
		if w.over() {
			return
		}
		st.wantsInput, st.wantsRoom = len(w.up) == 0 && !w.upEnded, st.held() > 0
		w.inputSources = append(w.inputSources[:0], st.self[0])
		if !w.downEnded && st.held() == 0 {
			w.inputSources = append(w.inputSources, readable)
		}
		if len(w.up) > 0 {
			w.inputSources = append(w.inputSources, writable)
		}
		limit := time.Duration(-1)
		if w.downEnded { // what is left has to move
			limit = st.s.set.WriteTimeout
		}
		if _, err := t.AwaitAny(limit, w.inputSources...); err != nil {
			return
		}
	}
}

// down moves a piece from the handler to the client, and reports whether there was one.
func (w *tunnel) down() bool {
	st := w.st
	if st.held() > 0 || st.err != nil || st.ended {
		return false
	}
	if w.downEnded {
		if st.answered {
			st.end(nil)
		} else {
			w.noHead()
		}
		return true
	}
	if !w.near.Unread() && !st.thread.Loop().Stopping() { // a killed handler's last word has no event
		return false
	}
	buf := buffers.Get().(*[streamAt]byte)
	defer buffers.Put(buf)
	n, err := w.near.TryRead(buf[:])
	if n > 0 {
		w.send(buf[:n])
	}
	w.downEnded = err != nil && err != stream.ErrWouldBlock
	return n > 0 || w.downEnded
}

// send sends what the handler has written.
func (w *tunnel) send(p []byte) {
	st := w.st
	if !st.answered {
		w.head = append(w.head, p...)
		n := bytes.Index(w.head, []byte("\r\n\r\n"))
		if n < 0 {
			if len(w.head) > keptBuffer {
				w.noHead()
			}
			return
		}
		status, fields := parseSwitch(string(w.head[:n]))
		if status < 101 {
			w.noHead()
			return
		}
		p, w.head = w.head[n+4:], nil
		st.open2(status, fields)
	}
	_ = st.data(p)
}

// noHead resets the stream of a handler that has not written the head of an answer first.
func (w *tunnel) noHead() {
	if !w.failed {
		const what = "conn: a handler that has taken over a stream of HTTP/2 has not written the head of an " +
			"answer of HTTP/1.1, which the client was to get"
		w.st.failed(what, "written", string(w.head[:min(len(w.head), 64)]))
	}
	w.st.reset(http2.InternalError)
}

// parseSwitch parses the head of an answer of HTTP/1.1 that a handler has written. status is 0 if it
// is none.
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

// open2 answers an extended CONNECT.
func (st *h2stream) open2(status int, fields []Field) {
	if st.err != nil || st.answered {
		return
	}
	st.answered = true
	if status == http.StatusSwitchingProtocols {
		status = http.StatusOK
	}
	s := st.s
	at := s.beginHead(st.ID, 0, status)
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
func (st *h2stream) upgrade(p *plan) { st.open2(p.status, p.fields) }

// deliver moves a piece from the client to the handler, and reports whether there was one.
func (w *tunnel) deliver() bool {
	st := w.st
	if len(w.up) == 0 {
		if w.upEnded || st.err != nil || !st.readable() {
			return false
		}
		if cap(w.up) == 0 {
			w.up = make([]byte, 0, heldBuffer)
		}
		n, err := st.readBody(w.up[:cap(w.up)], false)
		if w.up = w.up[:n]; err == io.EOF {
			w.upEnded = true
			if n == 0 {
				_ = w.near.CloseWrite()
			}
		}
		return n > 0 || err == io.EOF
	}
	n, err := w.near.TryWrite(w.up)
	if err != nil && err != stream.ErrWouldBlock { // the handler reads no more
		n, w.upEnded = len(w.up), true
	}
	if w.up = w.up[n:]; len(w.up) == 0 {
		if w.up = nil; w.upEnded {
			_ = w.near.CloseWrite()
		}
	}
	return n > 0
}
