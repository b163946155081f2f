package server

import (
	"bytes"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/http2"
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

// newOver2 returns a connection of HTTP/2 on c.
func newOver2(t testing.TB, c net.Conn) *over2 {
	o := &over2{Conn: c, t: t, scheme: "http", id: ^uint32(0), window: http2.Window, newWindow: http2.Window}
	o.changed.L = &o.mu
	if _, ok := c.(*tls.Conn); ok {
		o.scheme = "https"
	}
	return o
}

// start sends the client's preface and begins to read. The caller holds the lock.
func (o *over2) start() {
	if o.started {
		return
	}
	o.started = true
	hello := http2.AppendHeader([]byte(http2.Preface), http2.SettingsFrame, 0, 0, 6)
	o.frame(http2.AppendSetting(hello, http2.EnablePush, 0))
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
	return len(p), nil
}

// Read implements net.Conn.
func (o *over2) Read(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.start()
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

// frame sends frames.
func (o *over2) frame(b []byte) {
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

// begin sends the head of a request.
func (o *over2) begin(head string) {
	lines := strings.Split(strings.TrimLeft(head, "\r\n"), "\r\n")
	request := strings.Split(lines[0], " ")
	if len(request) != 3 || request[2] != "HTTP/1.1" {
		o.cannot(lines[0])
		return
	}
	o.method, o.key, o.last = request[0], "", false
	o.left = 0
	var fields, host []byte
	chunked, protocol := false, ""
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if value = strings.Trim(value, " \t"); !ok || name == "" || strings.ContainsAny(line, "\r\n\x00") {
			o.cannot(line)
			return
		}
		switch strings.ToLower(name) {
		case "host":
			host = []byte(value)
		case "connection":
			o.last = o.last || strings.Contains(strings.ToLower(value), "close")
		case "keep-alive", "proxy-connection":
		case "transfer-encoding":
			chunked = true
		case "upgrade":
			protocol = value
		case "sec-websocket-key":
			o.key = value
		case "content-length":
			o.left, _ = strconv.ParseInt(value, 10, 64)
			fields = http2.AppendField(fields, name, value)
		default:
			fields = http2.AppendField(fields, name, value)
		}
	}
	pseudo := func(b []byte, name, value string) []byte {
		b = append(b, 0, byte(len(name)))
		b = append(b, name...)
		return appendText(b, value)
	}
	method := o.method
	if o.key != "" && protocol == "websocket" {
		method = "CONNECT"
	} else {
		protocol = ""
	}
	block := pseudo(nil, ":method", method)
	block = pseudo(block, ":scheme", o.scheme)
	block = pseudo(block, ":path", request[1])
	if host != nil {
		block = pseudo(block, ":authority", string(host))
	}
	if protocol != "" {
		block = pseudo(block, ":protocol", protocol)
	} else {
		o.key = ""
	}
	block = append(block, fields...)
	flags := uint8(0)
	switch {
	case protocol != "":
		o.sending = sendsBytes
	case chunked:
		o.sending = sendsChunks
	case o.left > 0:
		o.sending = sendsLength
	default:
		o.sending, flags = sent, http2.EndStream
	}
	o.id += 2
	o.window1, o.answering = o.newWindow, answerHead
	kind, all := http2.Headers, []byte(nil)
	for {
		n := min(len(block), http2.FrameSize)
		if n == len(block) {
			flags |= http2.EndHeaders
		}
		all = append(http2.AppendHeader(all, kind, flags, o.id, n), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			break
		}
		kind, flags = http2.Continuation, 0
	}
	o.frame(all)
}

func appendText(b []byte, s string) []byte {
	n := len(s)
	if n < 127 {
		b = append(b, byte(n))
	} else {
		b = append(b, 127)
		for n -= 127; n >= 0x80; n >>= 7 {
			b = append(b, byte(n)|0x80)
		}
		b = append(b, byte(n))
	}
	return append(b, s...)
}

// data sends content as the windows allow it, and returns how much. ends: the stream ends when
// o.left bytes have gone.
func (o *over2) data(p []byte, ends bool) (done int) {
	for done < len(p) {
		n := int(min(int64(len(p)-done), http2.FrameSize, o.window, o.window1))
		if n <= 0 {
			break
		}
		flags := uint8(0)
		if ends && int64(done+n) == o.left {
			flags = http2.EndStream
		}
		b := http2.AppendHeader(nil, http2.Data, flags, o.id, n)
		o.frame(append(b, p[done:done+n]...))
		o.window, o.window1 = o.window-int64(n), o.window1-int64(n)
		done += n
	}
	return done
}

// sendChunks sends content that the test has sent in chunks.
func (o *over2) sendChunks() {
	for len(o.in) > 0 {
		if o.left > 0 { // of a chunk and the end of its last line
			n := min(int64(len(o.in)), o.left)
			if o.left > 2 {
				n = int64(o.data(o.in[:min(n, o.left-2)], false))
			}
			if n == 0 {
				return
			}
			o.in, o.left = o.in[n:], o.left-n
			continue
		}
		line, _, whole := strings.Cut(string(o.in[:min(len(o.in), 4<<10)]), "\r\n")
		if !whole {
			return
		}
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseInt(strings.TrimSpace(size), 16, 64)
		if err != nil {
			o.cannot(line)
			return
		}
		if n > 0 {
			o.in, o.left = o.in[len(line)+2:], n+2
			continue
		}
		trailer, _, whole := strings.Cut(string(o.in[len(line):]), "\r\n\r\n")
		if !whole {
			return
		}
		o.in = o.in[len(line)+len(trailer)+4:]
		o.sending = sent
		if trailer == "" {
			o.frame(http2.AppendHeader(nil, http2.Data, http2.EndStream, o.id, 0))
			return
		}
		var block []byte
		for l := range strings.SplitSeq(trailer[2:], "\r\n") {
			name, value, _ := strings.Cut(l, ":")
			block = http2.AppendField(block, name, strings.Trim(value, " \t"))
		}
		o.frame(append(http2.AppendHeader(nil, http2.Headers, http2.EndHeaders|http2.EndStream, o.id, len(block)), block...))
		return
	}
}

// cannot fails a test that is not one for HTTP/2.
func (o *over2) cannot(what string) {
	o.t.Errorf("HTTP/2 cannot say %q", what)
	o.finish(io.EOF)
}

// finish ends what the test can read, and the connection.
func (o *over2) finish(err error) {
	if o.end == nil {
		o.end = err
		o.Conn.Close()
	}
	o.changed.Broadcast()
}

// receive acts on the server's frames until the connection ends.
func (o *over2) receive() {
	r := o.Conn
	var head [http2.HeaderSize]byte
	for {
		_, err := io.ReadFull(r, head[:])
		var payload []byte
		h := http2.ParseHeader(head[:])
		if err == nil {
			payload = make([]byte, h.Length)
			_, err = io.ReadFull(r, payload)
		}
		o.mu.Lock()
		if err != nil {
			if err == io.ErrUnexpectedEOF {
				err = io.EOF
			}
			if o.end == nil {
				o.end = err
			}
			o.changed.Broadcast()
			o.mu.Unlock()
			return
		}
		o.act(h, payload)
		o.changed.Broadcast()
		o.mu.Unlock()
	}
}

func (o *over2) act(h http2.Header, payload []byte) {
	mine := h.Stream == o.id && o.answering != nothing
	switch h.Type {
	case http2.SettingsFrame:
		if h.Flags&http2.Ack != 0 {
			return
		}
		for ; len(payload) >= 6; payload = payload[6:] {
			if http2.Setting(payload[0])<<8|http2.Setting(payload[1]) == http2.InitialWindowSize {
				value := int64(http2.Uint32(payload[2:]))
				o.window1 += value - o.newWindow
				o.newWindow = value
			}
		}
		o.frame(http2.AppendHeader(nil, http2.SettingsFrame, http2.Ack, 0, 0))
		o.send()
	case http2.WindowUpdate:
		n := int64(http2.Uint32(payload))
		if h.Stream == 0 {
			o.window += n
		} else if h.Stream == o.id {
			o.window1 += n
		}
		o.send()
	case http2.Ping:
		if h.Flags&http2.Ack == 0 {
			o.frame(append(http2.AppendHeader(nil, http2.Ping, http2.Ack, 0, 8), payload...))
		}
	case http2.GoAway:
		o.last = true
		if o.answering == nothing {
			o.finish(io.EOF)
		}
	case http2.RSTStream:
		if h.Stream != o.id {
			return
		}
		if o.answering == nothing { // the rest of the request is not wanted
			if o.sending != sent && o.sending != sendsHead {
				o.sending = sendsRest
				o.finish(io.EOF)
			}
			return
		}
		o.finish(io.EOF)
	case http2.Data:
		if !mine {
			o.content += len(payload)
			return
		}
		o.content += int(h.Length)
		if o.answering == answerChunks && len(payload) > 0 {
			o.out = fmt.Appendf(o.out, "%x\r\n%s\r\n", len(payload), payload)
		} else {
			o.out = append(o.out, payload...)
		}
		if h.Flags&http2.EndStream != 0 {
			o.answered(nil)
		}
	case http2.Headers, http2.Continuation:
		if h.Type == http2.Headers {
			o.blockEnds = h.Flags&http2.EndStream != 0
			o.block = o.block[:0]
		}
		if o.block = append(o.block, payload...); h.Flags&http2.EndHeaders != 0 {
			o.fields(mine)
		}
	}
}

// fields acts on a field block.
func (o *over2) fields(mine bool) {
	var f http2.Fields
	f.Reset(1 << 20)
	if err := o.dec.Decode(o.block, &f); err != nil {
		o.t.Error(err)
		return
	}
	if !mine {
		return
	}
	var lines []string
	status, length := 0, false
	for _, field := range f.List {
		name, value := string(field.Name.Of(f.Buf)), string(field.Value.Of(f.Buf))
		switch name {
		case ":status":
			status, _ = strconv.Atoi(value)
			continue
		case "content-length":
			length = true
		case "connection", "transfer-encoding", "keep-alive", "upgrade":
			o.t.Errorf("HTTP/2 must not say %s: %s", name, value)
		}
		lines = append(lines, http.CanonicalHeaderKey(name)+": "+value+"\r\n")
	}
	if status == 0 {
		o.answered(lines)
		return
	}
	if o.key != "" && status == 200 {
		sum := sha1.Sum([]byte(o.key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		lines = append(lines, "Upgrade: websocket\r\n", "Connection: Upgrade\r\n",
			"Sec-Websocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n")
		status, length = 101, true
	}
	interim := status < 200 && status != 101
	none := interim || status == 204 || status == 304 || o.method == "HEAD" || length
	switch {
	case interim:
	case none:
		o.answering = answerLength
	default:
		o.answering = answerChunks
		if o.blockEnds {
			lines = append(lines, "Content-Length: 0\r\n")
			o.answering = answerLength
		} else {
			lines = append(lines, "Transfer-Encoding: chunked\r\n")
		}
	}
	if o.last && !interim {
		lines = append(lines, "Connection: close\r\n")
	}
	o.out = fmt.Appendf(o.out, "HTTP/1.1 %d %s\r\n%s\r\n", status, http.StatusText(status), strings.Join(lines, ""))
	if o.blockEnds {
		o.answered(nil)
	}
}

// answered ends the answer.
func (o *over2) answered(trailer []string) {
	if o.answering == answerChunks {
		o.out = append(o.out, "0\r\n"+strings.Join(trailer, "")+"\r\n"...)
	}
	o.answering = nothing
	if o.last || o.key != "" {
		o.finish(io.EOF)
		return
	}
	if o.sending == sent {
		o.sending = sendsHead
		o.send()
	}
}
