package stream

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// Server is what Serve has begun.
type Server struct {
	listener *loop.Listener
	loop     *loop.Loop
	addr     net.Addr
	path     string // of a UNIX socket
	closed   bool
	idle     time.Duration
	handler  func(t *loop.Thread, s *Stream) error
}

// Serve serves connections to an address, which is as for Listen, at the cost of an event loop with callbacks:
// the handler is called on a thread of the connection's own whenever there is something to read. It may wait, as any
// thread. When it returns nil or ErrWouldBlock the connection stays, without a coroutine, until there is more to
// read, at most for the time idle; 0: for ever. With any other error, io.EOF for an orderly end, it is closed.
//
// So a handler is cheapest that takes all there is (SetNoWait tells where that ends), and returns. One that leaves
// something is called again; one that does not read at all is an error. When a loop stops, handlers are called once
// more where there is something, and their connections closed.
func Serve(l *loop.Loop, network, address string, idle time.Duration,
	handler func(t *loop.Thread, s *Stream) error) (*Server, error) {
	fd, addr, err := listen(network, address)
	if err != nil {
		return nil, err
	}
	srv := &Server{loop: l, addr: addr, idle: idle, handler: handler}
	if idle <= 0 {
		srv.idle = -1
	}
	if network == "unix" {
		srv.path = address
	}
	if srv.listener, err = l.Accept(fd, srv.accept); err != nil {
		sysio.Close(fd)
		return nil, err
	}
	return srv, nil
}

// Addr returns the address, with the real port where 0 was asked for.
func (srv *Server) Addr() net.Addr { return srv.addr }

// Close accepts what has come so far, and no more. Connections go on. It is called on the loop. A UNIX socket's path is
// removed.
func (srv *Server) Close() error {
	srv.loop.Check()
	if srv.closed {
		return &net.OpError{Op: "close", Net: srv.addr.Network(), Addr: srv.addr, Err: net.ErrClosed}
	}
	srv.closed = true
	srv.listener.Close()
	return unlink(srv.path)
}

// served is a connection.
type served struct {
	loop.Thread
	server *Server
	stream Stream
}

func (srv *Server) accept(fd int, remote netip.AddrPort) {
	c := &served{server: srv}
	if err := srv.loop.Attach(&c.Thread, fd, c, srv.idle); err != nil {
		srv.loop.Logger().Error("connection not accepted", "error", err)
		sysio.Close(fd)
		return
	}
	c.stream.Own(&c.Thread, remote)
	if srv.loop.Stopping() { // the stop has been past those that had nothing to say yet
		loop.Wake(&c.Thread)
	}
}

// Run is the loop's.
func (c *served) Run(t *loop.Thread) coro.Code {
	s := &c.stream
	if t.Loop().Stopping() && !s.pending() {
		return coro.Abort
	}
	s.spent, s.asked = 0, false
	err := c.server.handler(t, s)
	switch {
	case err == nil, err == ErrWouldBlock, errors.Is(err, ErrWouldBlock):
	case err == io.EOF:
		return coro.Abort
	default:
		t.Loop().Logger().Debug("connection ends", "remote", s.RemoteAddr(), "error", err)
		return coro.Abort
	}
	switch {
	case s.gone() || s.ended || t.Loop().Stopping():
		return coro.Abort
	case !s.asked:
		t.Loop().Logger().Error("connection closed: its handler does not read, and would be called for ever",
			"remote", s.RemoteAddr())
		return coro.Abort
	}
	loop.IdleTimeout(t, c.server.idle)
	return coro.WantRead
}

// Left is the loop's; the next read tells.
func (c *served) Left() {}

// Ended is the loop's.
func (c *served) Ended() { c.stream.closed = true }

// pending reports whether there is something to read, the end included.
func (s *Stream) pending() bool {
	fds := []unix.PollFd{{Fd: int32(s.d.FD()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n > 0 || err != nil
}
