package conn

import "github.com/lwango/lwango/internal/base/invariants"

// reserve makes room for n more bytes in the buffer, up to streamAt of them in all. For many bytes
// it takes a buffer from the pool, because append would go through several sizes.
func (w *Response) reserve(n int) {
	if n += len(w.buf); n > cap(w.buf) && n > heldBuffer {
		b := buffers.Get().(*[streamAt]byte)
		w.buf = b[:copy(b[:], w.buf)]
	}
}

// slim gives up buffers that are too large to be held during a wait. Output is gathered from small
// pieces, and seldom from many.
func (w *Response) slim() {
	switch {
	case cap(w.buf) == streamAt:
		b := (*[streamAt]byte)(w.buf[:streamAt])
		w.buf = nil
		invariants.Mangle(b[:])
		buffers.Put(b)
	case cap(w.buf) > heldBuffer, w.buf != nil && len(w.buf) == 0 && w.via.room() == 0:
		w.buf = nil
	}
	w.via.slim()
}

func (w *Response) copyBuffer() []byte {
	w.reserve(streamAt - len(w.buf))
	return w.buf[:streamAt]
}
