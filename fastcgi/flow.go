package fastcgi

import (
	"fmt"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// flow is the way of an answer to its client. The application does not wait for the client as long
// as the spool has room: a process of PHP-FPM that waits for a client serves nobody else.
type flow struct {
	duplex *conn.Duplex // nil: no exchange has begun

	limit int64 // of the spool: beyond it nothing is taken from the upstream
	spool spool
	stuck bool // the client has not taken all that was written

	// The upstream, as far as it was waited for beside the client; else nil.
	readable, writable *loop.Readiness
}

// late reports that something is held for the client, and that what comes next has to queue behind
// it.
func (f *flow) late() bool { return f.stuck || f.spool.len() > 0 }

// begin makes the flow ready for an exchange. It is one flow for all attempts, each with an
// upstream of its own.
func (f *flow) begin(c *call) {
	f.readable, f.writable = nil, nil
	if f.duplex == nil {
		f.duplex, f.limit = c.req.Duplex(), int64(c.m.set.ResponseBuffering)
		f.spool.size = f.limit + bufferSize // full compares with the limit before a buffer is read
	}
}

// full reports that nothing is to be taken from the upstream until the client has taken something.
func (c *call) full() bool {
	return !c.answer.discard && c.flow.late() && c.flow.spool.len() >= c.flow.limit
}

// starved reports that the client's next bytes are all that there is to be sent.
func (c *call) starved() bool { return c.unspooled && c.buf == nil && !c.end && !c.lost }

// write gives a piece of the body to the client, or to the spool where the client has no room for it.
func (c *call) write(p []byte) error {
	if c.flow.late() {
		if c.flow.spool.temp == nil { // not before: it is an allocation
			c.flow.spool.temp = c.req.TempFile
		}
		if err := c.flow.spool.write(p); err != nil {
			c.m.log.Warn("fastcgi: response cannot be spooled", "request", c.req.ID(), "error", err)
			c.flow.limit = 0 // from here on the client's pace is the upstream's
		}
		return nil
	}
	_, err := c.resp.Write(p)
	return c.pushed(err)
}

// flush sends what was written. If something is held, pour does that later.
func (c *call) flush() error {
	if c.flow.late() {
		return nil
	}
	return c.pushed(c.resp.Flush())
}

// pushed looks at what a write has come to.
func (c *call) pushed(err error) error {
	if err == nil {
		var left int
		left, err = c.flow.duplex.SendHeld()
		c.flow.stuck = left > 0
	}
	return c.unwritable(err)
}

// pour gives the client what it has room for. It holds a buffer only while it does.
func (c *call) pour() error {
	if !c.flow.late() {
		return nil
	}
	if c.flow.stuck {
		if err := c.pushed(nil); err != nil {
			return err
		}
	}
	if c.flow.stuck || c.answer.discard {
		return nil
	}
	buf := takeBuffer()
	defer buffers.Put(buf) // also when the thread is killed
	for !c.flow.stuck && !c.answer.discard && c.flow.spool.len() > 0 {
		n, err := c.flow.spool.read(buf[:])
		if err != nil {
			return err
		}
		_, err = c.resp.Write(buf[:n])
		if err := c.pushed(err); err != nil {
			return err
		}
	}
	if c.answer.discard || c.answer.buffered {
		return nil
	}
	return c.flush() // there may have been a flush that was left to us
}

// drain gives the client what is left, when the upstream is not needed any more.
func (c *call) drain() error {
	for {
		if err := c.pour(); err != nil {
			return err
		}
		if c.answer.discard || !c.flow.late() {
			break
		}
		if err := c.flow.duplex.Await(-1, false); err != nil {
			return fmt.Errorf("%w: %w", errClient, err)
		}
	}
	if err := c.flow.duplex.End(); err != nil && !c.answer.discard {
		return fmt.Errorf("%w: %w", errClient, err)
	}
	return nil
}

// await waits for client and upstream at once: for the next bytes of an upload, or for room for the
// answer.
func (c *call) await() error {
	f := &c.flow
	if f.readable == nil {
		f.readable, f.writable = c.stream.Readable(), c.stream.Writable()
	}
	limit := c.m.set.ReadTimeout
	var room [2]loop.Source
	sources := room[:0]
	starved := c.starved()
	if c.buf != nil {
		limit, sources = c.m.set.SendTimeout, append(sources, f.writable)
	}
	if c.full() {
		limit = -1 // how long the client may take is the server's matter
	} else {
		sources = append(sources, f.readable)
		if starved {
			limit = -1
		}
	}
	return f.duplex.Await(limit, starved, sources...)
}
