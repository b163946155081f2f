package websocket

import (
	"errors"
	"sync"
)

var errKind = errors.New("websocket: a message is of kind Text or Binary")

// PreparedMessage is a message for many connections. It is framed once, and compressed once, when
// the first connection with compression sends it. Any number of loops may send it at the same time.
type PreparedMessage struct {
	kind    int
	frame   []byte // without compression
	payload []byte // part of it

	packing sync.Once
	packed  []byte // a frame, too
}

// Prepare makes a message of kind Text or Binary for many connections. It copies p.
func Prepare(kind int, p []byte) (*PreparedMessage, error) {
	if !isData(kind) {
		return nil, errKind
	}
	frame := make([]byte, 0, headerLength(len(p))+len(p))
	frame = append(appendHeader(frame, finBit|byte(kind), len(p)), p...)
	return &PreparedMessage{kind: kind, frame: frame, payload: frame[len(frame)-len(p):]}, nil
}

func isData(kind int) bool { return kind == Text || kind == Binary }

// compressed returns the compressed frame of the message.
func (m *PreparedMessage) compressed() []byte {
	m.packing.Do(func() {
		b := messages.Get().(*[]byte)
		*b = deflateTo((*b)[:0], m.payload)
		m.packed = make([]byte, 0, headerLength(len(*b))+len(*b))
		m.packed = append(appendHeader(m.packed, finBit|deflateBit|byte(m.kind), len(*b)), *b...)
		recycle(b)
	})
	return m.packed
}

// WriteMessage sends a message of kind Text or Binary. It waits until the kernel has taken it, and
// ends the connection of a peer that does not read.
func (c *Conn) WriteMessage(kind int, p []byte) error {
	if !isData(kind) {
		return errKind
	}
	if !c.want.deflate {
		return c.sendFrame(finBit|byte(kind), p)
	}
	b := messages.Get().(*[]byte)
	defer recycle(b)
	*b = deflateTo((*b)[:0], p)
	return c.sendFrame(finBit|deflateBit|byte(kind), *b)
}

// WritePrepared sends a message that other connections get, too.
func (c *Conn) WritePrepared(m *PreparedMessage) error {
	if c.err != nil {
		return c.err
	}
	if !c.want.deflate {
		return c.wrote(c.put(m.frame, nil))
	}
	return c.wrote(c.put(m.compressed(), nil))
}
