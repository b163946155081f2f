package client

import (
	"io"

	"github.com/lwango/lwango/internal/http1"
)

// ChunkRoom is how many bytes AppendPiece adds to a piece at most.
const ChunkRoom = 16 + 2*len(http1.ChunkEnd)

// AppendPiece appends the next piece of a body to out: what read writes into the free capacity of
// out, and with chunked the frame around it. If read returns no bytes, nothing is appended. The
// error is read's, but the bytes that came with it are appended all the same. out must have more
// room than ChunkRoom.
func AppendPiece(out []byte, read func([]byte) (int, error), chunked bool) ([]byte, error) {
	if !chunked {
		n, err := read(out[len(out):cap(out)])
		return out[:len(out)+n], err
	}
	at := len(out) + ChunkRoom - len(http1.ChunkEnd)
	n, err := read(out[at : cap(out)-len(http1.ChunkEnd)])
	if n == 0 {
		return out, err
	}
	piece := out[at : at+n]
	out = http1.AppendChunkHeader(out, n)
	out = append(out, piece...) // it moves to the front, by a few bytes
	return append(out, http1.ChunkEnd...), err
}

// AppendEnd appends the end of a chunked body. fields calls its argument for each field of the
// trailer section; nil: there are none. The fields must be valid and must not frame a message.
func AppendEnd(out []byte, fields func(field func(name, value string))) []byte {
	if fields == nil {
		return append(out, http1.LastChunk...)
	}
	out = append(out, "0\r\n"...)
	fields(func(name, value string) {
		out = append(append(append(append(out, name...), ": "...), value...), "\r\n"...)
	})
	return append(out, "\r\n"...)
}

// content is what is left to be sent of a request's body.
type content struct {
	bytes []byte

	from  io.Reader // nil: it has been sent to its end
	left  int64     // of from; 0 or less: unknown, it is sent in chunks
	read  bool      // a piece was asked for
	empty int       // reads in a row that have brought nothing
}

func (c *content) more() bool { return len(c.bytes) > 0 || c.from != nil }

// length returns how many bytes there are; -1: it is not known.
func (c *content) length() int64 {
	switch {
	case c.from == nil:
		return int64(len(c.bytes))
	case c.left > 0:
		return c.left
	}
	return -1
}

// piece appends the next piece of from to out, and the end. bare: the content is framed elsewhere.
func (c *content) piece(out []byte, bare bool) ([]byte, error) {
	c.read = true
	sized := c.left > 0
	if sized && int64(cap(out)) > c.left {
		out = out[:0:c.left] // no more than was announced
	}
	before := len(out)
	out, err := AppendPiece(out, c.from.Read, !sized && !bare)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if !sized {
		if err == io.EOF {
			if c.from = nil; !bare {
				out = AppendEnd(out, nil)
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
