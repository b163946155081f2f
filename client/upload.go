package client

import (
	"errors"
	"fmt"
	"io"

	"github.com/lwango/lwango/internal/http1"
)

// upload is what is left of a request's body. The zero value is none.
type upload struct {
	rest  []byte    // of Request.Body
	from  io.Reader // Request.BodyReader; nil: there is none, or it has come to its end
	left  int64     // bytes that from has to give; -1: until io.EOF, and chunked
	begun bool      // from was read: the request cannot be sent again
	buf   *[bufferSize]byte
}

// errBody is in the error of a BodyReader that has failed.
var errBody = errors.New("the request's body")

// length is what Content-Length says; -1: the body is chunked.
func (u *upload) length() int64 {
	if u.from != nil {
		return u.left
	}
	return int64(len(u.rest))
}

// more reports whether there is more to send.
func (u *upload) more() bool { return len(u.rest) > 0 || u.from != nil }

// next returns the next piece, framed, which is good until the next call. It may wait, as far as the
// reader does.
func (u *upload) next() (piece []byte, err error) {
	if u.from == nil {
		n := min(len(u.rest), 64<<10)
		piece, u.rest = u.rest[:n], u.rest[n:]
		return piece, nil
	}
	if u.buf == nil {
		u.buf = buffers.Get().(*[bufferSize]byte)
	}
	u.begun = true
	out, chunked := u.buf[:0:bufferSize-len(http1.LastChunk)], u.left < 0
	if !chunked {
		out = out[:0:min(int64(cap(out)), u.left)]
	}
	piece, err = AppendPiece(out, u.from.Read, chunked)
	if !chunked {
		u.left -= int64(len(piece))
	}
	switch {
	case err == io.EOF && chunked:
		piece = AppendEnd(u.buf[:len(piece)], nil) // there is room for it
		u.from = nil
	case !chunked && u.left == 0:
		u.from = nil
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
		fallthrough
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errBody, err)
	}
	return piece, nil
}

// drop lets go of the buffer.
func (u *upload) drop() {
	if u.buf != nil {
		buffers.Put(u.buf)
		u.buf = nil
	}
}
