package fastcgi

import (
	"fmt"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// flow is the way of an answer to its client. As long as the spool has room, the application does
// not wait for the client: a process of PHP-FPM that waits serves no other request.
type flow struct {
	duplex *conn.Duplex // nil: no exchange has begun

	limit int64 // of the spool: a spool that is longer stops the upstream
	spool spool
	stuck bool // the client has no room for all that was written

	// The upstream's, once the thread has waited for it beside the client; before that nil.
	readable, writable *loop.Readiness
}

// late reports that bytes are held for the client, behind which the next ones have to queue.
func (f *flow) late() bool { return f.stuck || f.spool.len() > 0 }

// begin makes the flow ready for an exchange. One flow serves all attempts, each of which has an
// upstream of its own.
func (f *flow) begin(c *call) {
	f.readable, f.writable = nil, nil
	if f.duplex == nil {
		f.duplex, f.limit = c.req.Duplex(), int64(c.m.set.ResponseBuffering)
		f.spool.size = f.limit + bufferSize // the call asks full before it reads a buffer
	}
}

// full reports that the upstream has to wait until the client has taken some bytes.
func (c *call) full() bool {
	return !c.answer.discard && c.flow.late() && c.flow.spool.len() >= c.flow.limit
}

// starved reports that the call has nothing to send until the client's next bytes come.
func (c *call) starved() bool { return c.unspooled && c.buf == nil && !c.end && !c.lost }

// write gives a piece of the body to the client, or to the spool if the client has no room for it.
func (c *call) write(p []byte) error {
	if c.flow.late() {
		if c.flow.spool.temp == nil { // only now, as it allocates
			c.flow.spool.temp = c.req.TempFile
		}
		if err := c.flow.spool.write(p); err != nil {
			c.m.log.Warn("fastcgi: response cannot be spooled", "request", c.req.ID(), "error", err)
			c.flow.limit = 0 // from here on the upstream goes at the client's pace
		}
		return nil
	}
	_, err := c.resp.Write(p)
	return c.pushed(err)
}

// flush sends what was written. If bytes are held, pour does so later.
func (c *call) flush() error {
	if c.flow.late() {
		return nil
	}
	return c.pushed(c.resp.Flush())
}

// pushed is called behind each write to the client, with its error. It finds out whether the client
// has room for more.
func (c *call) pushed(err error) error {
	if err == nil {
		var left int
		left, err = c.flow.duplex.SendHeld()
		c.flow.stuck = left > 0
	}
	return c.unwritable(err)
}

// pour gives the client as many of the held bytes as it has room for. It has a buffer only
// meanwhile.
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
	return c.flush() // a flush may have come while bytes were held
}

// drain gives the client the rest of the answer, when the upstream is not needed any more.
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

// await waits for the client and the upstream at once: for the next bytes of an upload, or for room
// for the answer.
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
		limit = -1 // how long the client may take is for the server to say
	} else {
		sources = append(sources, f.readable)
		if starved {
			limit = -1
		}
	}
	return f.duplex.Await(limit, starved, sources...)
}
