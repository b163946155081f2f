// Package sse sends events from a handler to a browser's EventSource, over a response that does not end: Server-Sent
// Events (WHATWG HTML section 9.2).
//
// A Stream belongs to its request's thread, which waits in Stream.AwaitAny for what there is to send:
//
//	func(req *conn.Request, resp *conn.Response) int {
//		stream, err := sse.Open(req, resp)
//		for err == nil {
//			if _, err = stream.AwaitAny(-1, subscription); err == nil {
//				err = stream.Send(sse.Event{Data: subscription.Next().Data})
//			}
//		}
//		return 200
//	}
//
// It holds no more than one event: what comes while a client is slow to read waits wherever the handler gets it from, a
// subscription's bounded queue, say. A client that does not read at all ends the stream after write_timeout, and one
// that reads less than min_rate not much later.
//
//	event.go   the format: pure functions on bytes
//	stream.go  Stream
package sse

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// Stream is a response of which more is to come. Only the request's thread may use it, until the handler returns.
type Stream struct {
	// KeepAlive is how long nothing is sent before AwaitAny sends a comment, so that proxies do not take the connection
	// for dead. Open sets it to 15 seconds; the handler may change it. Zero or less: no comments.
	KeepAlive time.Duration

	req  *conn.Request
	resp *conn.Response
	last string
	sent time.Time // when something was sent last

	// Kept, so that neither sending nor waiting allocates.
	buf     []byte
	sources []loop.Source
}

// errHead is why there is no stream for HEAD: its body would never end, and never be sent.
var errHead = errors.New("sse: the response to HEAD has no stream")

// Open begins the stream: it sends the head, with what else the handler has set in it, and the client knows that it is
// connected. The status is 200. On an error the handler has nothing more to do and returns 200: the request is a HEAD,
// which gets the same fields, or the client has gone.
func Open(req *conn.Request, resp *conn.Response) (*Stream, error) {
	h := resp.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would gather events
	if req.Method() == http.MethodHead {
		return nil, errHead
	}
	s := &Stream{KeepAlive: 15 * time.Second, req: req, resp: resp, sent: req.Loop().Time()}
	if id, ok := req.HeaderView("Last-Event-ID"); ok && validID(string(id)) {
		s.last = string(id)
	}
	return s, resp.Flush()
}

// LastEventID returns the ID of the last event that a client has got which comes back, as it says. It is "" where it has
// got none, or names one that Send would not send. A client can name what it likes: an ID is not to be trusted.
func (s *Stream) LastEventID() string { return s.last }

// Send sends e at once, and waits while the client is slow to take it. An error that wraps ErrEvent is e's, and the
// stream goes on; any other is the connection's, and is the end.
func (s *Stream) Send(e Event) (err error) {
	if s.buf, err = AppendEvent(s.buf[:0], e); err != nil {
		return err
	}
	return s.write()
}

// Comment sends text where clients do not see it, but whoever looks at the connection does.
func (s *Stream) Comment(text string) error {
	s.buf = AppendComment(s.buf[:0], text)
	return s.write()
}

// keptBuffer is how much memory of a large event is kept for the next.
const keptBuffer = 16 << 10

func (s *Stream) write() error {
	_, err := s.resp.Write(s.buf)
	if err == nil {
		err = s.resp.Flush()
	}
	if cap(s.buf) > keptBuffer {
		s.buf = nil
	}
	s.sent = s.req.Loop().Time()
	return err
}

// AwaitAny waits as the request's own AwaitAny does, at most d, negative: without limit, and returns the same; keep-alive
// comments go out meanwhile. It ends with loop.ErrClientGone as soon as the client leaves, with http.ErrServerClosed when
// the server stops (the client will come back to the next one), and with a write's error where a comment cannot be sent.
func (s *Stream) AwaitAny(d time.Duration, sources ...loop.Source) (int, error) {
	l := s.req.Loop()
	if l.Stopping() { // a source that has always something to give must not hide it
		return -1, http.ErrServerClosed
	}
	s.sources = append(append(s.sources[:0], sources...), l.Stopped())
	defer clear(s.sources)
	for until := l.Time().Add(d); ; {
		now, wait := l.Time(), time.Duration(-1)
		if s.KeepAlive > 0 {
			wait = max(s.sent.Add(s.KeepAlive).Sub(now), 0)
		}
		last := d >= 0 && (wait < 0 || until.Sub(now) <= wait)
		if last {
			wait = max(until.Sub(now), 0)
		}
		i, err := s.req.AwaitAny(wait, s.sources...)
		switch {
		case i == len(sources):
			return -1, http.ErrServerClosed
		case i >= 0 || last || !errors.Is(err, os.ErrDeadlineExceeded):
			return i, err
		}
		if err := s.Comment(""); err != nil {
			return -1, err
		}
	}
}
