package websocket

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/loop"
)

// Kinds of messages.
const (
	Text   = opText
	Binary = opBinary

	// Uncompressed is for a message that is to go out as it is, on a connection with compression,
	// too: because it is compressed already, or has a secret beside what an attacker can choose, and
	// its length would tell of it. Text|Uncompressed is a kind for the methods that write.
	Uncompressed = 0x100
)

// Close codes (RFC 6455 section 7.4.1). Programs have 4000 to 4999 for their own.
const (
	NormalClosure   = 1000
	GoingAway       = 1001
	ProtocolError   = 1002
	UnsupportedData = 1003
	NoStatus        = 1005 // never on the wire: the peer's close had no code
	Abnormal        = 1006 // never on the wire: the connection broke
	InvalidData     = 1007
	PolicyViolation = 1008
	TooBig          = 1009
	InternalError   = 1011
	ServiceRestart  = 1012
	TryAgainLater   = 1013
)

// CloseError tells how a connection has ended: with the code and the reason of the side that closed
// it, or with Abnormal.
type CloseError struct {
	Code int
	Text string
}

func (e *CloseError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("websocket: closed with %d", e.Code)
	}
	return fmt.Sprintf("websocket: closed with %d: %s", e.Code, e.Text)
}

// Conn is one end of a WebSocket: the server's, from an Upgrader, or the client's, from a Dialer.
// It belongs to the thread of its request, or to the one that has dialed. That thread reads and
// writes, and waits for messages and other sources in AwaitAny. Others have a Mailbox. The server's
// end ends with the handler: if that has not closed it, it is closed when the handler returns. The
// client's has to be closed.
type Conn struct {
	*work  // nil while the connection is idle under Serve, see Detach
	thread *loop.Thread
	set    *Upgrader
	extra  *extra // nil: none of it is set

	// Under Serve.
	h       Handler // nil: the handler of the request has the connection
	follows *follow

	want expected

	// Compression, as it was agreed upon.
	takes bool  // messages to the peer may refer to earlier ones
	keeps uint8 // messages from the peer may refer to so many bytes, as a power of 2; 0: to none

	// What else is known.
	asked    bool // for a sign of life, since heard
	answered bool // no close frame is to come from the peer, or it has come
	lost     bool // the beginning of the next frame is unknown
	over     bool // nothing more will come

	cut        bool   // a write has begun and not ended
	phase      phase  // under Serve
	threadOnly bool   // a function of Relay has panicked on the loop, and is for the thread now
	protocol   uint16 // which of set.Subprotocols, counted from 1; 0: none

	heard time.Duration // when something came last, a point of the loop's clock (see Loop.Clock)
}

// work is what a connection has while it is at work. Its zero value, but for link and tls, is that
// of a connection between two messages.
type work struct {
	link conn.Link
	tls  *tls.Conn   // over link; nil: none
	err  *CloseError // what the connection has ended with

	// Input. buf is held only while it has bytes in it: buf[r:w] has come and is not used yet.
	buf   *[bufferSize]byte
	r, w  int32
	shown int32 // of these bytes, so many were given out by ReadMessage
	empty int32 // of this message's frames so far, those without any bytes

	// The message that has begun.
	frame   header  // of data: of that frame what is left to read
	at      int64   // bytes of the frame's payload that were read
	total   int64   // bytes of the message's frames so far
	message *[]byte // given out by ReadMessage
	kind    byte    // Text or Binary
	begun   bool    // a frame of data has, and not all of it was read
	packed  bool    // the message is compressed

	// A point of the loop's clock, 0: none. It is the end of the message that has begun, once it was
	// waited for; and in phase closing, when the peer is given up.
	until time.Duration

	taken int64 // the peer's progress, when it was asked
}

var works = sync.Pool{New: func() any { return new(work) }}

