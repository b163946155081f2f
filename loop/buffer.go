package loop

import "sync"

// BufferSize is the size of a Buffer.
const BufferSize = 32 << 10

// Buffer is for bytes that move. A thread that waits should hold none.
type Buffer = *[BufferSize]byte

// buffers are those that several threads of a loop have at once.
var buffers = sync.Pool{New: func() any { return new([BufferSize]byte) }}

// TakeBuffer returns a buffer, with anything in it. The caller is on the loop, here and below.
// Mostly the buffer is the loop's own, as threads that do not wait meanwhile take turns.
func (l LoopLayer) TakeBuffer() Buffer {
	b := l.buffer
	if b == nil {
		return buffers.Get().(Buffer)
	}
	l.buffer = nil
	return b
}

// PutBuffer takes back a buffer that the caller does not use any more.
func (l LoopLayer) PutBuffer(b Buffer) {
	if l.buffer == nil {
		l.buffer = b
	} else {
		buffers.Put(b)
	}
}
