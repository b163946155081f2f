package fcgitest

import (
	"errors"
	"hash/crc32"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Conn is a connection as its script sees it. The method that finds out that the peer has closed
// ends the script.
type Conn struct {
	Number int // from 1, in the order in which connections were accepted

	up  *Upstream
	nc  net.Conn
	in  decoder
	req *Request

	pace  time.Duration // between bytes, when they are sent one by one
	bytes bool
	cut   int // bytes after which the connection is cut, -1: never
	reset bool
}

// Beside returns how many connections there are, with this one: those that the peer has made, and
// not closed. All of these have been there at the same time.
func (c *Conn) Beside() (n int) {
	c.up.mu.Lock()
	defer c.up.mu.Unlock()
	for other := range c.up.open {
		// They have all been made by now. So each of those that are open when it is looked at was
		// there when the first one was looked at.
		if rc, err := other.nc.(syscall.Conn).SyscallConn(); err == nil {
			_ = rc.Control(func(fd uintptr) {
				p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
				if k, err := unix.Poll(p, 0); k == 0 && err == nil {
					n++
				}
			})
		}
	}
	return n
}

// ReadHead reads the next request's BEGIN_REQUEST and PARAMS.
func (c *Conn) ReadHead() *Request {
	r, err := c.in.head()
	c.check(err)
	r.Conn = c.Number
	c.req = r
	c.up.mu.Lock()
	c.up.requests = append(c.up.requests, r)
	c.up.changed.Broadcast()
	c.up.mu.Unlock()
	return r
}

// ReadBody reads the next record of STDIN, and nothing at its end. It does not add to the request's
// Body.
func (c *Conn) ReadBody() []byte {
	p, err := c.in.stdin()
	c.check(err)
	return p
}

// Read reads the whole next request.
func (c *Conn) Read() *Request {
	r := c.ReadHead()
	for {
		p := c.ReadBody()
		if len(p) == 0 {
			return r
		}
		r.Body = append(r.Body, p...)
	}
}

// Drain reads the rest of the body without keeping it, and returns its length and CRC-32 (IEEE).
func (c *Conn) Drain() (n int64, sum uint32) {
	for {
		p := c.ReadBody()
		if len(p) == 0 {
			return n, sum
		}
		n += int64(len(p))
		sum = crc32.Update(sum, crc32.IEEETable, p)
	}
}

// ReadRaw reads n bytes without looking at them.
func (c *Conn) ReadRaw(n int) []byte {
	p, err := c.in.take(n)
	c.check(err)
	return p
}

// check ends the script on an error. Unless the peer has merely closed, it fails the test, too.
func (c *Conn) check(err error) {
	if err == nil {
		return
	}
	if !errors.Is(err, errGone) {
		c.up.t.Errorf("fcgitest: connection %d: %v", c.Number, err)
	}
	quit()
}

// Raw sends bytes as they are.
func (c *Conn) Raw(s string) {
	for len(s) > 0 {
		n := len(s)
		if c.bytes {
			n = 1
		}
		if c.cut >= 0 {
			n = min(n, c.cut)
			c.cut -= n
		}
		if n > 0 {
			if c.bytes && c.pace > 0 {
				time.Sleep(c.pace)
			}
			if _, err := c.nc.Write([]byte(s[:n])); err != nil {
				quit()
			}
		}
		s = s[n:]
		if c.cut == 0 {
			if c.reset {
				c.Reset()
			}
			quit()
		}
	}
}

// Header returns the header of a record.
func Header(version, typ byte, id uint16, length, padding int) string {
	return string([]byte{version, typ, byte(id >> 8), byte(id), byte(length >> 8), byte(length),
		byte(padding), 0})
}

// Record sends a record of any kind.
func (c *Conn) Record(typ byte, id uint16, content string, padding int) {
	c.Raw(Header(1, typ, id, len(content), padding) + content + strings.Repeat("\xee", padding))
}

// Stdout sends every piece in a record of its own, or in several if it is too long for one.
func (c *Conn) Stdout(pieces ...string) { c.stream(6, pieces) }

// Stderr does the same on STDERR.
func (c *Conn) Stderr(pieces ...string) { c.stream(7, pieces) }

func (c *Conn) stream(typ byte, pieces []string) {
	for _, s := range pieces {
		for len(s) > 65528 { // as PHP-FPM does
			c.Record(typ, 1, s[:65528], 0)
			s = s[65528:]
		}
		c.Record(typ, 1, s, -len(s)&7)
	}
}

// EndStatus sends END_REQUEST.
func (c *Conn) EndStatus(app uint32, protocol byte) {
	c.Record(3, 1, string([]byte{byte(app >> 24), byte(app >> 16), byte(app >> 8), byte(app),
		protocol, 0, 0, 0}), 0)
}

// End sends END_REQUEST for a request that was completed.
func (c *Conn) End() { c.EndStatus(0, 0) }

// Answer reads a request and answers it as PHP-FPM does: STDOUT and END_REQUEST. Unless the peer
// keeps the connection, it closes its side and waits until the peer has closed the other.
func (c *Conn) Answer(stdout ...string) *Request {
	r := c.Read()
	c.Reply(stdout...)
	return r
}

// Reply is Answer for a request that the script has read.
func (c *Conn) Reply(stdout ...string) {
	c.Stdout(stdout...)
	c.End()
	if !c.req.Keep {
		c.CloseWrite()
		c.Hang()
	}
}

// Echo reads the body of a request whose head was read. It sends each piece on STDOUT before it
// reads the next one, so a peer that does not read while it writes comes to a stop.
func (c *Conn) Echo() {
	for p := c.ReadBody(); len(p) > 0; p = c.ReadBody() {
		c.Stdout(string(p))
	}
}

// Bytewise makes the script send all that follows a byte at a time, with a pause before each.
func (c *Conn) Bytewise(pause time.Duration) { c.bytes, c.pace = true, pause }

// CutAfter closes or resets the connection after n more bytes, wherever in a record that is.
func (c *Conn) CutAfter(n int, reset bool) { c.cut, c.reset = n, reset }

// Sleep waits, or ends the script early if the Upstream is stopped meanwhile.
func (c *Conn) Sleep(d time.Duration) {
	if c.up.Wait(d, func(int, int, int) bool { return c.up.stopped }) {
		quit()
	}
}

// Hang waits until the peer closes, and ends the script then. If bytes come meanwhile, the test
// fails: nothing may come behind a request.
func (c *Conn) Hang() {
	if len(c.in.buf) > 0 {
		c.up.t.Errorf("fcgitest: connection %d: behind the request came %.50q", c.Number, c.in.buf)
		quit()
	}
	if p, err := c.in.take(1); err == nil {
		c.up.t.Errorf("fcgitest: connection %d: behind the request came %q", c.Number, p)
	}
	quit()
}

// NeverRead reads nothing until the Upstream is stopped.
func (c *Conn) NeverRead() { c.Sleep(time.Hour) }

// Gone waits until the peer has closed, at most for d, and drops what it sends meanwhile. It
// reports how long that took, and whether it happened.
func (c *Conn) Gone(d time.Duration) (after time.Duration, ok bool) {
	begin := time.Now()
	c.nc.SetReadDeadline(begin.Add(d))
	defer c.nc.SetReadDeadline(time.Time{})
	p := make([]byte, 64<<10)
	for {
		if _, err := c.nc.Read(p); err != nil {
			var timeout net.Error
			return time.Since(begin), !(errors.As(err, &timeout) && timeout.Timeout())
		}
	}
}

// Close closes the connection, and ends the script.
func (c *Conn) Close() {
	c.nc.Close()
	quit()
}

// CloseWrite closes the sending side alone.
func (c *Conn) CloseWrite() {
	if w, ok := c.nc.(interface{ CloseWrite() error }); ok {
		w.CloseWrite()
	}
}

// Reset resets the connection, and ends the script. A UNIX socket is reset only if bytes are left
// unread.
func (c *Conn) Reset() {
	if tcp, ok := c.nc.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}
