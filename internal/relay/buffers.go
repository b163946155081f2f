package relay

import "sync"

// BufferSize is the size of a Buffer.
const BufferSize = 32 << 10

// Buffer is for bytes that move. A request that waits for an upstream's answer holds none.
type Buffer = *[BufferSize]byte

var buffers = sync.Pool{New: func() any { return new([BufferSize]byte) }}

// TakeBuffer returns a buffer, with anything in it. Any goroutine may call it.
func TakeBuffer() Buffer { return buffers.Get().(Buffer) }

// PutBuffer takes back a buffer that the caller does not use any more.
func PutBuffer(b Buffer) { buffers.Put(b) }
