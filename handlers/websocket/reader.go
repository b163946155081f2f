package websocket

import (
	"compress/flate"
	"io"
	"sync"
)

// NextReader waits for a message and returns a reader of it, which returns bytes as they arrive. So
// a message may be longer than the memory for it, see SetReadLimit. The next NextReader or
// ReadMessage drops the unread part of the message; until then, c is ready in AwaitAny when more of
// it has arrived. The errors of NextReader are those of ReadMessage; Read returns io.EOF at the end
// of the message. Text that is not UTF-8 ends the connection at the first wrong byte; the program
// may have read the bytes before it.
func (c *Conn) NextReader() (kind int, r io.Reader, err error) {
	if err = c.begin(); err != nil {
		return 0, nil, err
	}
	m := &messageReader{c: c, text: c.kind == Text}
	if c.compressed {
		m.inflate = inflateReaders.Get().(*inflateReader)
		m.inflate.begin(m)
	}
	c.ensureExtra().reader = m
	return int(c.kind), m, nil
}

// messageReader reads a message.
type messageReader struct {
	c       *Conn
	inflate *inflateReader // nil: the message is not compressed
	text    bool
	runes   runes
	err     error
}

// Read implements io.Reader.
func (m *messageReader) Read(p []byte) (n int, err error) {
	if m.err != nil || len(p) == 0 {
		return 0, m.err
	}
	if m.inflate != nil {
		n, err = m.inflate.read(p)
	} else {
		n, err = m.c.readData(p)
	}
	if m.text && (!m.runes.add(p[:n]) || err == io.EOF && !m.runes.whole()) {
		n, err = 0, m.c.failProtocol(errUTF8)
	}
	if m.err = err; err != nil {
		m.end()
	}
	return n, err
}

func (m *messageReader) end() {
	if m.inflate != nil {
		m.inflate.m = nil
		inflateReaders.Put(m.inflate)
		m.inflate = nil
	}
	if x := m.c.extra; x != nil && x.reader == m {
		x.reader = nil
	}
}

// skip drops the unread part of a message. It inflates that of a compressed message, since later
// messages may refer to it.
func (c *Conn) skip() error {
	if c.extra == nil || c.extra.reader == nil {
		return nil
	}
	m, b := c.extra.reader, buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(b)
	for m.err == nil {
		_, _ = m.Read(b[:])
	}
	if m.err == io.EOF {
		m.err = errDropped
		return nil
	}
	return m.err
}

// inflateReader inflates a message while it arrives. It takes 40 kB until the message has ended.
type inflateReader struct {
	m     *messageReader
	f     io.ReadCloser
	total int64 // bytes inflated

	// Input of the inflater, in this order: chunk[r:w], the rest of the frames, the rest of leftOut.
	chunk [512]byte
	r, w  int
	ended bool // the frames were read
	tail  string
	err   error // of the connection
}

// inflateReaders are pooled, like inflaters.
var inflateReaders = sync.Pool{New: func() any { return new(inflateReader) }}

func (u *inflateReader) begin(m *messageReader) {
	u.m, u.total, u.r, u.w, u.ended, u.tail, u.err = m, 0, 0, 0, false, leftOut, nil
	if u.f == nil {
		u.f = flate.NewReaderDict(u, m.c.peerWindow())
	} else {
		_ = u.f.(flate.Resetter).Reset(u, m.c.peerWindow()) // never fails
	}
}

// fill reads into chunk if it is empty.
func (u *inflateReader) fill() error {
	for u.r == u.w {
		if u.ended {
			if u.tail == "" {
				return io.EOF
			}
			u.r, u.w, u.tail = 0, copy(u.chunk[:], u.tail), ""
			return nil
		}
		n, err := u.m.c.readData(u.chunk[:])
		u.r, u.w, u.ended = 0, n, err == io.EOF
		if err != nil && err != io.EOF {
			u.err = err
			return err
		}
	}
	return nil
}

// Read implements io.Reader, for the inflater.
func (u *inflateReader) Read(p []byte) (int, error) {
	if err := u.fill(); err != nil {
		return 0, err
	}
	n := copy(p, u.chunk[u.r:u.w])
	u.r += n
	return n, nil
}

// ReadByte implements io.ByteReader, for the inflater.
func (u *inflateReader) ReadByte() (byte, error) {
	if err := u.fill(); err != nil {
		return 0, err
	}
	u.r++
	return u.chunk[u.r-1], nil
}

// read inflates into p.
func (u *inflateReader) read(p []byte) (int, error) {
	c := u.m.c
	n, err := u.f.Read(p)
	if u.total += int64(n); u.total > c.readLimit() {
		return 0, c.failProtocol(errTooBig)
	}
	c.addToReadWindow(p[:n])
	const piece = 16 << 10 // reads may be of few bytes
	if k := u.total/piece - (u.total-int64(n))/piece; k > 0 || err != nil {
		c.spend(int(k) * piece)
	}
	switch {
	case err == nil:
	case err == io.EOF && u.remainder() <= 1+len(leftOut): // see inflater.inflate
	case u.err != nil:
		err = u.err
	default:
		err = c.failProtocol(errInflate)
	}
	return n, err
}

// remainder reads the rest of a message whose last block has ended, if it is short, and returns its
// length.
func (u *inflateReader) remainder() int {
	n := u.w - u.r + len(u.tail)
	for !u.ended && n <= 1+len(leftOut) {
		u.r = u.w
		k, err := u.m.c.readData(u.chunk[:])
		n, u.ended = n+k, err == io.EOF
		if err != nil && err != io.EOF {
			u.err = err
			return 2 + len(leftOut)
		}
	}
	return n
}
