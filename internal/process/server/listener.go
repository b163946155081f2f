package server

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/internal/process/tcpproxy"
	"github.com/lwango/lwango/internal/tls/certs"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// listener is an address at which the server listens.
type listener struct {
	conn.Listener // for each loop, without FD; its TLS asks certs
	socket        *sockets.Socket
	listening     listening
	certs         atomic.Pointer[certs.Offer] // in force

	// By loop. A loop owns its entry once it serves the listener.
	given   [][]int // duplicates of the socket's descriptors
	handles [][]*loop.Listener
}

// listening is what stays of the configuration that has made a listener, for as long as it listens,
// over any number of reloads.
type listening struct {
	given   net.Listener                           // of a program
	stream  *tcpproxy.Service                      // of a [[stream]]
	streams func(*loop.Thread, *stream.Conn) error // of a program, and for how long one may be idle
	idle    time.Duration
}

// newListener duplicates the descriptors of sock for n loops; if it fails, sock is closed.
func newListener(sock *sockets.Socket, lc config.Listener, n int,
	obtainer *certs.Obtainer) (*listener, error) {
	l := &listener{socket: sock, listening: listening{lc.Given, lc.Stream, lc.Streams, lc.Idle},
		given:   make([][]int, n),
		handles: make([][]*loop.Listener, n)}
	l.Listener = conn.Listener{Name: lc.Address.ListenerName(), Terms: new(atomic.Uint32),
		HTTP2:        lc.HTTP2,
		Misdirected:  func(sni, host string) bool { return l.certs.Load().Misdirected(sni, host) },
		ClientVerify: func(c *tls.Conn) string { return l.certs.Load().ClientVerify(c) }}
	if lc.TLS.Config != nil {
		l.certs.Store(lc.TLS.Offer())
		l.TLS = obtainer.ListenerConfig(&l.certs)
	}
	for i := range n {
		var err error
		if l.given[i], err = sock.ForLoop(i, n); err != nil {
			l.discard()
			return nil, err
		}
	}
	return l, nil
}

// like reports whether both serve the same: HTTP or the same kind of streams, both with TLS or both
// without.
func (l *listener) like(o *listener) bool {
	a, b := &l.listening, &o.listening
	return (l.TLS == nil) == (o.TLS == nil) && (a.stream == nil) == (b.stream == nil) &&
		(a.streams == nil) == (b.streams == nil)
}

// discard closes the descriptors that no loop has taken over.
func (l *listener) discard() {
	for _, fds := range l.given {
		sockets.CloseAll(fds)
	}
	l.socket.Close()
}

// certsInterval is how often a server checks the files of its certificates, and warnInterval how
// often it logs which of them expire.
const (
	certsInterval = time.Minute
	warnInterval  = 24 * time.Hour
)

// warnOfCerts logs the warnings of all certificates.
func (s *server) warnOfCerts(now time.Time) {
	s.warned = now
	for _, c := range s.config.Certs().Warnings(now) {
		c.Warn(s.own)
	}
}

// renewCerts puts certificates whose files have changed into force for the next handshakes. Where
// certificates of clients were revoked, the present connections end, since one of them may have
// such a certificate.
func (s *server) renewCerts(now time.Time) {
	outdated := false
	for i := range s.config.Listeners {
		lc := &s.config.Listeners[i]
		l := s.listeners[lc.Address] // nil: a new process has it
		renewed, stricter := lc.TLS.Renew(now, s.own)
		if renewed && l != nil {
			l.certs.Store(lc.TLS.Offer())
		}
		if renewed {
			s.observed.certify(s.config)
		}
		if stricter && l != nil {
			s.outdate(l)
			outdated = true
		}
	}
	if outdated {
		s.onLoops(func(i int) { s.conn.Outdate(s.loops[i]) })
	}
	if now.Sub(s.warned) >= warnInterval {
		s.warnOfCerts(now)
	}
}

// notePorts gives c the ports of its listeners. added are listeners that s.listeners lacks or has
// with older sockets.
func (s *server) notePorts(c *config.Config, added map[sockets.Address]*listener) {
	c.Ports = map[sockets.Address]int{}
	for _, lc := range c.Listeners {
		l := added[lc.Address]
		if l == nil {
			l = s.listeners[lc.Address]
		}
		if l != nil {
			c.Ports[lc.Address] = l.socket.Port()
		}
	}
}
