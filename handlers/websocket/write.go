package websocket

import (
	"errors"
	"sync"
)

var errKind = errors.New("websocket: a message is of kind Text or Binary")

// PreparedMessage is a message for many connections. It is framed once, and compressed once, when
// the first connection with compression sends it. Any number of loops may send it at the same time.
type PreparedMessage struct {
	opcode   byte
	compress bool
	frame    []byte // without compression
	payload  []byte // part of it

	packing sync.Once
	packed  []byte // a frame, too
	short   []byte // its payload
}

// Prepare makes a message of kind Text or Binary for many connections. It copies p.
func Prepare(kind int, p []byte) (*PreparedMessage, error) {
	opcode, compress, err := data(kind)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, 0, headerLength(len(p))+len(p))
	frame = append(appendHeader(frame, finBit|opcode, len(p)), p...)
	return &PreparedMessage{opcode: opcode, compress: compress, frame: frame,
		payload: frame[len(frame)-len(p):]}, nil
}

// data returns the opcode of a kind, and whether a message of that kind may be compressed. The error
// is that it is none.
func data(kind int) (opcode byte, compress bool, err error) {
	if op := kind &^ Uncompressed; op != Text && op != Binary {
		return 0, false, errKind
	}
	return byte(kind &^ Uncompressed), kind&Uncompressed == 0, nil
}

// compressed returns the compressed frame of the message.
func (m *PreparedMessage) compressed(level int) []byte {
	m.packing.Do(func() {
		b := messages.Get().(*[]byte)
		*b = deflateTo((*b)[:0], m.payload, nil, level)
		m.packed = make([]byte, 0, headerLength(len(*b))+len(*b))
		m.packed = append(appendHeader(m.packed, finBit|deflateBit|m.opcode, len(*b)), *b...)
		m.short = m.packed[len(m.packed)-len(*b):]
		recycle(b)
	})
	return m.packed
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
		return c.sendPacked(finBit|deflateBit|opcode, p)
	}
	return c.sendFrame(finBit|opcode, p)
}

// sendPacked compresses a message and sends it. One that does not get shorter goes out as it is.
func (c *Conn) sendPacked(first byte, p []byte) error {
	if c.err != nil {
		return c.err
	}
	b := messages.Get().(*[]byte)
	defer recycle(b)
	w := c.sentWindow()
	*b = deflateTo((*b)[:0], p, w.bytes(), c.set.level())
	if len(*b) >= len(p) {
		return c.sendFrame(first&^deflateBit, p)
	}
	w.add(p)
	return c.sendFrame(first, *b)
}

// WritePrepared sends a message that other connections get, too.
func (c *Conn) WritePrepared(m *PreparedMessage) error {
	if c.writing() {
		return errWriting
	}
	frame, payload, first := m.frame, m.payload, finBit|m.opcode
	if m.compress && c.compresses(len(m.payload)) {
		frame, payload, first = m.compressed(c.set.level()), m.short, first|deflateBit
		c.sentWindow().add(m.payload)
	}
	switch {
	case c.err != nil:
		return c.err
	case c.want.server:
		return c.sendFrame(first, payload)
	}
	return c.wrote(c.put(frame, nil))
}
