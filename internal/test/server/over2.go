package server

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/wire/http2"
)

// over2 is a connection that takes requests of HTTP/1.1, sends them by HTTP/2, and gives what is
// answered in the form of HTTP/1.1. So a test of what handlers do runs over both. It sends one
// request after the other, and fails a test that sends what no request of HTTP/2 can say: such a
// test is one of HTTP/1.1 alone.
//
// A WebSocket's handshake becomes an extended CONNECT (RFC 8441). A stream that was reset is a
// connection that has ended too early.
type over2 struct {
	net.Conn
	t      testing.TB
	scheme string

	mu      sync.Mutex
	changed sync.Cond // anything below

	in      []byte // written by the test, and not sent yet
	preface []byte // of the client, not sent yet
	started bool
	noMore  bool // the test has ended its sending half
	closed  bool // or all

	out     []byte // for the test
	content int    // how much of that is content which the client has not announced to have taken
	end     error  // behind out; nil: more may come

	readBy, writeBy time.Time

	dec       http2.Decoder
	block     []byte
	blockEnds bool
	window    int64 // of the connection
	newWindow int64 // of a stream, at first
	id        uint32

	// The present request.
	sending   sending
	left      int64 // of its content, or of a chunk
	window1   int64 // of its stream
	method    string
	key       string // of a WebSocket's handshake
	last      bool   // the connection ends with the answer
	answering answering
}

// sending is what is expected of the test.
type sending uint8

const (
	sendsHead sending = iota
	sendsLength
	sendsChunks
	sendsBytes // of a WebSocket
	sendsRest  // of content that the server does not want
	sent
)

// answering is what is expected of the server.
type answering uint8

const (
	nothing answering = iota
	answerHead
	answerLength // or as many bytes as there are
	answerChunks
)

// Over2 returns a connection of HTTP/2 on c, a test's own, that takes one request of HTTP/1.1 after
// the other, and gives what is answered in the form of HTTP/1.1.
func Over2(t testing.TB, c net.Conn) net.Conn { return newOver2(t, c) }

// newOver2 returns a connection of HTTP/2 on c.
func newOver2(t testing.TB, c net.Conn) *over2 {
	o := &over2{Conn: c, t: t, scheme: "http", id: ^uint32(0), window: http2.DefaultWindow,
		newWindow: http2.DefaultWindow}
	o.changed.L = &o.mu
	if _, ok := c.(*tls.Conn); ok {
		o.scheme = "https"
	}
	return o
}

// start begins to read, and the client's preface goes out with the first frame: between the two the
// connection would be idle. The caller holds the lock.
func (o *over2) start() {
	if o.started {
		return
	}
	o.started = true
	hello := http2.AppendHeader([]byte(http2.Preface), http2.SettingsFrame, 0, 0, 6)
	o.preface = http2.AppendSetting(hello, http2.EnablePush, 0)
	go o.receive()
}

// NetConn returns the connection below.
func (o *over2) NetConn() net.Conn { return o.Conn }

// Write implements net.Conn.
func (o *over2) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.start()
	for len(o.in) > 64<<10 && o.end == nil && !o.closed {
		if !o.await(o.writeBy) {
			return 0, os.ErrDeadlineExceeded
		}
	}
	if o.end != nil || o.closed {
		return 0, net.ErrClosed
	}
	o.in = append(o.in, p...)
	o.send()
	o.sendPreface()
	return len(p), nil
}

// Read implements net.Conn.
func (o *over2) Read(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.start()
	o.sendPreface()
	for len(o.out) == 0 {
		if o.closed {
			return 0, net.ErrClosed
		}
		if o.end != nil {
			return 0, o.end
		}
		if !o.await(o.readBy) {
			return 0, os.ErrDeadlineExceeded
		}
	}
	n := copy(p, o.out)
	if o.out = o.out[n:]; o.content >= 16<<10 && len(o.out) < 16<<10 {
		o.take()
	}
	return n, nil
}

// take gives the server credit for what was read.
func (o *over2) take() {
	n := uint32(o.content)
	o.content = 0
	b := http2.AppendWindowUpdate(nil, 0, n)
	if o.answering != nothing {
		b = http2.AppendWindowUpdate(b, o.id, n)
	}
	o.frame(b)
}

// await waits for a change, and reports whether there is time left.
func (o *over2) await(by time.Time) bool {
	if by.IsZero() {
		o.changed.Wait()
		return true
	}
	left := time.Until(by)
	if left <= 0 {
		return false
	}
	timer := time.AfterFunc(left, func() {
		o.mu.Lock()
		o.changed.Broadcast()
		o.mu.Unlock()
	})
	o.changed.Wait()
	timer.Stop()
	return true
}

// SetDeadline implements net.Conn.
func (o *over2) SetDeadline(by time.Time) error {
	_ = o.SetReadDeadline(by)
	return o.SetWriteDeadline(by)
}

// SetReadDeadline implements net.Conn.
func (o *over2) SetReadDeadline(by time.Time) error { return o.setDeadline(&o.readBy, by) }

// SetWriteDeadline implements net.Conn.
func (o *over2) SetWriteDeadline(by time.Time) error { return o.setDeadline(&o.writeBy, by) }

func (o *over2) setDeadline(at *time.Time, by time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	*at = by
	o.changed.Broadcast()
	return nil
}

// Close implements net.Conn.
func (o *over2) Close() error {
	o.mu.Lock()
	o.closed = true
	o.changed.Broadcast()
	o.mu.Unlock()
	return o.Conn.Close()
}

// CloseWrite says that no other request follows. A client of HTTP/2 that has ended its sending half
// wants no answers any more, so the connection below stays whole until there are none to come.
func (o *over2) CloseWrite() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noMore = true
	o.send()
	return nil
}

// sendPreface sends the preface if no frame has gone out that it would have gone with.
func (o *over2) sendPreface() {
	if len(o.preface) > 0 {
		o.frame(nil)
	}
}

// frame sends frames.
func (o *over2) frame(b []byte) {
	if len(o.preface) > 0 {
		b, o.preface = append(o.preface, b...), nil
	}
	_, _ = o.Conn.Write(b) // receive finds what is wrong
}

// send sends what was written, as far as it may go out.
func (o *over2) send() {
	for o.end == nil {
		before, state := len(o.in), o.sending
		switch o.sending {
		case sendsHead:
			if n := bytes.Index(o.in, []byte("\r\n\r\n")); n >= 0 {
				o.begin(string(o.in[:n]))
				o.in = o.in[n+4:]
			} else if o.noMore {
				o.finish(io.EOF)
			}
		case sendsLength:
			n := o.data(o.in[:min(int64(len(o.in)), o.left)], true)
			if o.left -= int64(n); o.left == 0 && o.sending == sendsLength {
				o.sending = sent
			}
			o.in = o.in[n:]
		case sendsChunks:
			o.sendChunks()
		case sendsBytes:
			o.in = o.in[o.data(o.in, false):]
		case sendsRest:
			o.in = nil
		}
		if o.noMore && o.sending != sent && o.sending != sendsHead && len(o.in) == 0 {
			o.sending = sent
			o.frame(http2.AppendReset(nil, o.id, http2.Cancel)) // the request is cut
			o.finish(io.EOF)
		}
		if len(o.in) == before && o.sending == state {
			break
		}
	}
	o.changed.Broadcast()
}

// finish ends what the test can read, and the connection.
func (o *over2) finish(err error) {
	if o.end == nil {
		o.end = err
		o.Conn.Close()
	}
	o.changed.Broadcast()
}
