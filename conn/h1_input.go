package conn

import (
	"bytes"
	"errors"
	"os"
	"time"

	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// readHead reads until the head of the next request is complete. The error stream.ErrWouldBlock
// means that nothing of the head has arrived. The caller must answer an *http1.Error. After any
// other error the client is gone.
func (t *turn) readHead() (err error) {
	r := &t.x.req
	if r.raw != nil { // else the exchange has rested
		r.head.Reset()
		r.raw = nil
	}
	r.head.FieldLimit = int(t.set.MaxHeaderSize) / bytesPerField
	t.stream.DropReadDeadline() // the last handler's
	t.reading = stream.Pace{}   // nothing is demanded of an idle client
	t.base = 0                  // the previous head is not used any more
	if t.r == t.w {
		t.r, t.w = 0, 0
		err = t.fill(false)
	}
	if err == nil {
		if whole, err := t.parseHead(); whole || err != nil {
			return err
		}
	}
	return t.readRest(err)
}

// parseHead parses what has come of the head, and reports whether that is all of it.
func (t *turn) parseHead() (whole bool, err error) {
	// The parser sees nothing beyond the limit, so that the answer does not depend on how the bytes
	// arrive.
	r, limit := &t.x.req, int(t.set.MaxHeaderSize)
	n, err := r.head.Parse(t.in[t.r:min(t.w, t.r+limit)])
	switch {
	case err != nil:
		return false, err
	case n > 0:
		r.raw = t.in[t.r : t.r+n : t.r+n]
		t.r += n
		t.base = t.r
		return true, nil
	case t.w-t.r <= limit:
		return false, nil
	case r.head.InRequestLine():
		return false, errTargetTooLong
	}
	return false, errHeadTooLarge
}

// readRest is readHead of a head that has not come at once. err is the error of the first read.
func (t *turn) readRest(err error) error {
	timed := false  // the head has begun, and has its deadline
	sealed := false // a part of a TLS record has come: for the time limit, the head has begun;
	// a whole one without data, such as a KeyUpdate, is no part of a head
	for {
		if err == stream.ErrWouldBlock {
			if sealed = t.c.tls != nil && heldTLS(t.c.tls); !sealed {
				return err
			}
			if timed { // else the deadline comes first
				err = t.awaitInput()
			}
		}
		switch {
		case err == nil || err == stream.ErrWouldBlock:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errHeadTooSlow
		default:
			return err
		}
		if t.r < t.w {
			whole, err := t.parseHead()
			if whole && timed {
				_ = t.stream.SetReadDeadline(time.Time{})
			}
			if whole || err != nil {
				return err
			}
		}
		if !timed && (t.r < t.w || sealed) {
			timed = true
			_ = t.stream.SetReadDeadline(t.c.Loop().Time().Add(t.set.HeaderTimeout))
		}
		err = t.fill(t.r < t.w)
	}
}

// leastBody is the least room behind a head for reading its body.
const leastBody = 512

// fill reads more into the buffer, at least one byte, as read does.
func (t *turn) fill(wait bool) error {
	if t.w == len(t.in) || t.w == t.base && len(t.in)-t.base < leastBody {
		if t.r > t.base { // move down what is not used; the head before base stays
			t.w = t.base + copy(t.in[t.base:], t.in[t.r:t.w])
			t.r = t.base
		} else {
			// A new buffer: the present head may point into the old one, which lives on then. Only
			// a head makes it grow.
			size := min(max(2*(t.w-t.r), firstInput), int(t.set.MaxHeaderSize)+firstInput)
			grown := make([]byte, size)
			t.w = copy(grown, t.in[t.r:t.w])
			t.r, t.base, t.in = 0, 0, grown
		}
	}
	n, err := t.read(t.in[t.w:], wait)
	t.w += n
	return err
}

// read reads at least one byte. If none has arrived, and wait is false, the error is
// stream.ErrWouldBlock. Before read waits, it sends the gathered output: the client may be waiting
// for that.
//
// Over TLS a wait can be one for the rest of a record, and any byte of the record ends it. So the
// head needs its absolute limit here, and a body must keep its pace.
func (t *turn) read(p []byte, wait bool) (int, error) {
	for {
		n, err := t.tryRead(p)
		if err != stream.ErrWouldBlock || !wait {
			return n, err
		}
		if err := t.awaitInput(); err != nil {
			return 0, err
		}
	}
}

// awaitInput sends the gathered output, and waits until there may be something to read.
func (t *turn) awaitInput() error {
	if err := t.flush(); err != nil {
		return err
	}
	return own(t.stream.AwaitInput())
}

func (t *turn) tryRead(p []byte) (int, error) {
	if t.c.tls == nil {
		return t.stream.TryRead(p)
	}
	return readTLS(t.c.tls, p)
}

// own returns the error of a wait for the client. It panics if the waiting thread is not the
// request's, because only that one can wait for the client.
func own(err error) error {
	if errors.Is(err, loop.ErrAwaited) {
		panic("conn: a thread waits for the client of another thread's request")
	}
	return err
}

// refusedLine returns the beginning of a request line that could not be parsed.
func (t *turn) refusedLine() []byte {
	line := bytes.TrimLeft(t.in[t.r:t.w], "\r\n") // empty lines before it: RFC 9112 section 2.2
	if end := bytes.IndexAny(line, "\r\n"); end >= 0 {
		line = line[:end]
	}
	return first(loggedLine, line)
}

// wantsHTTP2 reports whether the first head of the connection, which err refuses, is the beginning
// of the preface of HTTP/2, and the listener speaks HTTP/2 in clear text: over TLS clients agree on
// it by ALPN (RFC 9113 section 3.2).
func (t *turn) wantsHTTP2(err *http1.Error) bool {
	const first = "PRI * HTTP/2.0\r\n"
	c := t.c
	in := t.in[t.r:t.w]
	return err != nil && c.tls == nil && c.port.HTTP2 && c.state&served == 0 &&
		len(in) >= len(first) && string(in[:len(first)]) == first
}
