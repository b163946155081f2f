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

	// Uncompressed is for a message that is not to be compressed: because it is compressed already, or
	// because it has a secret beside text that an attacker can choose, so that its length would reveal
	// the secret. Text|Uncompressed is a kind for the methods that write.
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
// It belongs to the thread of its request, or to the thread that has dialed. That thread reads and
// writes, and waits for messages and other sources in AwaitAny. Other threads use a Mailbox. When
// the handler returns, the server's end is closed, if the handler has not closed it. The program
// has to close the client's end.
type Conn struct {
	*activeState // nil while the connection is idle under Serve, see Detach
	thread       *loop.Thread
	set          *Upgrader
	extra        *extra // nil: none of it is set

	// Under Serve.
	handler       Handler // nil: the handler of the request has the connection
	subscriptions *subscription

	expected expected

	// Compression, as it was agreed upon.
	writeTakeover bool  // messages to the peer may refer to earlier ones (RFC 7692: context takeover)
	readTakeover  uint8 // messages from the peer may refer to 2^readTakeover bytes before; 0: to none

	// Other state.
	pingDue       bool // a ping was sent since lastInput, or would have been
	closeReceived bool // a close frame of the peer has come, or none will come
	framingLost   bool // it is unknown where the next frame begins
	inputEnded    bool // no more input will come

	writeBroken   bool   // a frame was written in part
	phase         phase  // under Serve
	relayOnThread bool   // a function of Relay has panicked on the loop; now the thread calls it
	protocol      uint16 // which of set.Subprotocols, counted from 1; 0: none

	lastInput time.Duration // when the last input came, by the loop's clock (see LoopLayer.Clock)
}

// activeState is the state of a connection while it is at work. Its zero value, except link and
// tls, is that of a connection between two messages.
type activeState struct {
	link conn.HijackedConn
	tls  *tls.Conn   // over link; nil: none
	err  *CloseError // what the connection has ended with

	// Input. buf is held only while it has bytes in it: buf[r:w] is input that is not used yet.
	buf      *[bufferSize]byte
	r, w     int32
	returned int32 // how many of these bytes ReadMessage has returned
	empty    int32 // how many frames of this message were empty so far

	// The message that has begun.
	frame      header  // of data: the part that is left to read
	at         int64   // bytes of the frame's payload that were read
	total      int64   // bytes of the message's frames so far
	message    *[]byte // returned by ReadMessage
	kind       byte    // Text or Binary
	begun      bool    // a frame of data has begun, and was not read to its end
	compressed bool    // the message is compressed

	// A point of the loop's clock; 0: none. By then a message that has begun has to be complete, once
	// the thread has waited for it; in phase closing, by then the peer has to answer.
	until time.Duration

	progress int64 // how much the peer had read at the last check
}

var activeStates = sync.Pool{New: func() any { return new(activeState) }}

// extra has the state that few connections need, and none that is idle without a coroutine.
type extra struct {
	input   loop.Source   // the source of a wait for input
	early   *bufio.Reader // input that came with the request
	readErr error         // why no more input will come

	readBy, writeBy time.Duration // the program's deadlines, points of the loop's clock; 0: none
	readLimit       int64         // the program's; 0: the Upgrader's

	writeWindow *window // to which messages to the peer refer; nil: to nothing
	readWindow  []byte  // to which messages from the peer may refer

	box    *Mailbox       // nil: none was asked for
	reader *messageReader // of a message that the program reads
	writer *messageWriter // of a message that the program writes

	timer    func(c *Conn) // of After; nil: none
	timerDue time.Duration // when timer is due, by the loop's clock

	unsentFrame []byte // of a frame that Notified has sent in part

	finalDeadline time.Duration // when it stops sending at a stop, by the loop's clock; 0: not known
	sendsFinal    bool          // it sends its final messages, see sendFinal

	pingSentAt, roundTrip time.Duration // when Ping sent a ping, and how long the last pong took
}

const bufferSize = 4 << 10

var (
	buffers  = sync.Pool{New: func() any { return new([bufferSize]byte) }}
	messages = sync.Pool{New: func() any { b := make([]byte, 0, bufferSize); return &b }}
)

// maxPooledMessage is the size of the largest buffer that is kept for other messages: the default
// ReadLimit fits.
const maxPooledMessage = 80 << 10

// ensureExtra returns c.extra, which it makes if needed.
func (c *Conn) ensureExtra() *extra {
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
func (c *Conn) SetReadLimit(n int64) { c.ensureExtra().readLimit = n }

func (c *Conn) readLimit() int64 {
	if c.extra != nil && c.extra.readLimit != 0 {
		return limit(c.extra.readLimit, 0)
	}
	return c.set.readLimit()
}

// SetReadDeadline sets the time by which a message has to be complete; the zero Time: none. Between
// messages, a read after that time returns loop.ErrDeadlineExceeded, and the connection goes on.
// Within a message, it ends the connection with PolicyViolation, as Upgrader.MessageTimeout does;
// and under Serve also between messages, unless the Handler has set another one by then.
func (c *Conn) SetReadDeadline(by time.Time) { c.ensureExtra().readBy = c.clock(by) }

// SetWriteDeadline sets the time by which the peer has to take all output; the zero Time: none. A
// write that is not complete by then breaks the connection.
func (c *Conn) SetWriteDeadline(by time.Time) { c.ensureExtra().writeBy = c.clock(by) }

// clock returns a time as a point of the loop's clock.
func (c *Conn) clock(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	if at := c.thread.Loop().Layer().Clock(t); at != 0 {
		return at
	}
	return 1
}

// now is the time of the loop's turn.
func (c *Conn) now() time.Duration { return c.clock(c.thread.Loop().Time()) }

// exactNow returns the present time, not that of the loop's turn: the thread may have computed
// since the turn began.
func (c *Conn) exactNow() time.Duration { return c.clock(time.Now()) }

// release frees the message that ReadMessage has returned.
func (c *Conn) release() {
	c.takeBackInput()
	if m := c.message; m != nil {
		c.message = nil
		recycle(m)
	}
}

// takeBackInput frees the returned message if it is a part of the input buffer.
func (c *Conn) takeBackInput() {
	if n := c.returned; n > 0 {
		c.returned = 0
		invariants.Mangle(c.buf[c.r : c.r+n])
		c.use(int(n))
	}
}

func recycle(m *[]byte) {
	invariants.Mangle(*m)
	if cap(*m) <= maxPooledMessage {
		messages.Put(m)
	}
}

// setError notes that the connection has ended with err, if it has not ended before.
func (c *Conn) setError(err error) error {
	if c.err == nil {
		c.err, c.closeReceived = &CloseError{Code: Abnormal, Text: err.Error()}, true
	}
	return c.err
}

// transport returns the net.Conn below the frames.
func (c *Conn) transport() net.Conn {
	if c.tls != nil {
		return c.tls
	}
	return c.link
}

// source returns the source of a wait for input.
func (c *Conn) source() loop.Source {
	x := c.ensureExtra()
	if x.input == nil {
		x.input = c.link.Readable()
	}
	return x.input
}
