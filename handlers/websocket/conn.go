package websocket

import (
	"bufio"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/loop"
)

// Kinds of messages.
const (
	Text   = websocket.TextMessage
	Binary = websocket.BinaryMessage
)

// Close codes (RFC 6455 section 7.4.1). Programs have 4000 to 4999 for their own.
const (
	NormalClosure   = websocket.CloseNormalClosure
	GoingAway       = websocket.CloseGoingAway
	ProtocolError   = websocket.CloseProtocolError
	UnsupportedData = websocket.CloseUnsupportedData
	// never on the wire: the peer's close had no code
	NoStatus        = websocket.CloseNoStatusReceived
	Abnormal        = websocket.CloseAbnormalClosure // never on the wire: the connection broke
	InvalidData     = websocket.CloseInvalidFramePayloadData
	PolicyViolation = websocket.ClosePolicyViolation
	TooBig          = websocket.CloseMessageTooBig
	InternalError   = websocket.CloseInternalServerErr
	ServiceRestart  = websocket.CloseServiceRestart
	TryAgainLater   = websocket.CloseTryAgainLater
)

// CloseError tells how a connection has ended: with the code and the reason of the side that closed
// it, or with Abnormal.
type CloseError = websocket.CloseError

// Conn is the server's end of a WebSocket. It belongs to the thread of its request. That thread
// reads and writes, and waits for messages and other sources in AwaitAny. The connection ends with
// the thread: if the handler has not closed it, it is closed when the handler returns.
type Conn struct {
	ws     *websocket.Conn
	net    net.Conn // link, or TLS over it
	link   conn.Link
	thread *loop.Thread
	set    *Upgrader
	input  loop.Source

	// Input. buf is held only while it has bytes in it: buf[r:w] has come and is not used yet.
	buf   *[bufferSize]byte
	r, w  int
	early *bufio.Reader // what has come with the request
	// bytes of this data frame, header included, that were not yet passed to gorilla
	pass     int64
	total    int64   // bytes of the message's frames so far
	empty    int     // of these frames, those without any
	message  *[]byte // given out by ReadMessage
	readErr  error   // nothing more will come
	want     expected
	raw      bool // gorilla is not to see that the message is compressed
	deflated bool // the message is
	atHeader bool // pass begins with a header

	// Times.
	until           time.Time // the end of the message that has begun, once it was waited for
	heard           time.Time // when something came last
	readBy, writeBy time.Time // deadlines set through gorilla
	asked           bool      // for a sign of life, since then
	taken           int64     // its progress then

	// The end.
	err      error // what the connection has ended with
	answered bool  // no close frame is to come from the peer, or it has come
	lost     bool  // the beginning of the next frame is unknown
	cut      bool  // a write has begun and not ended
	lent     bool  // Gorilla was called
	window   bool  // the answer to the handshake has to tell that the window is not limited further
}

const bufferSize = 4 << 10

var (
	buffers  = sync.Pool{New: func() any { return new([bufferSize]byte) }}
	messages = sync.Pool{New: func() any { b := make([]byte, 0, bufferSize); return &b }}
	toWrite  sync.Pool // gorilla's
)

// keptMessage is the size of the largest buffer that is kept for other messages: the default
// ReadLimit fits.
const keptMessage = 80 << 10

// Gorilla returns the connection of package gorilla/websocket, for code that takes one. Limits,
// control frames and the end work the same through its methods; only text is not checked for UTF-8.
// Handlers of control frames that are set there are not called.
func (c *Conn) Gorilla() *websocket.Conn {
	c.lent = true
	return c.ws
}

// Subprotocol returns the protocol that both sides agreed on, "" if there is none.
func (c *Conn) Subprotocol() string { return c.ws.Subprotocol() }

// ReadMessage waits for a message and returns it. p is valid until the next ReadMessage or
// AwaitAny. The error is the *CloseError with which the connection has ended.
func (c *Conn) ReadMessage() (kind int, p []byte, err error) {
	c.release()
	for {
		begun, err := c.advance()
		if err != nil {
			return 0, nil, err
		}
		if begun {
			break
		}
		if _, err := c.AwaitAny(-1, c); err != nil {
			return 0, nil, err
		}
	}
	c.raw = true
	kind, p, err = c.gather()
	c.raw = false
	if err == nil && c.deflated {
		p, err = c.inflate(p)
	}
	if err == nil && c.deflated && kind == Text && !utf8.Valid(p) {
		err = c.violated(errUTF8)
	}
	if err != nil {
		return 0, nil, err
	}
	return kind, p, nil
}

