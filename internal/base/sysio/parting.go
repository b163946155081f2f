package sysio

import "net"

// Parting is a socket about to be closed, as what is below TLS: it takes what there is room for. It
// only writes.
type Parting struct {
	net.Conn // nil
	FD       int
}

// Write implements net.Conn.
func (p Parting) Write(b []byte) (int, error) {
	n, errno := Send(p.FD, b, false)
	if errno != 0 {
		return n, errno
	}
	return n, nil
}
