package sysio

import "net"

// SendOnly is a socket that is about to be closed, as the net.Conn below TLS. It can only be
// written to, and takes what there is room for.
type SendOnly struct {
	net.Conn // nil
	FD       int
}

// Write implements net.Conn.
func (p SendOnly) Write(b []byte) (int, error) {
	n, errno := Send(p.FD, b, false)
	if errno != 0 {
		return n, errno
	}
	return n, nil
}
