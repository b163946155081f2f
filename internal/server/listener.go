package server

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/lwango/lwango/internal/sockets"
	"github.com/lwango/lwango/loop"
)

// listener is one address that is listened to.
type listener struct {
	name   string // its address, which a reload does not change
	socket *sockets.Socket
	config listenerConfig
	tls    *tls.Config                 // of conn, which asks certs; nil without TLS
	certs  *atomic.Pointer[tls.Config] // exchanged by a reload; nil without TLS
	terms  *atomic.Uint32              // see conn.Listener; the same for all that use the sockets

	// By loop. Each entry is its loop's from the time that it serves the listener.
	given   [][]int // duplicates of the socket's descriptors
	handles [][]*loop.Listener
}

// newListener duplicates the descriptors of sock for n loops; if it fails, sock is closed.
func newListener(sock *sockets.Socket, lc listenerConfig, n int, ch *challenges) (*listener, error) {
	l := &listener{name: lc.Address.String(), socket: sock, config: lc, terms: new(atomic.Uint32),
		given: make([][]int, n), handles: make([][]*loop.Listener, n)}
	if lc.TLS != nil {
		certs := new(atomic.Pointer[tls.Config])
		certs.Store(lc.TLS)
		l.certs = certs
		// The outer configuration stays, and with it the keys of session tickets: a reload costs no
		// client its session.
		current := func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if answer := ch.config(hello); answer != nil {
				return answer, nil
			}
			c := certs.Load()
			if c.GetConfigForClient == nil {
				return c, nil
			}
			own, err := c.GetConfigForClient(hello)
			if own == nil && err == nil {
				own = c
			}
			return onlyHTTP1(own), err
		}
		l.tls = &tls.Config{GetConfigForClient: current}
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

// discard closes the descriptors that no loop has taken over.
func (l *listener) discard() {
	for _, fds := range l.given {
		sockets.CloseAll(fds)
	}
	l.socket.Close()
}
