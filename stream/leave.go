package stream

import (
	"net"
	"os"
)

// Detach makes an ordinary net.Conn of the stream, a *net.TCPConn or *net.UnixConn, which any
// goroutine may use. After that the stream is closed. On an error the connection is closed, too.
// The new net.Conn has no deadlines.
func (s *Conn) Detach() (net.Conn, error) {
	s.loop.Layer().Check()
	if s.isClosed() {
		return nil, s.opError("detach", net.ErrClosed)
	}
	s.closed = true
	f := os.NewFile(uintptr(s.loop.Layer().Deregister(s.d)), "stream")
	defer f.Close() // net.FileConn duplicates it
	c, err := net.FileConn(f)
	if err != nil {
		return nil, s.opError("detach", err)
	}
	return c, nil
}

// Release takes the socket out of the loop and returns it. The caller owns the socket from then on,
// and may give it to New later, on any loop. After that the stream is closed.
func (s *Conn) Release() (fd int, err error) {
	s.loop.Layer().Check()
	if s.isClosed() {
		return -1, s.opError("release", net.ErrClosed)
	}
	s.closed = true
	return s.loop.Layer().Deregister(s.d), nil
}

// PutIdle makes a stream that New or Dial has made idle until Reuse, as LoopLayer.PutIdle does. The
// caller owns the socket meanwhile. ok is false, and the stream is unchanged, if it cannot be idle:
// there is input, the peer has left, or a thread waits for the stream.
func (s *Conn) PutIdle() (fd int, ok bool) {
	s.loop.Layer().Check()
	if s.isClosed() {
		return -1, false
	}
	if fd, ok = s.loop.Layer().PutIdle(s.d); ok {
		s.closed = true
	}
	return fd, ok
}

// Reuse takes an idle stream into use again, with neither deadlines nor a pace. It returns false if
// an event has come since PutIdle, as far as the loop knows, and then the stream stays idle. It
// must be called on the stream's loop.
func (s *Conn) Reuse() bool {
	s.loop.Layer().Check()
	if !s.loop.Layer().Reuse(s.d) {
		return false
	}
	*s = Conn{
		d: s.d, loop: s.loop, remote: s.remote, local: s.local, unix: s.unix,
		peerUnknown:     s.peerUnknown,
		mayBeDuplicated: s.mayBeDuplicated,
	}
	return true
}

// CloseWrite tells the peer that no more will be written.
func (s *Conn) CloseWrite() error {
	s.loop.Layer().Check()
	if s.isClosed() {
		return s.opError("close", net.ErrClosed)
	}
	if err := s.d.CloseWrite(); err != nil {
		return s.opError("close", err)
	}
	return nil
}
