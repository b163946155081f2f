package fastcgi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/lwango/lwango/fastcgi/internal/cgi"
	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

var (
	errBacklog = errors.New("the upstream accepts no connection")
	errCut     = errors.New("the upstream has closed the connection")
	errBody    = errors.New("the request's body cannot be read")
	errClient  = errors.New("the client takes no more")
)

// connect gets a connection: one that is kept for methods that may be repeated, or else a new one,
// with as many upstreams as it takes. Each of them has its share of connect_timeout, so that one
// that says nothing leaves some for others. The wait for a place does not count: a burst waits
// there for its turn, and no upstream is at fault.
func (c *call) connect() error {
	until := time.Now().Add(c.m.set.QueueTimeout) // for a place
	rest := c.m.set.ConnectTimeout
	fresh := c.retried || !repeatable(c.req.Method())
	for n := c.untried(); ; n-- {
		p, err := c.m.group.acquire(c.req.Thread, until, c.tried, fresh)
		if err != nil {
			return err
		}
		c.at, c.old = p.upstream, false
		if p.fd >= 0 {
			if c.reuse(p.fd) {
				return nil
			}
			// It has ended meanwhile. Another that was kept with it will have, too: a new one takes the place.
		}
		share := max(rest/time.Duration(n), time.Millisecond) // the others may have used up all
		begin := time.Now()
		c.stream, err = c.dial(share)
		rest -= time.Since(begin)
		switch {
		case err == nil:
			c.stream.SetNoWait(true)
			return nil
		case left(err), exhausted(err):
			return err
		}
		if c.choice() {
			c.m.log.Warn("fastcgi: upstream not reached", "upstream", c.at.name, "error", err)
			if c.blames(err, share) {
				c.at.refused()
			}
		}
		c.exclude(c.at)
		if n == 1 {
			return err
		}
		c.m.group.release(c.at, -1)
		c.at = nil
	}
}

// blames reports whether an error of dialing within that time speaks against the upstream: one that had hardly any time can
// be in order, and that all ports are taken is a matter of this machine.
func (c *call) blames(err error, share time.Duration) bool {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return false
	case err == errBacklog, errors.Is(err, os.ErrDeadlineExceeded):
		return share >= c.m.set.ConnectTimeout/time.Duration(2*len(c.m.group.upstreams))
	}
	return true
}

// choice reports whether there is more than one upstream, so that it matters whether one works.
func (c *call) choice() bool { return len(c.m.group.upstreams) > 1 }

// untried is the number of upstreams that may be tried.
func (c *call) untried() int {
	n := len(c.m.group.upstreams)
	for _, tried := range c.tried {
		if tried {
			n--
		}
	}
	return n
}

// left reports that nobody is there any more who waits for the answer.
func left(err error) bool {
	return errors.Is(err, loop.ErrClientGone) || errors.Is(err, loop.ErrCanceled)
}

// exhausted reports that it is this process, or this machine, that has no more of something: no upstream's fault.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) ||
		errors.Is(err, syscall.ENOMEM)
}