// gather reads the message that has begun. It fails the connection as soon as a text cannot become
// UTF-8.
func (c *Conn) gather() (kind int, p []byte, err error) {
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return 0, nil, c.broken(err)
	}
	c.message = messages.Get().(*[]byte)
	p = (*c.message)[:0]
	for checked := 0; ; {
		if len(p) == cap(p) {
			// Double it, up to the limit and one byte, which lets the read see the end.
			rest := max(c.set.readLimit()-int64(len(p)), 0)
			p = slices.Grow(p, int(min(int64(len(p)), rest+1)))
		}
		n, err := r.Read(p[len(p):cap(p)])
		p = p[:len(p)+n]
		*c.message = p
		complete := c.err == nil && c.pass == 0 && !c.want.continuation
		if err != nil && !complete {
			return 0, nil, c.broken(err)
		}
		if kind == Text && (n > 0 || err != nil) {
			var wrong *CloseError
			if checked, wrong = c.inspect(p, checked, complete); wrong != nil {
				return 0, nil, c.violated(wrong)
			}
		}
		if err != nil {
			return kind, p, nil
		}
	}
}

// inspect checks whether p, the part of a text that has come, can become UTF-8, and returns how
// much of it needs no second look. complete says that p is the whole message.
//
// Compressed text must be inflated for that, and an inflater's state takes 40 kB, too much to hold
// for a slow peer. So inspect inflates from the beginning, and only when the input has doubled
// since the last time and no more is there: all of these together cost as much as a few messages.
func (c *Conn) inspect(p []byte, checked int, complete bool) (int, *CloseError) {
	if !c.deflated {
		n, ok := validUTF8(p[checked:])
		if !ok || complete && checked+n < len(p) {
			return 0, errUTF8
		}
		return checked + n, nil
	}
	if complete || len(p) < 2*checked || c.r < c.w || c.fill() {
		return checked, nil
	}
	m := messages.Get().(*[]byte)
	f := inflaters.Get().(*inflater)
	text, err := f.inflate((*m)[:0], p, c.set.readLimit(), false)
	inflaters.Put(f)
	*m = text
	_, ok := validUTF8(text)
	recycle(m)
	if err == nil && !ok {
		err = errUTF8
	}
	return len(p), err
}

// validUTF8 returns how long p is without a rune that is cut off at its end, and whether that is
// UTF-8.
func validUTF8(p []byte) (n int, ok bool) {
	if utf8.Valid(p) {
		return len(p), true
	}
	n = len(p) - 1
	for n > 0 && n > len(p)-utf8.UTFMax && !utf8.RuneStart(p[n]) {
		n--
	}
	return n, !utf8.FullRune(p[n:]) && utf8.Valid(p[:n])
}

// release takes the last message back.
func (c *Conn) release() {
	if m := c.message; m != nil {
		c.message = nil
		recycle(m)
	}
}

func recycle(m *[]byte) {
	invariants.Mangle(*m)
	if cap(*m) <= keptMessage {
		messages.Put(m)
	}
}

// broken notes that the connection has ended with err, if it has not ended before.
func (c *Conn) broken(err error) error {
	if c.err == nil {
		c.err, c.answered = &CloseError{Code: Abnormal, Text: err.Error()}, true
	}
	return c.err
}

// inflate undoes the compression of p, which is in c.message.
func (c *Conn) inflate(p []byte) ([]byte, error) {
	packed := c.message
	c.message = messages.Get().(*[]byte)
	f := inflaters.Get().(*inflater)
	*packed = append(p, leftOut...)
	out, err := f.inflate((*c.message)[:0], *packed, c.set.readLimit(), true)
	inflaters.Put(f)
	*c.message = out
	recycle(packed)
	if err != nil {
		return nil, c.violated(err)
	}
	return out, nil
}

// isTLS reports whether there is TLS between the link and the frames.
func (c *Conn) isTLS() bool {
	_, ok := c.net.(*tls.Conn)
	return ok
}
