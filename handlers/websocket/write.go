package websocket

import (
	"errors"
	"sync"

	"github.com/gorilla/websocket"
)

var errKind = errors.New("websocket: a message is of kind Text or Binary")

// PreparedMessage is a message for many connections. It is framed once, and compressed once, when
// the first connection with compression sends it. Any number of loops may send it at the same time.
type PreparedMessage struct {
	kind    int
	frame   []byte // without compression
	payload []byte // part of it

	packing sync.Once
	packed  *websocket.PreparedMessage
	err     error
}

// Prepare makes a message of kind Text or Binary for many connections. It copies p.
func Prepare(kind int, p []byte) (*PreparedMessage, error) {
	if !isData(kind) {
		return nil, errKind
	}
	frame := appendHeader(make([]byte, 0, headerLength(len(p))+len(p)), byte(kind), len(p))
	frame = append(frame, p...)
	return &PreparedMessage{kind: kind, frame: frame, payload: frame[len(frame)-len(p):]}, nil
}

func isData(kind int) bool { return kind == Text || kind == Binary }

// gorilla returns gorilla's form of the message, which it compresses.
func (m *PreparedMessage) gorilla() (*websocket.PreparedMessage, error) {
	m.packing.Do(func() { m.packed, m.err = websocket.NewPreparedMessage(m.kind, m.payload) })
	return m.packed, m.err
}

// WriteMessage sends a message of kind Text or Binary. It waits until the kernel has taken it, and
// ends the connection of a peer that does not read.
func (c *Conn) WriteMessage(kind int, p []byte) error {
	if !c.plain() || !isData(kind) || len(p) > bufferSize-maxHeader {
		return c.wrote(c.ws.WriteMessage(kind, p))
	}
	b := buffers.Get().(*[bufferSize]byte)
	err := c.send(append(appendHeader(b[:0], byte(kind), len(p)), p...))
	buffers.Put(b)
	return err
}

// WritePrepared sends a message that other connections get, too.
func (c *Conn) WritePrepared(m *PreparedMessage) error {
	if c.plain() {
		return c.send(m.frame)
	}
	packed, err := m.gorilla()
	if err != nil {
		return err
	}
	return c.wrote(c.ws.WritePreparedMessage(packed))
}

// plain reports whether a whole frame can bypass gorilla, which would only lock and pass it on:
// there is no compression, and no other code uses gorilla's connection, where it may have begun a
// message.
func (c *Conn) plain() bool { return !c.want.deflate && !c.lent }

// send writes a frame of data.
func (c *Conn) send(frame []byte) error {
	if c.err != nil {
		return c.err
	}
	_, err := (*wire)(c).Write(frame)
	return c.wrote(err)
}

func (c *Conn) wrote(err error) error {
	if err != nil {
		return c.broken(err)
	}
	return nil
}