// repeatable: a request of such a method may be sent on a connection that was kept. If that was ended in this moment,
// nobody can tell whether the script has run, and it is sent again.
func repeatable(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// reuse makes a stream of a connection that was kept, if it is still good.
func (c *call) reuse(fd int) bool {
	if sysio.Quiet(fd) {
		if s, err := stream.New(c.req.Loop(), fd); err == nil {
			s.SetNoWait(true)
			c.stream, c.old = s, true
			return true
		}
	}
	sysio.Close(fd)
	return false
}

func (c *call) dial(limit time.Duration) (*stream.Stream, error) {
	if c.at.named {
		return c.dialName(limit)
	}
	s, err := stream.Dial(c.req.Thread, c.at.network, c.at.address, limit)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.at.network == "unix" {
		// There is one reason why that takes time: the listener's queue is full, and stayed so.
		err = errBacklog
	}
	return s, err
}

// begin fills the buffer with the parameters and the beginning of the body.
func (c *call) begin() error {
	c.buf = takeBuffer()
	out, err := c.appendHead(c.buf[:0])
	if err != nil {
		return err
	}
	c.left = c.length
	c.out, err = c.appendBody(out)
	return err
}

// appendBody appends a record with the next piece of the body, or with several records as much of it as is left if
// that is little, and the end behind the last one. There is always room for that in a buffer of its own.
func (c *call) appendBody(out []byte) ([]byte, error) {
	const around = 2 * wire.HeaderLen // of the piece's own record, and of the end
	room := cap(out) - len(out) - around
	if c.left > 0 && room > 0 {
		n := int(min(c.left, int64(room), wire.StdinContent))
		at := len(out) + wire.HeaderLen
		n, err := c.readBody(out[at : at+n])
		if err != nil {
			return nil, err
		}
		out = wire.AppendHeader(out, wire.Stdin, n)
		out = out[:len(out)+n]
		c.left -= int64(n)
	}
	if c.left == 0 && cap(out)-len(out) >= wire.HeaderLen {
		out = wire.AppendStdinEnd(out)
		c.end = true
	}
	return out, nil
}

// readBody reads what there is, for a body that comes from the client, or else all that fits.
func (c *call) readBody(p []byte) (n int, err error) {
	if c.unspooled {
		n, err = c.body.Read(p)
	} else {
		n, err = io.ReadFull(c.body, p)
	}
	if n > 0 {
		return n, nil
	}
	return 0, bodyError(err)
}

// dropBody lets go of the body, and of its file if it has one.
func (c *call) dropBody() {
	if f, ok := c.body.(io.Closer); ok {
		_ = f.Close()
	}
	c.body = nil
}

// bodyError tells an error of reading the body from those of the upstream.
func bodyError(err error) error {
	if err == stream.ErrWouldBlock || errors.Is(err, loop.ErrClientGone) {
		return err
	}
	return fmt.Errorf("%w: %w", errBody, err)
}

// free lets go of the buffer.
func (c *call) free() {
	if c.buf != nil {
		buffers.Put(c.buf)
		c.buf, c.out = nil, nil
	}
}

// exchange sends the request and takes the response, both at once: an application may write before it has read all, and
// would wait for ever for somebody who reads only when he has written all.
func (c *call) exchange() error {
	c.flow.begin(c)
	for {
		sent := false
		if c.buf != nil || c.starved() {
			var err error
			if sent, err = c.send(); err != nil {
				return err
			}
		}
		if err := c.pour(); err != nil {
			return err
		}
		if c.stream.Unread() && !c.full() {
			if err := c.receive(); err != nil || c.dec.Done() {
				return err
			}
		}
		if sent && c.buf != nil || c.stream.Unread() && !c.full() {
			continue
		}
		if err := c.wait(); err != nil {
			return err
		}
	}
}

// wait waits until bytes can move, in either direction. The limits are for connections on which nothing does.
func (c *call) wait() error {
	switch {
	case c.flow.stuck || c.starved():
		return c.await()
	case c.buf != nil:
		return c.stream.AwaitReadWrite(c.m.set.SendTimeout)
	}
	return c.stream.AwaitRead(c.m.set.ReadTimeout)
}

// send sends what there is room for, of what is in the buffer, and fills that again when it is empty. It reports
// whether there was room. That the upstream does not take it is no reason not to hear its answer.
func (c *call) send() (sent bool, err error) {
	if c.buf == nil {
		c.buf = takeBuffer()
	}
	if len(c.out) == 0 {
		if c.out, err = c.appendBody(c.buf[:0]); err != nil {
			if err == stream.ErrWouldBlock { // the client's next bytes are waited for without a buffer
				c.free()
				err = nil
			}
			return false, err
		}
	}
	n, err := c.stream.TryWrite(c.out)
	switch {
	case err == nil:
	case errors.Is(err, stream.ErrWouldBlock):
		return false, nil
	default:
		c.lost = true
		c.free()
		return true, nil
	}
	if c.out = c.out[n:]; len(c.out) == 0 && c.end {
		c.free()
		if !repeatable(c.req.Method()) {
			c.dropBody() // it is not sent again, and may be long
		}
	}
	return true, nil
}

// spoolAtOnce is how much is received, while something is held for the client, before the client is
// offered it again. Else an application that is always ahead would fill the spool, and its client
// would wait.
const spoolAtOnce = 8 * bufferSize

// receive takes what has come.
func (c *call) receive() error {
	buf := takeBuffer()
	defer buffers.Put(buf) // also when the thread is killed
	for got := 0; ; {
		n, err := c.stream.Read(buf[:])
		switch {
		case errors.Is(err, stream.ErrWouldBlock):
			return c.pause()
		case err == io.EOF:
			return errCut
		case err != nil:
			return fmt.Errorf("%w: %w", errCut, err)
		}
		if !c.heard {
			c.heard = true
			if c.choice() {
				c.at.spoke()
			}
		}
		if err := c.take(buf[:n]); err != nil {
			return err
		}
		if c.dec.Done() {
			return nil
		}
		if got += n; c.full() || got >= spoolAtOnce && c.flow.late() {
			return nil
		}
		if c.buf != nil && !c.stream.Unread() {
			return c.pause()
		}
	}
}

// take takes records apart.
func (c *call) take(p []byte) error {
	for {
		typ, data, n, err := c.dec.Next(p)
		p = p[n:]
		switch {
		case err != nil:
			return err
		case typ == wire.Stdout:
			err = c.stdout(data)
		case typ == wire.Stderr:
			c.stderr.add(data)
		case typ == wire.EndRequest:
			c.extra = len(p) > 0
			return c.ended()
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// ended judges a response that is complete as far as the connection goes, and lets go of that at once: PHP-FPM's worker
// waits for it.
func (c *call) ended() error {
	end := c.dec.End()
	switch err := end.Err(); {
	case err != nil && c.answer.begun:
		return fmt.Errorf("response given up by the application: %v", err) // whatever status it would have had
	case err != nil:
		return err
	case !c.answer.begun:
		return cgi.ErrIncomplete
	}
	if end.AppStatus != 0 {
		c.m.log.Info("fastcgi: application ended with an exit code", "request", c.req.ID(), "script", c.target.Name,
			"code", end.AppStatus)
	}
	if n := c.dec.Skipped(); n > 0 {
		c.m.log.Warn("fastcgi: records that have no place in a response", "request", c.req.ID(), "upstream", c.at.name,
			"number", n, "last", c.dec.Record().Type)
	}
	if c.m.group.maxIdle > 0 && c.dec.Reusable() && c.end && c.buf == nil && !c.lost && !c.extra {
		if fd, err := c.stream.Release(); err == nil {
			c.stream = nil
			c.m.group.release(c.at, fd)
			c.at = nil
		}
	}
	c.close()
	if c.short() {
		return errShort
	}
	return nil
}
