package conn

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"reflect"
	"time"
	"unsafe"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/stream"
)

// transport is the net.Conn below the connection's tls.Conn: the stream of the turn that serves the
// connection, or after a hijack the one that the handler owns.
type transport struct {
	net.Conn // nil while the connection is idle
	hijacked bool

	version, cipher uint16 // what was agreed on, for the access log
	http2           bool   // and that the connection speaks it
	sni             string // with HTTP/2: the name that the client has asked for,
	host            string // and another that was found to be for no other certificate,
	hostFor         *settings
}

// transport returns the net.Conn below c.tls.
func (c *connection) transport() *transport { return c.tls.NetConn().(*transport) }

// clientVerify is RequestLayer.ClientVerify.
func (c *connection) clientVerify() string {
	if c.tls == nil {
		return ""
	}
	if verify := c.port.ClientVerify; verify != nil {
		return verify(c.tls)
	}
	switch state := c.tls.ConnectionState(); {
	case len(state.VerifiedChains) > 0:
		return "SUCCESS"
	case len(state.PeerCertificates) > 0:
		return "FAILED:not verified"
	}
	return ""
}

// clientCertificate is RequestLayer.ClientCertificate.
func (c *connection) clientCertificate() *x509.Certificate {
	if c.tls != nil {
		if state := c.tls.ConnectionState(); len(state.PeerCertificates) > 0 {
			return state.PeerCertificates[0]
		}
	}
	return nil
}

// attach puts TLS on the stream of a turn or a session, whose reads do not wait from now on.
// turn.read waits instead, after it has sent what the client may be waiting for.
func (t *transport) attach(s *stream.Conn) {
	if !t.hijacked {
		s.SetNoWait(true)
		t.Conn = s
	}
}

func (t *transport) detach() {
	if !t.hijacked {
		t.Conn = nil
	}
}

// SetWriteDeadline does not change the limits of a turn: crypto/tls gives its last record five
// seconds, and a slow client may need longer to make room for it.
func (t *transport) SetWriteDeadline(by time.Time) error {
	if !t.hijacked {
		return nil
	}
	return t.Conn.SetWriteDeadline(by)
}

// BeforeEnd is called by the loop before it closes the connection, which is idle. A TLS client is
// told, as closeTLS does it, if its socket has room.
func (c *connection) BeforeEnd() {
	if c.tls == nil || c.transport().hijacked {
		return
	}
	t := c.transport()
	t.Conn = sysio.SendOnly{FD: c.FD()}
	_ = c.tls.CloseWrite()
	t.Conn = nil
}

// A tls.Conn keeps the buffers in which it reads records and the messages of the handshake as large
// as they have ever been, for as long as it lives. A ClientHello of today makes them 3.5 KB, half
// of what an idle connection takes, and one full record makes one of them 16 KB. crypto/tls has no
// way to give them up. So slimTLS replaces them by Buffers with the same bytes, as a rule none:
// crypto/tls cannot tell the difference. Where a later version of it has no such fields, a test
// says so, and nothing is replaced.

// tlsBuffers are the offsets of the buffers in a tls.Conn.
var tlsBuffers = func() (offsets []uintptr) {
	for _, name := range []string{"rawInput", "hand"} {
		f, ok := reflect.TypeFor[tls.Conn]().FieldByName(name)
		if ok && f.Type == reflect.TypeFor[bytes.Buffer]() {
			offsets = append(offsets, f.Offset)
		}
	}
	return offsets
}()

// slimTLS gives up what those buffers of c that are larger than most have beyond their bytes. No
// call of c may be under way.
func slimTLS(c *tls.Conn, most int) {
	for _, at := range tlsBuffers {
		b := (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), at))
		switch {
		case b.Cap() <= most:
		case b.Len() == 0:
			*b = bytes.Buffer{}
		default: // a request that came with the end of the handshake
			*b = *bytes.NewBuffer(bytes.Clone(b.Bytes()))
		}
	}
}

// heldTLS reports whether c has read a part of a record, or of a handshake's message. No call of c
// may be under way.
func heldTLS(c *tls.Conn) bool {
	for _, at := range tlsBuffers {
		if (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), at)).Len() > 0 {
			return true
		}
	}
	return false
}

// readAllTLS reports whether c has nothing left of the records that it has read, if its last Read
// had more room than it needed. No call of c may be under way.
func readAllTLS(c *tls.Conn) bool { return len(tlsBuffers) == 2 && !heldTLS(c) }

// readTLS reads from a connection whose stream does not wait.
func readTLS(c *tls.Conn, p []byte) (int, error) {
	n, err := c.Read(p)
	return n, readTLSError(n, err)
}

// readTLSError is the error of a read of n bytes, by what crypto/tls says of it.
func readTLSError(n int, err error) error {
	if n > 0 {
		return nil // the next read returns an error that came with it
	}
	if err == stream.ErrWouldBlock { // the usual end of a read
		return err
	}
	var below *net.OpError // the stream's
	if errors.As(err, &below) {
		err = below.Err
	}
	return err
}
