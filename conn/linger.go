package conn

import (
	"time"

	"golang.org/x/sys/unix"
)

const lingerBytes = 1 << 20

// lingerTime is a variable for the tests alone.
var lingerTime = 5 * time.Second

// close flushes and leaves the rest to the loop, which closes the socket. Input that is known to be unread makes it
// a lingering close.
func (x *exchange) close() {
	if x.flush() != nil {
		return
	}
	if x.r < x.w || x.req.body.unread() {
		x.lingeringClose()
		return
	}
	x.closeTLS()
}

// closeAfter closes behind an answer. A client that did not ask for the end may be sending its next request already.
func (x *exchange) closeAfter() {
	if x.req.head.Persistent() {
		x.lingeringClose()
		return
	}
	x.close()
}

// lingeringClose closes in two steps (RFC 9112 section 9.6): a socket that is closed with input unread is reset, and
// a reset can take the answer away from a client that has not read it yet. So the sending half is closed first, and
// what the client still sends is read and dropped, for a bounded time and amount.
func (x *exchange) lingeringClose() {
	if x.flush() != nil {
		return
	}
	x.closeTLS()
	if unix.Shutdown(x.c.FD(), unix.SHUT_WR) != nil {
		return
	}
	limit := lingerTime
	if x.c.Loop().Stopping() {
		limit /= 10 // a stop is not to wait for clients that keep their end open
	}
	end := x.c.Loop().Time().Add(limit)
	buf := x.in
	for dropped := 0; dropped < lingerBytes; {
		n, err := x.tryReadSocket(buf)
		dropped += n
		if err == errWouldBlock {
			left := end.Sub(x.c.Loop().Time())
			if left <= 0 {
				return
			}
			err = x.c.WantRead(left)
		}
		if err != nil {
			return
		}
	}
}
