package client

import (
	"io"

	"github.com/lwango/lwango/internal/wire/http1"
)

// bodyContent is the part of a request's body that is left to be sent.
type bodyContent struct {
	bytes []byte

	from  io.Reader // nil: it has been sent to its end
	left  int64     // of from; 0 or less: unknown, it is sent in chunks
	read  bool      // a piece was asked for
	empty int       // reads in a row that have returned nothing
}

func (c *bodyContent) more() bool { return len(c.bytes) > 0 || c.from != nil }

// length returns how many bytes there are; -1: it is not known.
func (c *bodyContent) length() int64 {
	switch {
	case c.from == nil:
		return int64(len(c.bytes))
	case c.left > 0:
		return c.left
	}
	return -1
}

// piece appends the next piece of from to out, and the end. bare: the content is framed elsewhere.
func (c *bodyContent) piece(out []byte, bare bool) ([]byte, error) {
	c.read = true
	sized := c.left > 0
	if sized && int64(cap(out)) > c.left {
		out = out[:0:c.left] // no more than was announced
	}
	before := len(out)
	out, err := http1.AppendPiece(out, c.from.Read, !sized && !bare)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if !sized {
		if err == io.EOF {
			if c.from = nil; !bare {
				out = http1.AppendEnd(out, nil)
			}
		}
		return out, nil
	}
	switch c.left -= int64(len(out) - before); {
	case c.left == 0:
		c.from = nil
	case err == io.EOF:
		return nil, io.ErrUnexpectedEOF
	}
	return out, nil
}
