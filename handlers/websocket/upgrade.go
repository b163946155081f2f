package websocket

import (
	"crypto/tls"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/lwango/lwango/conn"
)

const (
	defaultReadLimit        = 64 << 10
	defaultHandshakeTimeout = 10 * time.Second
	defaultMessageTimeout   = 60 * time.Second
	defaultWriteTimeout     = 30 * time.Second
	defaultPingInterval     = 30 * time.Second
	defaultPongTimeout      = 15 * time.Second
)

// Upgrader makes WebSockets of requests. The zero value is ready for use. All loops may use one,
// which must not change then. For each limit, in bytes or time, 0 is the default and a negative
// value is no limit.
type Upgrader struct {
	// Origins are other sites whose pages may connect, as browsers write them (https://example.org),
	// or * for all. Otherwise, a request with an Origin must come from a page of the same host.
	// Scheme, host and port are compared; ws stands for http and wss for https, as clients that are no
	// browsers have them. If CheckOrigin is set, it alone decides about requests with an Origin.
	Origins     []string
	CheckOrigin func(req *conn.Request, origin string) bool

	Subprotocols []string // of the server, the best first

	// Compression is permessage-deflate (RFC 7692), where the client offers it. Its level is 1, the
	// fastest and the default, to 9. Messages shorter than the threshold are not compressed. It is 256
	// bytes by default, and 64 with Takeover; a negative one compresses all messages.
	Compression          bool
	CompressionLevel     int
	CompressionThreshold int

	// Takeover lets a message to the client refer to earlier ones, if the client permits it: similar
	// messages become a few bytes. A connection that sends has a window of 8 KiB for that, until it
	// has sent nothing for ten seconds. At most 4096 connections of a process have one at a time; the
	// others compress each message by itself. PeerTakeover lets the client's messages do so. Its price
	// is that each connection whose client has sent compressed messages keeps the last 32 KiB of these
	// until it ends, or as much as the client says in client_max_window_bits. The connections of a
	// process keep 64 MiB together, and once half of that is taken, those of an address 4 MiB; the
	// handshake tells further clients to compress each message by itself.
	Takeover     bool
	PeerTakeover bool

	ReadLimit int64 // bytes of a message, on the wire and again after inflation; 64 KiB

	HandshakeTimeout time.Duration // for the answer to the request; 10 s
	MessageTimeout   time.Duration // for a message, from its first byte; 60 s
	WriteTimeout     time.Duration // for the peer to take 64 KiB, or less if there is less; 30 s
	PingInterval     time.Duration // of silence of the peer, after which it gets a ping; 30 s

	// IdleTimeout is the silence after which a peer is taken for dead: by default PingInterval and
	// 15 s, or no limit if there are no pings. A peer that goes on reading is alive: it sends its
	// pong only after it has read all that stands before the ping. If IdleTimeout is not longer
	// than PingInterval, no pings are sent.
	IdleTimeout time.Duration
}

// limit returns the value of an Upgrader's limit: the default for 0, and for a negative one so much
// that nothing reaches it.
func limit[T int64 | time.Duration](set, byDefault T) T {
	switch {
	case set == 0:
		return byDefault
	case set < 0:
		return math.MaxInt64 / 2 // there is room to add to it
	}
	return set
}

func (u *Upgrader) readLimit() int64 { return limit(u.ReadLimit, defaultReadLimit) }

func (u *Upgrader) messageTimeout() time.Duration {
	return limit(u.MessageTimeout, defaultMessageTimeout)
}

func (u *Upgrader) writeTimeout() time.Duration {
	return limit(u.WriteTimeout, defaultWriteTimeout)
}

// keepAlive returns after which silence the peer is checked, and after which it is taken for dead.
// pings says that the check is a ping; otherwise only the peer's reading counts.
func (u *Upgrader) keepAlive() (interval, idle time.Duration, pings bool) {
	interval = limit(u.PingInterval, defaultPingInterval)
	byDefault := interval
	if u.PingInterval >= 0 {
		byDefault += defaultPongTimeout
	}
	if idle = limit(u.IdleTimeout, byDefault); u.PingInterval >= 0 && interval < idle {
		return interval, idle, true
	}
	return idle / 2, idle, false
}

// HandshakeError says why a request does not become a WebSocket: why the Upgrader refuses it or,
// for Dial, how the server has answered.
type HandshakeError struct {
	Status int // of the answer
	Reason string
}

func (e *HandshakeError) Error() string { return "websocket: " + e.Reason }

// Status returns the status with which a handler returns when Upgrade has failed.
func Status(err error) int {
	if e, ok := errors.AsType[*HandshakeError](err); ok {
		return e.Status
	}
	return http.StatusInternalServerError
}

// Upgrade answers the request and makes a WebSocket of its connection. The header fields of resp go
// out with the answer. On an error, a *HandshakeError unless the connection is broken, the handler
// returns Status(err): Upgrade has set the fields of the refusal in resp.
func (u *Upgrader) Upgrade(req *conn.Request, resp *conn.Response) (*Conn, error) {
	c, err := u.upgrade(req, resp)
	if err == nil {
		req.Defer(c.end)
	}
	return c, err
}

// upgrade is Upgrade without the deferred end of the connection.
func (u *Upgrader) upgrade(req *conn.Request, resp *conn.Response) (c *Conn, _ error) {
	o, err := u.accept(req)
	if err != nil {
		err.explain(resp)
		return nil, err
	}
	nc, r, e := resp.Hijack()
	if e != nil {
		return nil, e
	}
	if o.readTakeover > 0 {
		if at := client(conn.HijackedOf(nc).RemoteAddr()); !reserveWindow(at, o.readTakeover) {
			o.readTakeover = 0
		} else {
			defer func() { // also if the thread is killed
				if c == nil {
					releaseWindow(at, o.readTakeover)
				}
			}()
		}
	}
	secure, _ := nc.(*tls.Conn)
	w := &Conn{activeState: &activeState{link: conn.HijackedOf(nc), tls: secure}, thread: req.Thread,
		set: u, expected: expected{deflate: o.deflate}, writeTakeover: o.writeTakeover,
		readTakeover: o.readTakeover, closeReceived: true}
	w.link.SetNoWait(true)
	w.lastInput = w.now()
	w.agreeOn(o.protocol)
	if e = w.answer(o.answer(resp.Header())); e != nil {
		return nil, e
	}
	w.closeReceived = false
	if r.Buffered() > 0 { // sent without waiting for the answer
		w.ensureExtra().early = r
	}
	return w, nil
}

// agreeOn notes the subprotocol.
func (c *Conn) agreeOn(protocol string) {
	c.protocol = uint16(1 + slices.Index(c.set.Subprotocols, protocol)) // of 65,535 at most
}

// answer sends the answer to the handshake.
func (c *Conn) answer(head []byte) error {
	c.ensureExtra().writeBy = c.exactNow() + limit(c.set.HandshakeTimeout, defaultHandshakeTimeout)
	err := c.put(head, nil)
	c.extra = nil
	return err
}
