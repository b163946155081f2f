package httpclient

import (
	"errors"
	"fmt"
	"time"

	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/upstream/http2client"
	"github.com/lwango/lwango/stream"
)

// BeginMux begins an exchange by HTTP/2, on a stream that the caller ends after End. Open, Write
// and Finish send the request then. All the other methods are the same, but the connection is not
// the exchange's: it is never Reusable, and it has no Unparsed bytes.
func (x *Exchange) BeginMux(st *http2client.Stream, method string) {
	if x.method != "" { // an earlier attempt
		x.Reset()
	}
	x.mux, x.method = st, method
}

// Mux reports whether the exchange is by HTTP/2.
func (x *Exchange) Mux() bool { return x.mux != nil }

// LastPing returns when the last PING of the connection has come, by the loop's clock; 0: none has.
func (x *Exchange) LastPing() time.Duration {
	if x.mux == nil {
		return 0
	}
	return x.mux.LastPing()
}

// Open sends the head of the request, which is that of HTTP/1.1 with Host as its first field. ends:
// no body follows.
func (x *Exchange) Open(head []byte, ends bool) {
	limit := x.HeadLimit
	if limit == 0 {
		limit = defaultHead
	}
	x.mux.Open(head, ends, limit, x.method == "HEAD")
}

// Finish ends the body of the request. fields calls its argument for each field of the trailer
// section; nil: there are none. The fields must be valid and must not frame a message.
func (x *Exchange) Finish(fields func(field func(name, value string))) { x.mux.End(fields) }

// receiveMux is Receive by HTTP/2.
func (x *Exchange) receiveMux(buf []byte) error {
	if x.mux.Head() != nil {
		x.gotFirstByte = true
		return nil
	}
	n, err := x.mux.Read(buf)
	switch {
	case n > 0:
		x.in, x.gotFirstByte = buf[:n], true
		return nil
	case x.state == inBody && x.mux.Ended(): // and not just any end that the reading has come to
		x.finished = true
		return nil
	case err == stream.ErrWouldBlock:
		return err
	case errors.Is(err, http2client.ErrMalformed):
		return err
	}
	return fmt.Errorf("%w: %w", upstream.ErrCut, err)
}

// nextMux is Next by HTTP/2.
func (x *Exchange) nextMux() (Event, []byte, error) {
	switch x.state {
	case inHead:
		if x.head != nil { // of an interim response
			x.mux.NextHead()
			x.head = nil
		}
		h := x.mux.Head()
		if h == nil {
			return More, nil, nil
		}
		x.Head.Reset()
		x.Head.Status, x.Head.ContentLength, x.head = h.Status, h.Length, h.Buf
		x.Head.SetFields(h.Buf, append(x.Head.Fields, h.List...))
		if h.Status < 200 {
			return Interim, nil, nil
		}
		x.Head.Chunked = h.Length < 0 || h.Has("trailer") // trailers may follow
		x.state = headDone
		return Final, nil, nil
	case headDone:
		x.mux.NextHead()
		x.state, x.head = inBody, nil
		fallthrough
	case inBody:
		if data := x.in; len(data) > 0 {
			x.in = nil
			return Data, data, nil
		}
		if !x.finished {
			return More, nil, nil
		}
		x.state = ended
	}
	return Done, nil, nil
}
