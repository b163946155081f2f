package tcpproxy

import (
	"crypto/tls"
	"net/netip"
	"strings"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/upstream/tunnel"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// connection is a client's connection and the one to its upstream. All of it belongs to its thread.
type connection struct {
	loop.Thread
	port *port

	client stream.Conn
	up     *stream.Conn  // nil: there is no upstream
	tunnel tunnel.Tunnel // of the two
	lease  upstream.Lease

	remote netip.AddrPort // of the client; of its proxy until the proxy has named the client
	local  netip.AddrPort // to which the client has connected, by a proxy's header
	name   string         // SNI; "": none

	counted   bool // in the counts of its client
	connected bool // to an upstream
	result    result

	reportedGot, reportedSent int64 // already counted
	version, suite            uint16
}

// result is how a connection has ended, as the access log calls it; "": it has not.
type result string

const (
	complete           result = "complete"         // both sides have closed
	clientLeft         result = "client left"      // before it had all
	upstreamFailed     result = "upstream failed"  // or the connection to it
	upstreamBusy       result = "upstream busy"    // there was no free slot in time
	idleTimeout        result = "idle timeout"     // no byte has moved
	maxTime            result = "max time"         // the connection was too old
	headerTimeout      result = "header timeout"   // the client did not send its header in time
	handshakeFailed    result = "handshake failed" // of TLS, or no ClientHello
	challengeAnswered  result = "name proved"      // of ACME, for which an authority has connected
	noHeader           result = "no proxy header"
	noRoute            result = "no route" // for the name that the client has asked for
	tooManyConnections result = "too many" // of the client that a proxy has named
	clientDenied       result = "denied"   // by allow or deny; a proxy has named the client
	stopped            result = "stopped"  // with the server, at the end of its grace period
)

// Client is an optional method of a loop.Task.
func (c *connection) Client() netip.Addr { return c.remote.Addr() }

// count counts c among the connections of its client.
func (c *connection) count() bool {
	s := c.port.service
	c.counted = s.counters.enterFrom(c.remote.Addr(), s.set.MaxConnectionsPerAddress)
	return c.counted
}

// now returns the present turn's time on the loop's clock.
func (c *connection) now() time.Duration {
	l := c.port.loop
	return l.Layer().Clock(l.Time())
}

// Run implements loop.Task.
func (c *connection) Run(t *loop.Thread) coro.Code {
	if !c.connected {
		if c.result = c.open(t); c.result == "" {
			c.connected = true
			c.tunnel.Start(c.now())
		}
	}
	code := coro.Abort
	if c.connected {
		code = c.pump(t)
	}
	if code == coro.Abort {
		c.closeUpstream()
	}
	return code
}

// closeUpstream closes the connection to the upstream, unless it is closed. It resets the
// connection if the upstream has not got all bytes of its client, since an orderly end would say
// that it has.
func (c *connection) closeUpstream() {
	client, up := &c.tunnel.Client, &c.tunnel.Up
	cut := c.up != nil && up.Cut(client)
	if c.up != nil && c.connected {
		client.Stop()
		up.Stop()
	}
	switch {
	case c.up == nil:
		c.lease.Release()
		return
	case cut: // without close_notify
		c.up.ResetOnClose()
		_ = c.up.Close()
		c.lease.Release()
	default:
		c.lease.Close(c.up)
	}
	c.up = nil
}

// remaining returns how long the connection may go on if no byte moves, and the result with which
// it ends then.
func (c *connection) remaining() (time.Duration, result) {
	s := c.port.service
	if !c.connected {
		return c.tunnel.Began + s.set.HeaderTimeout - c.now(), headerTimeout
	}
	left, why := c.tunnel.Left(c.now(), &s.limits)
	return left, reasons[why]
}

// IdleTimedOut is an optional method of a loop.Task.
func (c *connection) IdleTimedOut() time.Duration {
	left, why := c.remaining()
	if left <= 0 {
		c.result = why
	}
	return max(left, 0)
}

// ClientGone implements loop.Task. A read finds that, too; but a connection that waits for a slot
// at an upstream does not read, and it need not wait for a client that has left.
func (c *connection) ClientGone() {
	if c.Thread.Layer().HungUp() {
		c.KeepWaiting(false)
	}
}

// Ended implements loop.Task.
func (c *connection) Ended() {
	s := c.port.service
	c.closeUpstream() // after a kill, and where the loop has ended an idle thread
	c.addBytes()
	s.counters.leave(c.remote.Addr(), c.counted)
	if c.result == "" {
		c.result = stopped
	}
	if !c.connected && c.result != clientLeft && c.result != challengeAnswered && c.result != stopped {
		s.counters.failed.Add(1)
	}
	if s.set.AccessLog != nil {
		c.log()
	}
}

// limit returns the key and the value of the limit that has ended a connection; "": none has.
func (s *Settings) limit(by result) (key string, limit time.Duration) {
	switch by {
	case idleTimeout:
		return "idle_timeout", s.IdleTimeout
	case maxTime:
		return "max_time", s.MaxTime
	case headerTimeout:
		return "header_timeout", s.HeaderTimeout
	}
	return "", 0
}

// addBytes adds the bytes that have moved since its last call to the counters.
func (c *connection) addBytes() {
	l := c.port.service.counters
	if n := c.tunnel.Client.Got - c.reportedGot; n > 0 {
		l.got.Add(n)
		c.reportedGot += n
	}
	if n := c.tunnel.Up.Got - c.reportedSent; n > 0 {
		l.sent.Add(n)
		c.reportedSent += n
	}
}

// log writes the connection's line.
func (c *connection) log() {
	l := c.port.loop
	e := accesslog.Connection{Remote: c.remote, Time: l.Time(),
		Duration: l.Layer().Clock(time.Now()) - c.tunnel.Began,
		Received: c.tunnel.Client.Got, Sent: c.tunnel.Up.Got, Name: c.name, Result: string(c.result),
		TLSVersion: c.version, CipherSuite: c.suite}
	e.Upstream, e.Connect, _ = c.lease.Timing()
	e.Key, e.Limit = c.port.service.set.limit(c.result)
	c.port.service.set.AccessLog.LogConnection(l, &e)
}

// noteTLS notes the version and the cipher suite of the client's TLS.
func (c *connection) noteTLS(s tls.ConnectionState) {
	c.name, c.version, c.suite = strings.ToLower(s.ServerName), s.Version, s.CipherSuite
}
