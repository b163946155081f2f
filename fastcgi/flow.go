package fastcgi

import (
	"fmt"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// flow is what an exchange has that waits for client and upstream at once, since the body comes as the client sends it,
// or since the answer is held for a client that reads slowly.
type flow struct {
	*conn.Duplex
	readable, writable *loop.Readiness // the upstream

	limit int64 // of the spool: beyond it nothing is taken from the upstream
	spool spool
	stuck bool // the client has not taken all that was written
}

// duplex has the exchange be one, if it has to.
func (c *call) duplex() {
	limit := int64(c.set.ResponseBuffering)
	if !c.unspooled && limit == 0 {
		return
	}
	if c.flow == nil {
		c.flow = &flow{Duplex: c.req.Duplex(), limit: limit, spool: spool{size: limit + bufferSize, temp: c.req.TempFile}}
	}
	c.readable, c.writable = c.stream.Readable(), c.stream.Writable()
}

// full reports that nothing is to be taken from the upstream until the client has taken something.
func (c *call) full() bool {
	return c.flow != nil && !c.discard && (c.stuck || c.spool.len() > 0) && c.spool.len() >= c.flow.limit
}

// starved reports that the client's next bytes are all that there is to be sent.
func (c *call) starved() bool { return c.unspooled && c.buf == nil && !c.end && !c.lost }

// write gives a piece of the body to the client, or to the spool where the client has no room for it.
func (c *call) write(p []byte) error {
	if c.flow == nil {
		_, err := c.resp.Write(p)
		return c.unwritable(err)
	}
	if c.stuck || c.spool.len() > 0 {
		if err := c.spool.write(p); err != nil {
			c.log.Warn("fastcgi: response cannot be spooled", "request", c.req.ID(), "error", err)
			c.flow.limit = 0 // from here on the client's pace is the upstream's
		}
		return nil
	}
	_, err := c.resp.Write(p)
	return c.pushed(err)
}

// flush has what was written go out.
func (c *call) flush() error {
	switch {
	case c.flow == nil:
		return c.unwritable(c.resp.Flush())
	case c.stuck || c.spool.len() > 0:
		return nil // pour does it
	}
	return c.pushed(c.resp.Flush())
}

// pushed looks at what a write has come to.
func (c *call) pushed(err error) error {
	if err == nil {
		var left int
		left, err = c.SendHeld()
		c.stuck = left > 0
	}
	return c.unwritable(err)
}

// pour gives the client what it has room for.
func (c *call) pour() error {
	late := c.stuck || c.spool.len() > 0 // there may have been a flush that was left to us
	if c.stuck {
		if err := c.pushed(nil); err != nil {
			return err
		}
	}
	if !late || c.stuck || c.discard {
		return nil
	}
	buf := takeBuffer()
	defer buffers.Put(buf)
	for !c.stuck && !c.discard && c.spool.len() > 0 {
		n, err := c.spool.read(buf[:])
		if err != nil {
			return err
		}
		_, err = c.resp.Write(buf[:n])
		if err := c.pushed(err); err != nil {
			return err
		}
	}
	if c.buffered {
		return nil
	}
	return c.flush()
}

// drain gives the client what is left, when the upstream is not needed any more.
func (c *call) drain() error {
	if err := c.End(); err != nil && !c.discard {
		return fmt.Errorf("%w: %w", errClient, err)
	}
	if c.discard || c.spool.len() == 0 {
		return nil
	}
	buf := takeBuffer()
	defer buffers.Put(buf) // also when the thread is killed
	for c.spool.len() > 0 {
		n, err := c.spool.read(buf[:])
		if err != nil {
			return err
		}
		if _, err := c.resp.Write(buf[:n]); err != nil {
			return fmt.Errorf("%w: %w", errClient, err)
		}
	}
	return nil
}

// await is wait for a flow.
func (c *call) await() error {
	limit := c.set.ReadTimeout
	var room [2]loop.Source
	sources := room[:0]
	starved := c.starved()
	if c.buf != nil {
		limit, sources = c.set.SendTimeout, append(sources, c.writable)
	}
	if c.full() {
		limit = -1 // how long the client may take is the server's matter
	} else {
		sources = append(sources, c.readable)
		if starved {
			limit = -1
		}
	}
	return c.Await(limit, starved, sources...)
}
