// Package handshake runs TLS handshakes off the loops, and lets peers take turns.
//
//	handshake.go  Accept, Dial: a handshake on a goroutine of its own
//	slots.go      Slots: how many handshakes compute at a time, and which is next
package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/loop"
)

// ChallengeProtocol is the protocol by which an authority verifies a name. A connection with it has
// a handshake and nothing else, and no request may follow (RFC 8737 section 3): for example, the
// client has not shown the certificate that others must show.
const ChallengeProtocol = "acme-tls/1"

// Accept runs the handshake of c, a server's connection, on a goroutine of its own, and does its
// input and output until it has ended. t, the calling thread, waits meanwhile, and its loop goes
// on: a full handshake computes for as long as 30 requests, and a callback of the configuration may
// wait for something.
//
// peer is the address that takes turns with others. c reads and writes on *below, which Accept
// sets; the caller sets it again when the handshake has succeeded. The thread reads and writes on
// over, whose calls may wait and which has the caller's limits. Accept gives up at the time until,
// or later by as much as the handshake has waited for slots; for that it sets over's deadline of
// reads anew.
//
// ended says that the handshake has ended by itself. If it is false, the error is one of input,
// output or a wait, and the caller must not use c and *below any more.
func Accept(
	t *loop.Thread, peer netip.Addr, c *tls.Conn, below *net.Conn, over net.Conn, until time.Time,
) (ended bool, err error) {
	// What the client sends right before it closes its sending half may be a request.
	defer t.KeepWaiting(t.KeepWaiting(true))
	return run(t, peer, c, below, over, until, true)
}

// Dial is Accept for a client's connection. The waits end as those of t do.
func Dial(
	t *loop.Thread, peer netip.Addr, c *tls.Conn, below *net.Conn, over net.Conn, until time.Time,
) (ended bool, err error) {
	return run(t, peer, c, below, over, until, false)
}

func run(
	t *loop.Thread, peer netip.Addr, c *tls.Conn, below *net.Conn, over net.Conn, until time.Time,
	isServer bool,
) (ended bool, err error) {
	began := t.Loop().Time()
	ctx, leave := context.WithCancel(context.Background())
	defer leave() // also when the thread is killed
	n := &negotiation{isServer: isServer,
		local: over.LocalAddr(), remote: over.RemoteAddr(),
		done: ctx, input: make(chan int, 1), paused: new(loop.Promise[struct{}]),
	}
	defer func() {
		if 2*n.waited > until.Sub(began) && errors.Is(err, os.ErrDeadlineExceeded) {
			err = ErrNoSlot
		}
	}()
	*below = n
	begin := func() { go n.run(c) }
	for hello := true; ; hello = false {
		before := n.waited
		if err := n.compute(t, peer, begin, hello, until); err != nil {
			return false, err
		}
		if isServer && n.waited > before { // the client is not to blame for that time
			until = until.Add(n.waited - before)
			_ = over.SetReadDeadline(until)
		}
		if len(n.out) > 0 {
			// The error of the handshake is more telling than that of an alert which cannot be sent.
			if _, err := over.Write(n.out); err != nil && (!n.ended || n.err == nil) {
				return false, err
			}
			n.out = n.out[:0]
		}
		if n.ended {
			return true, n.err
		}
		k, err := over.Read(n.room)
		if err != nil {
			return false, err
		}
		n.paused = new(loop.Promise[struct{}])
		begin = func() { n.input <- k }
	}
}

// negotiation is a handshake off the loop, and the net.Conn below it. Its fields belong to the
// handshake's goroutine while the handshake computes, and to the thread while it is paused.
type negotiation struct {
	isServer      bool
	local, remote net.Addr

	done   context.Context // done when the thread no longer waits for the handshake
	closed atomic.Bool     // by a callback

	paused *loop.Promise[struct{}] // settled when the handshake wants input, or has ended
	room   []byte                  // where the goroutine wants input
	input  chan int                // how many bytes of room the thread has filled
	out    []byte                  // to be sent
	ended  bool
	err    error

	waited time.Duration // for slots
}

// run is the goroutine. After the thread has given up, it ends at its next Read.
func (n *negotiation) run(c *tls.Conn) {
	n.err = loop.ErrExited
	defer func() {
		if p := recover(); p != nil {
			n.err = &loop.PanicError{Value: p, Stack: debug.Stack()}
		}
		n.ended = true
		n.paused.Resolve(struct{}{})
	}()
	n.err = c.HandshakeContext(n.done)
	if n.isServer && n.err != nil && n.err.Error() == noCertificates {
		n.err = noCertificateFor(c.ConnectionState().ServerName)
	}
}

// noCertificates is the text of the error of crypto/tls for a configuration without a certificate.
// It sends the alert unrecognized_name (RFC 6066 section 3) only with that very error, which it
// does not export, so a function of a configuration cannot refuse a name with an error of its own.
const noCertificates = "tls: no certificates configured"

// noCertificateFor returns an error with the name that the client has sent and for which there is
// no certificate. The name is escaped and cut, since the client chooses its bytes and its length.
func noCertificateFor(sni string) error {
	if sni == "" {
		return errors.New("tls: no certificate for a client that asks for no name (SNI)")
	}
	const longest = 64
	more := ""
	if len(sni) > longest {
		sni, more = strings.ToValidUTF8(sni[:longest], ""), "..."
	}
	return fmt.Errorf("tls: no certificate for the name that the client asks for: %+q%s", sni, more)
}

// Read implements net.Conn.
func (n *negotiation) Read(p []byte) (int, error) {
	if n.closed.Load() {
		return 0, net.ErrClosed
	}
	n.room = p
	n.paused.Resolve(struct{}{})
	select {
	case k := <-n.input:
		return k, nil
	case <-n.done.Done():
		return 0, net.ErrClosed
	}
}

// Write implements net.Conn.
func (n *negotiation) Write(p []byte) (int, error) {
	n.out = append(n.out, p...)
	return len(p), nil
}

// Close implements net.Conn. The handshake fails at its next Read.
func (n *negotiation) Close() error {
	n.closed.Store(true)
	return nil
}

// LocalAddr implements net.Conn.
func (n *negotiation) LocalAddr() net.Addr { return n.local }

// RemoteAddr implements net.Conn.
func (n *negotiation) RemoteAddr() net.Addr { return n.remote }

// SetDeadline implements net.Conn. The time of a handshake is limited by its caller.
func (n *negotiation) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline implements net.Conn, like SetDeadline.
func (n *negotiation) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline implements net.Conn, like SetDeadline.
func (n *negotiation) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
