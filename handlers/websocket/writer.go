package websocket

import (
	"errors"
	"io"
)

var (
	errWriting = errors.New("websocket: the writer of another message is open")
	errDropped = errors.New("websocket: the message was dropped: the next one was asked for")
	errClosed  = errors.New("websocket: the writer is closed")
)

// NextWriter returns a writer of a message of kind Text or Binary, which sends the message in
// fragments as it is written. Close sends the last fragment; until then no other message can be
// written. The writer holds a buffer of 4 KiB, and with compression a compressor of 200 kB or more.
func (c *Conn) NextWriter(kind int) (io.WriteCloser, error) {
	opcode, compress, err := data(kind)
	switch {
	case err != nil:
		return nil, err
	case c.err != nil:
		return nil, c.err
	case c.writing():
		return nil, errWriting
	}
	m := &messageWriter{c: c, first: opcode, buf: buffers.Get().(*[bufferSize]byte)}
	if compress && c.expected.deflate {
		m.first |= deflateBit
		m.window = c.useWriteWindow()
		m.deflater = getDeflater(c.set.level(), m.window.bytes())
		m.deflater.into = (*deflateWriter)(m)
	}
	c.ensureExtra().writer = m
	return m, nil
}

// writing reports whether the program writes a message in parts.
func (c *Conn) writing() bool { return c.extra != nil && c.extra.writer != nil }

// messageWriter writes a message.
type messageWriter struct {
	c        *Conn
	first    byte // of the next frame, without finBit
	buf      *[bufferSize]byte
	n        int       // bytes of the next frame's payload; they begin at maxHeader
	deflater *deflater // nil: the message goes out as it is
	window   *window   // to which it is added
	closed   bool
}

// Write implements io.Writer.
func (m *messageWriter) Write(p []byte) (int, error) {
	switch {
	case m.c.err != nil:
		return 0, m.c.err
	case m.closed:
		return 0, errClosed
	case m.deflater == nil:
		return m.add(p)
	}
	m.window.add(p)
	return m.deflater.w.Write(p)
}

// deflateWriter takes the output of the compressor.
type deflateWriter messageWriter

// Write implements io.Writer.
func (w *deflateWriter) Write(p []byte) (int, error) { return (*messageWriter)(w).add(p) }

// add adds a part of the message's payload. A part that is longer than the buffer goes out without
// a copy. With compression the last bytes stay in the buffer: they may be a blockEnd, which is not
// sent.
func (m *messageWriter) add(p []byte) (int, error) {
	all := len(p)
	for len(p) > 0 {
		room := m.buf[maxHeader+m.n:]
		if len(room) == 0 || m.n == 0 && m.deflater == nil && len(p) > 4*len(room) {
			var err error
			if m.n > 0 {
				err = m.flush(false)
			} else {
				err = m.c.sendFrame(m.first, p)
				p, m.first = nil, opContinuation
			}
			if err != nil {
				return 0, err
			}
			continue
		}
		n := copy(room, p)
		m.n, p = m.n+n, p[n:]
	}
	return all, nil
}

// flush sends the content of the buffer as a frame.
func (m *messageWriter) flush(fin bool) error {
	n := m.n
	if m.deflater != nil {
		n -= len(blockEnd)
	}
	first := m.first
	if fin {
		first |= finBit
	}
	payload := m.buf[maxHeader : maxHeader+n]
	if err := m.c.sendFrame(first, payload); err != nil {
		return err
	}
	m.n, m.first = copy(m.buf[maxHeader:], m.buf[maxHeader+n:maxHeader+m.n]), opContinuation
	return nil
}

// Close sends the end of the message.
func (m *messageWriter) Close() error {
	if m.closed {
		return errClosed
	}
	m.closed = true
	var err error
	if m.deflater != nil {
		err = m.deflater.w.Flush()
	}
	if err == nil {
		err = m.flush(true)
	}
	if m.deflater != nil {
		m.deflater.release(m.c.set.level())
	}
	if m.window != nil {
		m.window.used = m.c.now()
		m.window = nil
	}
	buffers.Put(m.buf)
	m.buf, m.deflater = nil, nil
	m.c.extra.writer = nil
	if m.c.err != nil {
		return m.c.err
	}
	return err
}
