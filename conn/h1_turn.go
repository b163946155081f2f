package conn

import (
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// firstInput is the size of the first input buffer. Most heads fit, and a sleeping handler holds
// it.
const firstInput = 2 << 10

// turn is all that a connection of HTTP/1.1 needs while it is being served, and the carrier of its
// exchanges. It belongs to a coroutine and not to a connection, so that the few turns in use stay
// in the cache.
type turn struct {
	x   *exchange // the present one, and used again for the next request
	in  []byte    // in[r:w] was read and is not used yet, see ofConnection
	out []byte    // not written yet

	ofConnection
}

// ofConnection is what a turn has of its connection. Nothing of it is left for the next one.
type ofConnection struct {
	c   *connection
	set *settings // of the present request

	// The connection's bytes; with TLS, the encrypted ones. A handler's deadlines are the stream's.
	stream stream.Conn
	duplex stream.Duplex

	// The pace that the client must keep during this request, and what it has moved so far.
	reading, writing stream.Pace

	// Input. in[r:w] was read and is not used yet. in[:base] belongs to the present request's head
	// and must stay where it is.
	base int
	r, w int
	body framing // of the present request

	// Output.
	writeErr error // sticky
	aborted  bool  // writeErr is from abort, and the client may still take what came before
	unsent   int   // bytes that the kernel had not sent when writeErr was set

	// The present answer.
	delimited delimiter
	last      bool  // the connection ends with it
	before    int64 // bytes written for the request when the content began
}

func newTurn() *turn {
	return &turn{in: make([]byte, firstInput), x: newExchange()}
}

func (t *turn) attach(c *connection) {
	t.c, c.turn = c, t
	if len(c.port.untaken) > 0 {
		delete(c.port.untaken, c)
	}
	t.set = c.port.server.settings.Load()
	t.stream.Own(&c.Thread, c.remote.addrPort())
	t.pace(&t.writing, t.set.WriteTimeout) // it may write before a request has come
	t.stream.SetPace(&t.reading, &t.writing)
	t.body.state = bodyEnded // there is none yet
	if c.tls != nil {
		c.transport().attach(&t.stream)
	}
}

// pace sets the pace that the client must keep: a byte within each time idle, and min_rate.
func (t *turn) pace(p *stream.Pace, idle time.Duration) { setPace(p, t.set, idle) }

// leave ends the turn and sends its answers. There is something left to send only if the turn has
// ended with a panic or runtime.Goexit.
func (t *turn) leave() {
	defer t.release()
	defer t.c.RunDeferred(0) // before release: the functions may use request and response
	_ = t.flush()
}

// release makes the turn ready for another connection.
func (t *turn) release() {
	c := t.c
	if c.Thread.Layer().AbandonCalls() {
		t.abandon()
	}
	t.x.end()
	t.x.clear()
	if invariants.Enabled {
		t.x = quarantine(t.x)
	}
	if c.tls != nil {
		c.transport().detach()
	}
	c.turn = nil
	t.ofConnection = ofConnection{}
	if len(t.in) > keptBuffer {
		t.in = make([]byte, firstInput)
	}
	if cap(t.out) > keptBuffer {
		t.out = nil
	}
	t.out = t.out[:0]
	invariants.Mangle(t.in)
	invariants.Mangle(t.out[:cap(t.out)])
}

// beginSession leaves the connection to HTTP/2, with what was read so far.
func (t *turn) beginSession() {
	s := t.c.newSession(t.set, t.in[t.r:t.w])
	t.r = t.w
	t.leave()
	s.begin()
}

// abandon leaves the exchange to a function that still runs off the loop and may hold it, and the
// bytes of its head. The turn goes on with another exchange.
func (t *turn) abandon() {
	x, y := t.x, newExchange()
	y.c, y.via, y.set = x.c, t, x.set // what is left of the body is read as that of y
	y.req.body = x.req.body
	y.req.body.x = y
	t.x = y
	x.abandon()
	rest := t.in[t.r:t.w]
	t.in = make([]byte, max(firstInput, len(rest)))
	t.r, t.base, t.w = 0, 0, copy(t.in, rest)
}

// serve answers requests as long as there are any, and returns what the loop does next.
func (t *turn) serve() coro.Code {
	c := t.c
	if c.state&served == 0 {
		if code, ready := t.prepare(); !ready {
			return code
		}
	}
	for !t.readEmpty() {
		if err := t.readHead(); err != nil {
			return t.headFailed(err)
		}
		if !t.exchange() {
			return coro.Abort
		}
		t = c.turn // the same; see exchange.call
		t.set = c.port.server.settings.Load()
	}
	return t.idle()
}

// prepare sees to what comes before the first request of a connection. If that cannot come yet, or
// not to this turn, prepare returns what the loop does next.
func (t *turn) prepare() (next coro.Code, ready bool) {
	c := t.c
	if c.state&(headed|named) == headed {
		switch err := t.readProxyHeader(); {
		case err == stream.ErrWouldBlock:
			return t.idle(), false
		case err == errOverload && c.port.TLS == nil:
			t.reject(errOverload)
			return coro.Abort, false
		case err != nil:
			return coro.Abort, false
		case c.port.TLS != nil && t.readEmpty(): // the handshake waits with a coroutine
			return t.idle(), false
		}
	}
	if c.port.TLS != nil && c.tls == nil {
		if err := t.handshake(); err != nil {
			return coro.Abort, false
		}
	}
	if c.tls != nil && c.transport().http2 {
		t.beginSession()
		return coro.WantRead, false
	}
	t.set = c.port.server.settings.Load() // it may have waited
	return 0, true
}

// headFailed acts on an error of readHead, and returns what the loop does next.
func (t *turn) headFailed(err error) coro.Code {
	if err == stream.ErrWouldBlock {
		return t.idle()
	}
	if bad, ok := err.(*http1.Error); ok {
		if t.wantsHTTP2(bad) {
			t.beginSession()
			return coro.WantRead
		}
		t.reject(bad)
	} else if t.flush() == nil { // the client has left: there is nothing to linger for
		t.closeTLS()
	}
	return coro.Abort
}

// readEmpty reports whether readHead would find nothing, without a system call. Most requests come
// alone, and so it is the answer after most of them.
func (t *turn) readEmpty() bool {
	return t.r == t.w && t.c.tls == nil && !t.stream.Unread() && !t.ends()
}

// ends reports whether the connection ends when it is idle.
func (t *turn) ends() bool { return t.c.Loop().Stopping() || t.c.outdated() }

// idle sends the answers, and leaves the connection idle until the next request comes.
func (t *turn) idle() coro.Code {
	c := t.c
	ends := t.ends()
	if !ends && len(t.out) > 0 && c.tls == nil && t.writeErr == nil {
		c.Thread.Layer().FlushBeforeWait(false)
		if t.stream.PutOff(t.out) {
			t.out = t.out[:0]
		}
	}
	if t.flush() != nil || ends {
		t.close()
		return coro.Abort
	}
	if t.ends() { // flush has waited, and something may have come meanwhile
		return coro.Yield
	}
	if c.tls != nil {
		slimTLS(c.tls, heldBuffer)
	}
	timeout := t.set.KeepAliveTimeout
	if c.state&served == 0 {
		timeout = t.set.HeaderTimeout
	}
	c.Thread.Layer().MarkIdle(c.Loop().Time(), false)
	c.Thread.Layer().IdleTimeout(timeout)
	return coro.WantRead
}

// exchange serves the request whose head was read, and reports whether the connection goes on. If
// not, all that comes before the close has been done.
func (t *turn) exchange() bool {
	c := t.c
	c.state |= served
	t.stream.Spend()
	t.begin()
	if p := c.port.proxies(t.set); p != nil {
		t.x.req.applyForwarded(p)
	}
	t.x.answer()
	// The handler may have taken the connection over, or left the rest of the answer to a keeper.
	return c.Thread.Layer().Task() == loop.Task(c) && c.turn.answered()
}

// answered is exchange, once the answer has been given. It stands apart from exchange because
// stacks are small, and handlers run on top of exchange.
func (t *turn) answered() bool {
	c, x := t.c, t.x
	x.completed()
	persistent := x.req.head.Persistent()
	if c.Thread.Layer().AbandonCalls() {
		t.abandon()
		x = t.x
	}
	x.end()
	full := len(t.out) >= gather // many answers without a body fill it, too
	if t.writeErr != nil || t.last || full && t.flush() != nil || !t.drain() ||
		x.fullLog != nil && t.awaitFullLog() != nil {
		t.closeAfter(persistent)
		return false
	}
	return true
}

// awaitFullLog waits until the access log has room for more lines of the connection.
func (t *turn) awaitFullLog() error {
	err := t.c.awaitLog(t.x.fullLog, t.flush)
	t.x.fullLog = nil
	return err
}

// begin makes everything ready for one answer.
func (t *turn) begin() {
	c := t.c
	t.pace(&t.reading, t.set.BodyTimeout)
	t.pace(&t.writing, t.set.WriteTimeout)
	t.stream.DropWriteDeadline()
	t.x.c, t.x.via, t.x.set = c, t, t.set
	t.body.begin(&t.x.req.head)
	t.delimited, t.last, t.before = plain, false, 0
	t.x.begin(&c.Thread)
	c.Thread.Layer().FlushBeforeWait(len(t.out) > 0)
	c.KeepWaiting(false) // the last handler's choice is not this one's
}

// reject answers a request that cannot be served, and closes the connection: after a framing error
// the server cannot tell where the next request begins (RFC 9112 section 9.3.1 allows the close,
// section 11.2 gives the reason).
func (t *turn) reject(e *http1.Error) {
	line := t.refusedLine()
	t.begin()
	x := t.x
	x.resp.close = true
	x.resp.finish(e.Status)
	x.countAnswer()
	x.logRefused(line, t.w-t.r)
	t.lingeringClose()
}
