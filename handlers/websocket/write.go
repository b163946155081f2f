package websocket

import (
	"errors"
	"sync"
)

var errKind = errors.New("websocket: a message is of kind Text or Binary")

// PreparedMessage is a message for many connections. It is framed once, and compressed once, by the
// first connection with compression that sends it. Any number of loops may send it at the same
// time.
type PreparedMessage struct {
	opcode       byte
	compress     bool
	head         uint8 // bytes of the frame's header
	deflatedHead uint8 // bytes of deflated's header

	packing  sync.Once
	frame    []byte // without compression
	deflated []byte // a compressed frame; nil: compression does not shorten it, or was not tried
}

func (m *PreparedMessage) payload() []byte { return m.frame[m.head:] }

// Prepare makes a message of kind Text or Binary for many connections. It copies p.
func Prepare(kind int, p []byte) (*PreparedMessage, error) {
	opcode, compress, err := data(kind)
	if err != nil {
		return nil, err
	}
	head := headerLength(len(p))
	frame := append(appendHeader(make([]byte, 0, head+len(p)), finBit|opcode, len(p)), p...)
	return &PreparedMessage{opcode: opcode, compress: compress, head: uint8(head), frame: frame}, nil
}

// data returns the opcode of a kind, and whether a message of that kind may be compressed. An
// invalid kind is an error.
func data(kind int) (opcode byte, compress bool, err error) {
	if op := kind &^ Uncompressed; op != Text && op != Binary {
		return 0, false, errKind
	}
	return byte(kind &^ Uncompressed), kind&Uncompressed == 0, nil
}

// compressed returns the compressed frame of the message; nil: compression does not shorten it.
func (m *PreparedMessage) compressed(level int) []byte {
	m.packing.Do(func() {
		b := messages.Get().(*[]byte)
		defer recycle(b)
		*b = deflateTo((*b)[:0], m.payload(), nil, level)
		if len(*b) >= len(m.payload()) {
			return
		}
		head := headerLength(len(*b))
		m.deflated = appendHeader(make([]byte, 0, head+len(*b)), finBit|deflateBit|m.opcode, len(*b))
		m.deflated, m.deflatedHead = append(m.deflated, *b...), uint8(head)
	})
	return m.deflated
}

// WriteMessage sends a message of kind Text or Binary. It waits until the kernel has taken it, and
// ends the connection of a peer that does not read.
func (c *Conn) WriteMessage(kind int, p []byte) error {
	opcode, compress, err := data(kind)
	if err != nil {
		return err
	}
	if c.writing() {
		return errWriting
	}
	if compress && c.compresses(len(p)) {
		return c.sendCompressed(finBit|deflateBit|opcode, p)
	}
	return c.sendFrame(finBit|opcode, p)
}

// sendCompressed compresses a message and sends it. It sends a message that does not get shorter
// without compression.
func (c *Conn) sendCompressed(first byte, p []byte) error {
	if c.err != nil {
		return c.err
	}
	b := messages.Get().(*[]byte)
	defer recycle(b)
	w := c.useWriteWindow()
	*b = deflateTo((*b)[:0], p, w.bytes(), c.set.level())
	if len(*b) >= len(p) {
		return c.sendFrame(first&^deflateBit, p)
	}
	w.add(p)
	return c.sendFrame(first, *b)
}

// WritePrepared sends messages that other connections get, too, in their order. Several short ones
// go out together, so that a connection that lags does not cost a system call for each.
func (c *Conn) WritePrepared(ms ...*PreparedMessage) error {
	if c.writing() {
		return errWriting
	}
	var b *[bufferSize]byte // its first n bytes are frames to be sent
	n := 0
	defer func() {
		if b != nil {
			buffers.Put(b)
		}
	}()
	for i, m := range ms {
		frame, payload, first := m.frame, m.payload(), finBit|m.opcode
		if m.compress && c.compresses(len(payload)) {
			if deflated := m.compressed(c.set.level()); deflated != nil {
				c.useWriteWindow().add(payload)
				frame, payload, first = deflated, deflated[m.deflatedHead:], first|deflateBit
			}
		}
		if c.err != nil {
			return c.err
		}
		if c.expected.server {
			if err := c.sendFrame(first, payload); err != nil {
				return err
			}
			continue
		}
		last := i == len(ms)-1
		if n == 0 && (last || len(frame) > bufferSize) {
			if err := c.wrote(c.put(frame, nil)); err != nil {
				return err
			}
			continue
		}
		if b == nil {
			b = buffers.Get().(*[bufferSize]byte)
		}
		if n+len(frame) <= bufferSize {
			n += copy(b[n:], frame)
			if frame = nil; !last {
				continue
			}
		}
		if err := c.wrote(c.put(b[:n], frame)); err != nil { // with a frame that did not fit
			return err
		}
		n = 0
	}
	return nil
}
