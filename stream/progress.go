package stream

import (
	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

// ResetOnClose makes Close reset the connection and drop what the peer has not acknowledged. After
// an orderly close the kernel keeps that for minutes.
func (s *Conn) ResetOnClose() { sysio.ResetOnClose(s.d.FD()) }

// Unsent returns how many bytes the kernel holds for the peer, and the loop (see PutOff).
func (s *Conn) Unsent() int { return s.d.Unsent() }

// Sent returns how many bytes the kernel was given, in all.
func (s *Conn) Sent() int64 { return s.sent }

// ProgressOffset returns the part of Progress that the stream counts itself, and not the kernel.
// For another Conn of the same socket that part begins at 0.
func (s *Conn) ProgressOffset() int64 {
	if _, err := unix.GetsockoptTCPInfo(s.d.FD(), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
		return 0
	}
	return s.sent
}

// Progress returns a number that grows as the peer's program reads. With TCP, that is how far the
// peer's kernel lets us send: the acknowledged bytes plus the window. The acknowledged bytes alone
// say nothing about the program, which may hang. The answer to each packet updates both. A UNIX
// socket has one queue, which empties as the peer reads.
func (s *Conn) Progress() int64 {
	if info, err := unix.GetsockoptTCPInfo(s.d.FD(), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
		return int64(info.Bytes_acked) + int64(info.Snd_wnd)
	}
	return s.sent - int64(s.Unsent())
}
