package conn

import (
	"errors"
	"io"
	"os"

	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// framing is the body of the present request as it stands on the connection: by Content-Length or
// chunked (RFC 9112 section 6.3). It is read straight from the stream; only what came in one read
// with the head is in a buffer.
type framing struct {
	state   bodyState
	err     error // with which it has failed
	left    int64 // with a Content-Length
	chunked bool
	chunks  http1.Chunked
}

func (f *framing) begin(h *http1.Head) {
	f.state, f.err = bodyOpen, nil
	f.left, f.chunked = max(h.ContentLength, 0), h.Chunked
	if f.chunked {
		f.chunks.Reset()
	} else if f.left == 0 {
		f.state = bodyEnded
	}
}

// readBody implements carrier.
func (t *turn) readBody(p []byte, wait bool) (n int, err error) {
	switch t.body.state {
	case bodyEnded:
		return 0, io.EOF
	case bodyFailed:
		return 0, t.body.err
	}
	if t.body.chunked {
		n, err = t.readChunked(p, wait)
	} else {
		n, err = t.readLength(p, wait)
	}
	return n, t.readFailed(err)
}

// readFailed returns an error of reading as readBody does, and notes what it says of the body.
func (t *turn) readFailed(err error) error {
	switch {
	case err == nil, err == stream.ErrWouldBlock, err == loop.ErrDeadlineExceeded,
		err == loop.ErrBudget:
		return err
	case err == errEnd:
		t.body.state = bodyEnded
		return io.EOF
	case err == io.EOF: // the client's end, not the body's
		err = io.ErrUnexpectedEOF
		t.left()
	case errors.As(err, new(*os.SyscallError)):
		t.left()
	case errors.Is(err, stream.ErrTooSlow):
		err = ErrBodyTimeout
	}
	t.body.state, t.body.err = bodyFailed, err
	return err
}

// errEnd is the end of the body, as opposed to the end of the connection.
var errEnd = errors.New("end of body")

func (t *turn) readLength(p []byte, wait bool) (n int, err error) {
	p = p[:min(int64(len(p)), t.body.left)]
	if t.r < t.w {
		n = copy(p, t.in[t.r:t.w])
		t.r += n
	} else {
		n, err = t.read(p, wait)
	}
	if t.body.left -= int64(n); err == nil && t.body.left == 0 {
		err = errEnd
	}
	return n, err
}

// readChunked reads into p, and decodes there, unless the input buffer has the more room: of what
// is read beyond the body's end, no more can come than the buffer takes.
func (t *turn) readChunked(p []byte, wait bool) (int, error) {
	for {
		src, buffered := t.in[t.r:t.w], true
		if len(src) == 0 {
			t.r, t.w = t.base, t.base
			room := int64(len(t.in) - t.base)
			if buffered = int64(len(p)) <= room; buffered {
				if err := t.fill(wait); err != nil {
					return 0, err
				}
				src = t.in[t.r:t.w]
			} else {
				n, err := t.read(p[:min(t.body.chunks.Left()+room, int64(len(p)))], wait)
				if err != nil {
					return 0, err
				}
				src = p[:n]
			}
		}
		nd, ns, done, err := t.body.chunks.Decode(p, src)
		if buffered {
			t.r += ns
		} else {
			t.w += copy(t.in[t.w:], src[ns:]) // the next request
		}
		switch {
		case err != nil:
			return nd, err
		case done:
			return nd, errEnd
		case nd > 0:
			return nd, nil
		}
	}
}

// awaitBody implements carrier. In the chunked coding what arrives may be framing alone.
func (t *turn) awaitBody(wait bool) error {
	switch {
	case t.body.state == bodyEnded:
		return io.EOF
	case t.body.state == bodyFailed:
		return t.body.err
	case t.r < t.w:
		return nil
	}
	t.r, t.w = t.base, t.base
	return t.readFailed(t.fill(wait))
}

// arrived implements carrier.
func (t *turn) arrived() bool { return t.r < t.w }

// readExpired implements carrier.
func (t *turn) readExpired() bool { return t.stream.ReadExpired() }

// keepTrailer implements carrier.
func (t *turn) keepTrailer() {
	if t.body.chunked {
		t.body.chunks.KeepTrailer()
	}
}

// trailer implements carrier.
func (t *turn) trailer(f func(name, value []byte)) {
	if t.body.chunked { // else chunks is an earlier request's
		t.body.chunks.Trailer(f)
	}
}

// skip decides what becomes of a body that nothing reads any more: either drain can read the rest,
// or the connection must close. The length of a chunked body is unknown. Its end must have arrived
// already, and skip drops what is in front of it.
func (t *turn) skip() {
	f, b := &t.body, &t.x.req.body
	if f.state != bodyOpen || b.state != bodyOpen || b.ask || !f.chunked && f.left <= drainLimit {
		return
	}
	if f.chunked {
		for from := b.read; b.state == bodyOpen && b.read-from <= drainLimit; {
			if t.drop(false) != nil {
				break
			}
		}
	}
	if f.state == bodyOpen {
		f.state = bodyUnread
	}
}

// decodeFraming decodes the framing that has arrived, and may find the end of the body, or a
// mistake. It stops at data, which the handler may still want.
func (t *turn) decodeFraming() {
	if t.body.state != bodyOpen || !t.body.chunked || t.r == t.w {
		return
	}
	_, n, done, err := t.body.chunks.Decode(nil, t.in[t.r:t.w])
	t.r += n
	if done {
		err = errEnd
	}
	_ = t.readFailed(err)
}

// drop reads a piece of the body and discards it. It holds no memory while it waits. The error is
// Body.Read's.
func (t *turn) drop(wait bool) error {
	b := &t.x.req.body
	for {
		buf := buffers.Get().(*[streamAt]byte)
		_, err := b.take(buf[:], false)
		buffers.Put(buf)
		if err != stream.ErrWouldBlock || !wait {
			return err
		}
		if err := t.awaitInput(); err != nil {
			return b.failed(t.readFailed(err))
		}
	}
}

// drain drops what was left unread, and reports whether the connection can go on. If the handler,
// or the reader of its answer, could still read the body when the head went out, drain reads it to
// its end, however long it is: the head has promised that the connection goes on.
func (t *turn) drain() bool {
	if t.body.state == bodyOpen && t.x.req.body.state == bodyOpen {
		t.drainOpen()
	}
	return t.body.state == bodyEnded && t.x.req.body.state != bodyFailed
}

func (t *turn) drainOpen() {
	b := &t.x.req.body
	t.pace(&t.reading, t.set.BodyTimeout) // head may have demanded less
	for t.body.state == bodyOpen && b.state == bodyOpen {
		if t.drop(true) != nil {
			break
		}
	}
}

// nothingBehind reports that no other request can follow on the connection: the body is bad, or
// given up by skip, or its client waits for 100 (Continue). The head is the last place to announce
// the end. A proxy in front would send another client's request on a connection that ends
// unannounced.
func (t *turn) nothingBehind() bool {
	f, b := t.body.state, &t.x.req.body
	return f != bodyOpen && f != bodyEnded || b.state == bodyFailed || b.ask
}

// unread reports whether some of the present request's body may still be under way.
func (t *turn) unread() bool { return t.body.state != bodyEnded }
