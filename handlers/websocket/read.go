package websocket

import (
	"io"
	"slices"
	"unicode/utf8"

	"github.com/lwango/lwango/stream"
)

// ReadMessage waits for a message and returns it. p is valid until the next call of a method that
// reads or waits. The error is the *CloseError with which the connection has ended, or
// loop.ErrDeadlineExceeded, see SetReadDeadline; of a connection that was dialed, also another one
// of Thread.AwaitAny's.
func (c *Conn) ReadMessage() (kind int, p []byte, err error) {
	if err = c.begin(); err != nil {
		return 0, nil, err
	}
	kind = int(c.kind)
	if h := &c.frame; h.fin && !c.compressed && h.length <= int64(c.w-c.r) {
		// All of it is in the buffer, and may stay there.
		p = c.buffered()[:h.length:h.length]
		mask(h.key, 0, p)
		c.returned = int32(h.length)
		c.frameRead()
		c.messageRead()
		if kind == Text && !utf8.Valid(p) {
			return 0, nil, c.failProtocol(errUTF8)
		}
		return kind, p, nil
	}
	p, err = c.gather()
	if err == nil && c.compressed {
		p, err = c.inflate(p)
		if err == nil && kind == Text && !utf8.Valid(p) {
			err = c.failProtocol(errUTF8)
		}
	}
	if err != nil {
		return 0, nil, err
	}
	return kind, p, nil
}

// begin waits until a message has begun, and drops what the program has not read of the last one.
func (c *Conn) begin() error {
	c.release()
	if err := c.skip(); err != nil {
		return err
	}
	for {
		begun, err := c.advance()
		if begun || err != nil {
			return err
		}
		if _, err := c.AwaitAny(c.readLeft(), c); err != nil {
			return err
		}
	}
}

// gather reads the message that has begun. It fails the connection as soon as a text cannot become
// UTF-8.
func (c *Conn) gather() (p []byte, err error) {
	c.message = messages.Get().(*[]byte)
	p = (*c.message)[:0]
	var text runes
	for checked := 0; ; {
		if len(p) == cap(p) {
			// Double it, up to the limit and one byte, which lets the read see the end.
			rest := max(c.readLimit()-int64(len(p)), 0)
			p = slices.Grow(p, int(min(int64(len(p)), rest+1)))
		}
		n, err := c.readData(p[len(p):cap(p)])
		p = p[:len(p)+n]
		*c.message = p
		if err != nil && err != io.EOF {
			return nil, err
		}
		switch {
		case c.kind != Text:
		case c.compressed:
			var wrong *CloseError
			if checked, wrong = c.inspect(p, checked, err == io.EOF); wrong != nil {
				return nil, c.failProtocol(wrong)
			}
		case !text.add(p[len(p)-n:]) || err == io.EOF && !text.whole():
			return nil, c.failProtocol(errUTF8)
		}
		if err == io.EOF {
			return p, nil
		}
	}
}

// inspect checks whether p, the part of a compressed text that has arrived, can become UTF-8, and
// returns how much of p it has inspected. complete says that p is the whole message.
//
// That needs an inflater, whose state of 40 kB is too much to hold for a slow peer. So inspect
// inflates from the beginning each time, but only when the input has doubled since the last time
// and no more input is there: all calls together cost as much as a few messages.
func (c *Conn) inspect(p []byte, checked int, complete bool) (int, *CloseError) {
	if complete || len(p) < 2*checked || c.r < c.w || c.fill() {
		return checked, nil
	}
	m := messages.Get().(*[]byte)
	f := inflaters.Get().(*inflater)
	text, err := f.inflate((*m)[:0], p, c.peerWindow(), c.readLimit(), false)
	inflaters.Put(f)
	*m = text
	_, ok := validUTF8(text)
	n := len(text)
	recycle(m)
	c.spend(n)
	if err == nil && !ok {
		err = errUTF8
	}
	return len(p), err
}

// inflate undoes the compression of p, which is in c.message.
func (c *Conn) inflate(p []byte) ([]byte, error) {
	deflated := c.message
	c.message = messages.Get().(*[]byte)
	f := inflaters.Get().(*inflater)
	*deflated = append(p, leftOut...)
	out, err := f.inflate((*c.message)[:0], *deflated, c.peerWindow(), c.readLimit(), true)
	inflaters.Put(f)
	*c.message = out
	recycle(deflated)
	if err != nil {
		return nil, c.failProtocol(err)
	}
	c.addToReadWindow(out)
	c.spend(len(out))
	return out, nil
}

// spend counts inflated bytes as work of the loop's turn: few bytes on the wire may become many.
func (c *Conn) spend(n int) { c.link.SpendOn(min(n, stream.TurnBudget)) }