// extra is what few connections have, or none while it is idle without a coroutine.
type extra struct {
	input   loop.Source   // what a wait for input watches
	early   *bufio.Reader // what has come with the request
	readErr error         // why nothing more will come

	readBy, writeBy time.Duration // the program's deadlines, points of the loop's clock; 0: none
	readLimit       int64         // the program's; 0: the Upgrader's

	sent *window // what messages to the peer refer to; nil: to nothing
	got  []byte  // what messages from the peer may refer to

	box    *Mailbox       // nil: none was asked for
	reader *messageReader // what the program has not read to its end
	writer *messageWriter // what the program writes

	then func(c *Conn) // what After was asked for; nil: nothing
	due  time.Duration // when, a point of the loop's clock

	rest []byte // of a frame that Notified has begun

	lastBy time.Duration // when it sends no more at a stop, a point of the loop's clock; 0: not known
	last   bool          // it sends its last, see sendLast

	pinged, trip time.Duration // when Ping has asked, and how long the last answer took
}

const bufferSize = 4 << 10

var (
	buffers  = sync.Pool{New: func() any { return new([bufferSize]byte) }}
	messages = sync.Pool{New: func() any { b := make([]byte, 0, bufferSize); return &b }}
)

// keptMessage is the size of the largest buffer that is kept for other messages: the default
// ReadLimit fits.
const keptMessage = 80 << 10

// more returns what few connections have, to change it.
func (c *Conn) more() *extra {
	if c.extra == nil {
		c.extra = new(extra)
	}
	return c.extra
}

// Subprotocol returns the protocol that both sides agreed on, "" if there is none.
func (c *Conn) Subprotocol() string {
	if c.protocol == 0 {
		return ""
	}
	return c.set.Subprotocols[c.protocol-1]
}

// Thread returns the thread that the connection belongs to, for functions that take one. Under
// Serve it may be used by the Handler's methods only.
func (c *Conn) Thread() *loop.Thread { return c.thread }

// LocalAddr returns this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.link.LocalAddr() }

// RemoteAddr returns the client's address, as Request.RemoteAddr has it.
func (c *Conn) RemoteAddr() net.Addr { return c.link.RemoteAddr() }

// SetReadLimit sets how long a message may be from now on, in bytes on the wire and again after
// inflation, instead of the Upgrader's ReadLimit; 0: that one again; negative: no limit.
func (c *Conn) SetReadLimit(n int64) { c.more().readLimit = n }

func (c *Conn) readLimit() int64 {
	if c.extra != nil && c.extra.readLimit != 0 {
		return limit(c.extra.readLimit, 0)
	}
	return c.set.readLimit()
}

// SetReadDeadline sets the time by which a message has to have come; the zero Time: none. Between
// messages, a read that finds it passed returns loop.ErrDeadlineExceeded, and the connection goes
// on. Within a message, it ends the connection with PolicyViolation, as Upgrader.MessageTimeout
// does; and under Serve also between messages, unless the Handler has set another one by then.
func (c *Conn) SetReadDeadline(by time.Time) { c.more().readBy = c.clock(by) }

// SetWriteDeadline sets the time by which what is written has to have been taken by the peer; the
// zero Time: none. A write that is not done by then breaks the connection.
func (c *Conn) SetWriteDeadline(by time.Time) { c.more().writeBy = c.clock(by) }

// clock returns a time as a point of the loop's clock.
func (c *Conn) clock(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	if at := c.thread.Loop().Clock(t); at != 0 {
		return at
	}
	return 1
}

// now is the time of the loop's turn.
func (c *Conn) now() time.Duration { return c.clock(c.thread.Loop().Time()) }

// exactly is the time of this moment: the thread may have computed since its turn began.
func (c *Conn) exactly() time.Duration { return c.clock(time.Now()) }

// release takes the last message back.
func (c *Conn) release() {
	c.unshow()
	if m := c.message; m != nil {
		c.message = nil
		recycle(m)
	}
}

// unshow takes the last message back if it was a part of the input's buffer.
func (c *Conn) unshow() {
	if n := c.shown; n > 0 {
		c.shown = 0
		invariants.Mangle(c.buf[c.r : c.r+n])
		c.use(int(n))
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

// below returns what frames are read from and written to.
func (c *Conn) below() net.Conn {
	if c.tls != nil {
		return c.tls
	}
	return c.link
}

// source returns what a wait for input watches.
func (c *Conn) source() loop.Source {
	x := c.more()
	if x.input == nil {
		x.input = c.link.Readable()
	}
	return x.input
}
