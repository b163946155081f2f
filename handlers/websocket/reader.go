package websocket

import (
	"compress/flate"
	"io"
	"sync"
)

// NextReader waits for a message and returns a reader of it, which gives what has come of it
// without waiting for the rest. So a message may be longer than memory is to be, see SetReadLimit.
// The next NextReader or ReadMessage drops what was not read of it; until then, c is ready in
// AwaitAny when there is more of it. The errors of NextReader are those of ReadMessage; Read
// returns io.EOF at the end of the message. Text that cannot become UTF-8
// ends the connection with the byte that says so; bytes before it may have been read.
func (c *Conn) NextReader() (kind int, r io.Reader, err error) {
	if err = c.begin(); err != nil {
		return 0, nil, err
	}
	m := &messageReader{c: c, text: c.kind == Text}
	if c.packed {
		m.packed = unpackers.Get().(*unpacker)
		m.packed.begin(m)
	}
	c.more().reader = m
	return int(c.kind), m, nil
}

// messageReader reads a message.
type messageReader struct {
	c      *Conn
	packed *unpacker // nil: the message is not compressed
	text   bool
	runes  runes
	err    error
}

// Read implements io.Reader.
func (m *messageReader) Read(p []byte) (n int, err error) {
	if m.err != nil || len(p) == 0 {
		return 0, m.err
	}
	if m.packed != nil {
		n, err = m.packed.read(p)
	} else {
		n, err = m.c.readData(p)
	}
	if m.text && (!m.runes.add(p[:n]) || err == io.EOF && !m.runes.whole()) {
		n, err = 0, m.c.violated(errUTF8)
	}
	if m.err = err; err != nil {
		m.end()
	}
	return n, err
}

func (m *messageReader) end() {
	if m.packed != nil {
		m.packed.m = nil
		unpackers.Put(m.packed)
		m.packed = nil
	}
	if x := m.c.extra; x != nil && x.reader == m {
		x.reader = nil
	}
}

// skip drops what the program has not read of a message. Of a compressed one it is inflated: later
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

// unpacker inflates a message while it comes. It takes 40 kB, until the message has ended.
type unpacker struct {
	m     *messageReader
	f     io.ReadCloser
	total int64 // bytes inflated

	// What the inflater has to read next: chunk[r:w], the rest of the frames, the rest of leftOut.
	chunk [512]byte
	r, w  int
	ended bool // the frames were read
	tail  string
	err   error // of the connection
}

// unpackers are shared, as inflaters are.
var unpackers = sync.Pool{New: func() any { return new(unpacker) }}

func (u *unpacker) begin(m *messageReader) {
	u.m, u.total, u.r, u.w, u.ended, u.tail, u.err = m, 0, 0, 0, false, leftOut, nil
	if u.f == nil {
		u.f = flate.NewReaderDict(u, m.c.got())
	} else {
		_ = u.f.(flate.Resetter).Reset(u, m.c.got()) // never fails
	}
}

// fill sees to it that there is something in chunk.
func (u *unpacker) fill() error {
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
func (u *unpacker) Read(p []byte) (int, error) {
	if err := u.fill(); err != nil {
		return 0, err
	}
	n := copy(p, u.chunk[u.r:u.w])
	u.r += n
	return n, nil
}

// ReadByte implements io.ByteReader, for the inflater.
func (u *unpacker) ReadByte() (byte, error) {
	if err := u.fill(); err != nil {
		return 0, err
	}
	u.r++
	return u.chunk[u.r-1], nil
}

// read inflates into p.
func (u *unpacker) read(p []byte) (int, error) {
	c := u.m.c
	n, err := u.f.Read(p)
	if u.total += int64(n); u.total > c.readLimit() {
		return 0, c.violated(errTooBig)
	}
	c.remember(p[:n])
	const piece = 16 << 10 // reads may be of few bytes
	if k := u.total/piece - (u.total-int64(n))/piece; k > 0 || err != nil {
		c.spend(int(k) * piece)
	}
	switch {
	case err == nil:
	case err == io.EOF && u.excess() <= 1+len(leftOut): // see inflater.inflate
	case u.err != nil:
		err = u.err
	default:
		err = c.violated(errInflate)
	}
	return n, err
}

// excess reads the rest of a message whose last block has ended, if it is short, and returns how
// long it is.
func (u *unpacker) excess() int {
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
