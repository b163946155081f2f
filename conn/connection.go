package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
)

// connection is the record of one client. An idle client costs nothing else, so every field counts
// thousands of times: what it needs while it is served belongs to turn.
type connection struct {
	loop.Thread
	port   *port
	turn   *turn     // nil while idle, and when a handler has taken the connection over
	tls    *tls.Conn // nil: plain, or before the handshake
	remote peer

	admission     admissionState
	state         state
	localNumber   uint8 // see localAddr; 0: nothing has asked yet
	logGeneration uint8 // with logUsed: its Share of the access log
	logUsed       uint16
}

// state is what has become of a connection, in bits.
type state uint8

const (
	served  state = 1 << iota // a request has come
	named                     // the header of the PROXY protocol has come
	secured                   // and it says that the client uses TLS, which the proxy has ended
	headed                    // part of a proxyConnection, see proxyHeader; never changes

	firstAgreed = iota // the bits from here on have the mark of the terms that the client has met
)

// IdleTimedOut is called by the loop when the idle time is over. A client that has not taken all of
// its answers yet is not idle. If the server closed the connection now, the kernel would hold up to
// megabytes for a client that does not read, and the server would not count that connection any
// more. If a request arrived then, the kernel would answer with a reset, which takes the rest of
// the answers away. So the connection stays while the client takes its answers as fast as
// write_timeout and min_rate demand.
func (c *connection) IdleTimedOut() time.Duration {
	set := c.port.server.settings.Load()
	left := c.Thread.Layer().Descriptor().Unsent()
	if left == 0 {
		return 0
	}
	before, again := c.port.untaken[c]
	c.port.untaken[c] = left
	if !again {
		return set.WriteTimeout
	}
	if taken := float64(before - left); taken > 0 &&
		taken >= float64(set.MinRate)*set.WriteTimeout.Seconds() {
		return set.WriteTimeout
	}
	c.resetOnClose()
	return 0
}

// resetOnClose makes the connection end with a reset, which drops what the client has not taken.
func (c *connection) resetOnClose() { sysio.ResetOnClose(c.FD()) }

// withStack returns the attributes of a log line about err. If that is a panic of another thread or
// goroutine, they have its stack.
func withStack(err error) []any {
	attributes := []any{"error", err}
	if e, ok := errors.AsType[*loop.PanicError](err); ok {
		attributes = append(attributes, "stack", string(e.Stack))
	}
	return attributes
}

func (c *connection) server() *Server { return c.port.server }

// locals are the addresses of the machine that clients of one port have connected to. Most machines
// have a few, so the record of a connection needs one byte for its own. A function that a handler
// has left to a worker may ask, too; therefore the lock.
type locals struct {
	mu  sync.Mutex
	all []netip.AddrPort
}

// number returns the number of an address, from 1 on; 0 if there are too many addresses.
func (l *locals) number(a netip.AddrPort) uint8 {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.all, a)
	if i < 0 && len(l.all) < 255 {
		i = len(l.all)
		l.all = append(l.all, a)
	}
	return uint8(i + 1)
}

func (l *locals) of(number uint8) netip.AddrPort {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[number-1]
}

// localAddr returns the address that the client, or the proxy in front of it, has connected to. If
// the listener is bound to all addresses of the machine, the kernel is asked, once.
func (c *connection) localAddr() netip.AddrPort {
	p := c.port
	switch {
	case !p.wildcard:
		return p.local
	case c.localNumber > 0:
		return p.locals.of(c.localNumber)
	}
	a := loop.LocalAddr(c.FD())
	if a.IsValid() {
		c.localNumber = p.locals.number(a)
	}
	return a
}

// proxyConnection is the record of a connection that begins with a header of the PROXY protocol, or
// of a request without a connection of its own (Copy). Others do not pay for it.
type proxyConnection struct {
	connection // first, see proxyHeader

	// Set before any request, by readProxyHeader or by Copy.Start.
	known bool // there are addresses; remote is the client's then, and not the peer's
	local peer // the address that the client connected to

	original *originalClient // nil: the PROXY protocol
}

// originalClient is what a request without a connection of its own has of the request that it
// copies.
type originalClient struct {
	ctx context.Context      // its values are those of the other request's
	tls *tls.ConnectionState // of the client's connection; nil: plain
}

// proxyHeader returns c as what it is a part of; nil: there is no header to come and has been none.
func (c *connection) proxyHeader() *proxyConnection {
	if c.state&headed == 0 {
		return nil
	}
	return (*proxyConnection)(unsafe.Pointer(c)) // newConnection has made both in one piece
}

// admissionState is how a connection is counted.
type admissionState uint8

const (
	admitted admissionState = iota // among the active ones
	counted                        // among these, and among those of its network
	refused                        // among those that linger behind a 503, see turnAway
)

// peer is where a client comes from. It takes little more than half of the bytes of a
// netip.AddrPort, since every idle connection pays for it. All zeroes: a UNIX socket.
type peer struct {
	addr [16]byte
	port uint16
}

func peerOf(a netip.AddrPort) peer {
	if !a.IsValid() {
		return peer{}
	}
	return peer{a.Addr().As16(), a.Port()}
}

func (p peer) valid() bool { return p != peer{} }

func (p peer) addrPort() netip.AddrPort {
	if !p.valid() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(netip.AddrFrom16(p.addr).Unmap(), p.port)
}
