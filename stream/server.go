package stream

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// Server is what StartServer has started.
type Server struct {
	listener *loop.Listener
	loop     *loop.Loop
	addr     net.Addr
	path     string // of a UNIX socket
	closed   bool
	idle     time.Duration
	open     *atomic.Int64 // counts the connections; nil: they are not counted
	handler  func(t *loop.Thread, s *Conn) error
}

// StartServer serves connections to an address, which has the form of Listen's, as cheaply as an
// event loop with callbacks. It must be called on the loop, or before the loop runs. Each
// connection has a thread of its own; whenever there is something to read, the loop calls the
// handler on that thread. The handler may wait like any thread. If it returns nil or ErrWouldBlock,
// the connection waits without a coroutine until there is more to read, at most for the time idle;
// negative: without limit. If it returns any other error, such as io.EOF for an orderly end, the
// loop closes the connection.
//
// The cheapest handler reads all that has arrived (after SetNoWait, until ErrWouldBlock) and
// returns. If the handler leaves something unread, the loop calls it again. If the handler does not
// read at all, its connection is closed. When a loop stops, it calls the handlers of connections
// with something to read once more, and closes all connections.
func StartServer(l *loop.Loop, network, address string, idle time.Duration,
	handler func(t *loop.Thread, s *Conn) error) (*Server, error) {
	fd, addr, err := listen(network, address)
	if err != nil {
		return nil, err
	}
	srv := &Server{addr: addr}
	if network == "unix" {
		srv.path = address
	}
	if err := srv.start(l, fd, idle, handler); err != nil {
		sysio.Close(fd)
		return nil, err
	}
	return srv, nil
}

// Session makes a handler for StartServer of a handler h that is called once for its connection and
// reads message after message. When the loop stops, reads return what has arrived, and then io.EOF
// in place of a wait. The connection is closed when h returns.
func Session(h func(t *loop.Thread, s *Conn) error) func(t *loop.Thread, s *Conn) error {
	return func(t *loop.Thread, s *Conn) error {
		s.session = s.d.Readable()
		return cmp.Or(h(t, s), io.EOF)
	}
}

// StartServerFD is StartServer for an existing listening socket, such as one of loop.Listen. The
// socket is non-blocking. To stop accepting, the caller closes the returned Listener on the loop;
// the path of a UNIX socket is the caller's. open, if not nil, counts the open connections. On an
// error fd is still the caller's.
func StartServerFD(l *loop.Loop, fd int, idle time.Duration, open *atomic.Int64,
	handler func(t *loop.Thread, s *Conn) error) (*loop.Listener, error) {
	srv := &Server{open: open}
	err := srv.start(l, fd, idle, handler)
	return srv.listener, err
}

func (srv *Server) start(l *loop.Loop, fd int, idle time.Duration,
	handler func(t *loop.Thread, s *Conn) error) (err error) {
	srv.loop, srv.idle, srv.handler = l, idle, handler
	srv.listener, err = l.Accept(fd, srv.accept)
	return err
}

// Addr returns the address, with the real port where 0 was asked for.
func (srv *Server) Addr() net.Addr { return srv.addr }

// Close accepts the connections that have arrived so far, and then closes the listener. Accepted
// connections go on. Close must be called on the loop. It removes the path of a UNIX socket.
func (srv *Server) Close() error {
	srv.loop.Layer().Check()
	if srv.closed {
		return &net.OpError{
			Op: "close", Net: srv.addr.Network(), Addr: srv.addr, Err: net.ErrClosed,
		}
	}
	srv.closed = true
	srv.listener.Close()
	return unlink(srv.path)
}

// served is one connection of a Server.
type served struct {
	loop.Thread
	server *Server
	stream Conn
}

func (srv *Server) accept(fd int, remote netip.AddrPort) {
	c := &served{server: srv}
	if err := srv.loop.Attach(&c.Thread, fd, c, srv.idle); err != nil {
		srv.loop.Layer().Logger().Error("stream: connection not accepted", "error", err)
		sysio.Close(fd)
		return
	}
	if srv.open != nil {
		srv.open.Add(1)
	}
	c.stream.Own(&c.Thread, remote)
	if srv.loop.Stopping() { // the loop has woken its idle connections already
		c.Thread.Layer().Wake()
	}
}

// Run is called by the loop when there is something to read, or a stop begins.
func (c *served) Run(t *loop.Thread) coro.Code {
	s := &c.stream
	if t.Loop().Stopping() && !s.pending() {
		return coro.Abort
	}
	s.spent, s.triedRead = 0, false
	err := c.server.handler(t, s)
	switch {
	case err == nil, err == ErrWouldBlock, errors.Is(err, ErrWouldBlock):
	case err == io.EOF:
		return coro.Abort
	default:
		t.Loop().Layer().Logger().Debug("stream: connection ends", "remote", s.RemoteAddr(), "error", err)
		return coro.Abort
	}
	switch {
	case s.isClosed() || s.ended || t.Loop().Stopping():
		return coro.Abort
	case !s.triedRead:
		t.Loop().Layer().Logger().Error(
			"stream: connection closed, its handler does not read and would be called for ever",
			"remote", s.RemoteAddr())
		return coro.Abort
	}
	t.Layer().IdleTimeout(c.server.idle)
	return coro.WantRead
}

// ClientGone is called by the loop when the client has left, which the next read finds.
func (c *served) ClientGone() {}

// Ended is called by the loop when the thread has ended.
func (c *served) Ended() {
	c.stream.closed = true
	if c.server.open != nil {
		c.server.open.Add(-1)
	}
}

// pending reports whether there is something to read, which may be the end.
func (s *Conn) pending() bool {
	fds := []unix.PollFd{{Fd: int32(s.d.FD()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n > 0 || err != nil
}
