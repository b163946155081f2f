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
