// Package sse sends events from a handler to a browser's EventSource, over a response that does not
// end: Server-Sent Events (WHATWG HTML section 9.2).
//
// A Stream belongs to its request's thread, which waits in Stream.AwaitAny for something to send:
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
// Most of thousands of streams wait. Under Serve, a stream that waits holds no coroutine: its
// Handler is called for messages of its subscriptions.
//
// A Stream holds one event at most. While a client is slow to read, further events wait in the
// handler's source, such as the bounded queue of a subscription. If the client reads nothing, the
// stream ends after write_timeout; if it reads less than min_rate, not much later.
//
//	event.go   the format of events: pure functions on bytes
//	stream.go  Stream
//	serve.go   Serve: a Handler, its subscriptions, and what calls them
package sse

import (
	"cmp"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// Stream is a response that goes on. Only the request's thread may use it, until the handler
// returns; under Serve, only the Handler's methods.
type Stream struct {
	// KeepAlive is the silence after which AwaitAny sends a comment, so that proxies do not take
	// the connection for dead; 0: 15 seconds; negative: no comments.
	KeepAlive time.Duration

	thread *loop.Thread
	resp   *conn.Response // nil: output goes to the tail
	tail   *conn.Tail
	sent   time.Duration // when something was sent last, by the loop's clock
	extra  *extra        // nil: nothing of it is set

	// Under Serve.
	handler       Handler // nil: the handler of the request has the stream
	subscriptions *subscription
	phase         phase
	ended         bool // it ends
}

// extra has the state that few streams need, and none that is idle without a coroutine.
type extra struct {
	last    string        // see LastEventID
	sources []loop.Source // of AwaitAny, so that it does not allocate
	err     error         // with which the stream ends
}

func (s *Stream) ensureExtra() *extra {
	if s.extra == nil {
		s.extra = new(extra)
	}
	return s.extra
}

// buffers are for events that are being sent.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// errHead refuses a stream for HEAD: its body would never end, and is never sent.
var errHead = errors.New("sse: the response to HEAD has no stream")

// Open begins the stream: it sends the head, with the fields that the handler has set, and so the
// client knows that it is connected. The status is 200. After an error the handler returns 200
// without doing more: the request is a HEAD, which gets the same fields, or the client has left.
func Open(req *conn.Request, resp *conn.Response) (*Stream, error) {
	h := resp.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would gather events
	if req.Method() == http.MethodHead {
		return nil, errHead
	}
	s := &Stream{thread: req.Thread, resp: resp}
	s.sent = s.now()
	if id, ok := req.Layer().HeaderView("Last-Event-ID"); ok && validID(string(id)) {
		s.ensureExtra().last = string(id)
	}
	return s, resp.Flush()
}

// LastEventID returns the ID of the last event that a client which connects again says it has got.
// It returns "" if the client names none, or one that Send would refuse. A client can name any ID:
// do not trust it.
func (s *Stream) LastEventID() string {
	if s.extra == nil {
		return ""
	}
	return s.extra.last
}

// Send sends e at once, and waits while the client is slow to take it. After an error that wraps
// ErrEvent, which is about e, the stream goes on; any other error is the connection's, and ends it.
func (s *Stream) Send(e Event) (err error) {
	b := buffers.Get().(*[]byte)
	defer recycle(b)
	if *b, err = AppendEvent((*b)[:0], e); err != nil {
		return err
	}
	return s.write(*b)
}

// Comment sends text that clients ignore, but that a trace of the connection shows.
func (s *Stream) Comment(text string) error {
	b := buffers.Get().(*[]byte)
	defer recycle(b)
	*b = AppendComment((*b)[:0], text)
	return s.write(*b)
}

// maxPooledBuffer is the size of the largest buffer that is kept for the next event.
const maxPooledBuffer = 16 << 10

func recycle(b *[]byte) {
	if cap(*b) <= maxPooledBuffer {
		buffers.Put(b)
	}
}

func (s *Stream) write(p []byte) error {
	err := s.put(p)
	s.sent = s.now()
	if err != nil && s.handler != nil {
		(*served)(s).end(err)
	}
	return err
}

func (s *Stream) put(p []byte) (err error) {
	if s.resp == nil {
		_, err = s.tail.Write(p)
		return err
	}
	if _, err = s.resp.Write(p); err == nil {
		err = s.resp.Flush()
	}
	return err
}

// setWriteDeadline sets the time by which the client has to have taken what is sent; the zero Time:
// by the server's limits.
func (s *Stream) setWriteDeadline(by time.Time) {
	if s.resp == nil {
		s.tail.SetWriteDeadline(by)
	} else {
		s.resp.Layer().SetWriteDeadline(by)
	}
}

// keepAlive is Stream.KeepAlive where that is 0.
const keepAlive = 15 * time.Second

// now returns the present time by the loop's clock.
func (s *Stream) now() time.Duration { return s.thread.Loop().Layer().Clock(time.Now()) }

// untilComment returns the time until a comment is due; negative: no comment will be due.
func (s *Stream) untilComment() time.Duration {
	if s.KeepAlive < 0 {
		return -1
	}
	return max(s.sent+cmp.Or(s.KeepAlive, keepAlive)-s.now(), 0)
}

// AwaitAny waits like the request's own AwaitAny, at most d (negative: without limit), and sends
// keep-alive comments meanwhile. It returns loop.ErrClientGone as soon as the client leaves,
// http.ErrServerClosed when the server stops (the client connects to the next one), and a write's
// error if it cannot send a comment.
func (s *Stream) AwaitAny(d time.Duration, sources ...loop.Source) (int, error) {
	l := s.thread.Loop()
	if l.Stopping() { // a source that is always ready must not hide the stop
		return -1, http.ErrServerClosed
	}
	all := append(append(s.ensureExtra().sources[:0], sources...), l.Stopped())
	s.extra.sources = all
	defer clear(all)
	var until time.Time
	if d >= 0 {
		until = time.Now().Add(d) // not the loop's time, which is that of its turn
	}
	for {
		now, wait := time.Now(), s.untilComment()
		last := d >= 0 && (wait < 0 || until.Sub(now) <= wait)
		if last {
			wait = max(until.Sub(now), 0)
		}
		i, err := s.thread.AwaitAny(wait, all...)
		switch {
		case i == len(sources):
			return -1, http.ErrServerClosed
		case i >= 0 || last || err != loop.ErrDeadlineExceeded:
			return i, err
		}
		if err := s.Comment(""); err != nil {
			return -1, err
		}
	}
}
