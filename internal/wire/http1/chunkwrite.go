package http1

import "strconv"

const (
	// ChunkEnd follows the data of every chunk.
	ChunkEnd = "\r\n"
	// LastChunk ends a chunked body that has no trailer section.
	LastChunk = "0\r\n\r\n"
)

// AppendChunkHeader appends the line that announces a chunk of n bytes; the data and ChunkEnd
// follow. It panics unless n is positive: a chunk of size 0 would end the body.
func AppendChunkHeader(dst []byte, n int) []byte {
	if n <= 0 {
		panic("http1: chunk without data")
	}
	return append(strconv.AppendUint(dst, uint64(n), 16), '\r', '\n')
}

// ChunkRoom is how many bytes AppendPiece adds to a piece at most.
const ChunkRoom = 16 + 2*len(ChunkEnd)

// AppendPiece appends the next piece of a body to out: what read writes into the free capacity of
// out, and with chunked the frame around it. If read returns no bytes, nothing is appended. The
// error is read's, but the bytes that came with it are appended all the same. out must have more
// room than ChunkRoom.
func AppendPiece(out []byte, read func([]byte) (int, error), chunked bool) ([]byte, error) {
	if !chunked {
		n, err := read(out[len(out):cap(out)])
		return out[:len(out)+n], err
	}
	at := len(out) + ChunkRoom - len(ChunkEnd)
	n, err := read(out[at : cap(out)-len(ChunkEnd)])
	if n == 0 {
		return out, err
	}
	piece := out[at : at+n]
	out = AppendChunkHeader(out, n)
	out = append(out, piece...) // it moves to the front, by a few bytes
	return append(out, ChunkEnd...), err
}

// AppendEnd appends the end of a chunked body. fields calls its argument for each field of the
// trailer section; nil: there are none. The fields must be valid and must not frame a message.
func AppendEnd(out []byte, fields func(field func(name, value string))) []byte {
	if fields == nil {
		return append(out, LastChunk...)
	}
	out = append(out, "0\r\n"...)
	fields(func(name, value string) {
		out = append(append(append(append(out, name...), ": "...), value...), "\r\n"...)
	})
	return append(out, "\r\n"...)
}
