package stream

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// TryWrite writes as much of p as there is room for. If there is none, it returns ErrWouldBlock.
func (s *Conn) TryWrite(p []byte) (int, error) { return s.TrySend(p, nil) }

// TrySend is TryWrite of a and then b, which go out in one system call.
func (s *Conn) TrySend(a, b []byte) (int, error) {
	if err := s.checkWrite(); err != nil {
		return 0, s.opError("write", err)
	}
	if s.duplex != nil && s.duplex.Held() > 0 {
		return 0, ErrWouldBlock
	}
	a = a[:min(len(a), TurnBudget)]
	b = b[:min(len(b), TurnBudget-len(a))]
	if len(a) == 0 {
		a, b = b, nil
	}
	var n int
	var errno syscall.Errno
	if len(b) == 0 {
		n, errno = s.d.Send(a, false)
	} else {
		n, errno = s.d.Sendv(a, b)
	}
	if errno == unix.EAGAIN {
		return 0, ErrWouldBlock
	}
	if err := s.afterWrite(n, errno); err != nil {
		return n, s.opError("write", err)
	}
	return n, nil
}
