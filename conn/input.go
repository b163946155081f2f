package conn

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// readHead reads until the head of the next request is there. stream.ErrWouldBlock means that nothing of it has come;
// an *http1.Error is to be answered; with any other the client is gone.
func (x *exchange) readHead() error {
	h := &x.req.head
	h.Reset()
	x.req.raw = nil
	_ = x.stream.SetReadDeadline(time.Time{}) // the last handler's
	x.reading = stream.Pace{}                 // nothing is demanded of an idle client
	x.base = 0                                // the head before is done with
	if x.r == x.w {
		x.r, x.w = 0, 0
	}
	timed := false  // the head has begun, and has its deadline
	sealed := false // a part of a TLS record has come: the beginning of a head, as far as time is concerned
	for {
		if x.r < x.w {
			// Nothing beyond the limit is looked at, so that the answer does not depend on how the bytes came.
			n, err := h.Parse(x.in[x.r:min(x.w, x.r+x.set.MaxHeaderSize)])
			if err != nil {
				return err
			}
			if n == 0 && x.w-x.r > x.set.MaxHeaderSize {
				if h.InRequestLine() {
					return errTargetTooLong
				}
				return errHeadTooLarge
			}
			if n > 0 {
				x.req.raw = x.in[x.r : x.r+n : x.r+n]
				x.r += n
				x.base = x.r
				if timed {
					_ = x.stream.SetReadDeadline(time.Time{})
				}
				return nil
			}
		}
		begun := x.r < x.w || sealed
		if begun && !timed {
			timed = true
			_ = x.stream.SetReadDeadline(x.c.Loop().Time().Add(x.set.HeaderTimeout))
		}
		switch err := x.fill(begun); {
		case err == nil:
		case err == stream.ErrWouldBlock:
			if sealed = x.reading.Bytes() > 0 && x.c.tls != nil; !sealed {
				return err
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errHeadTooSlow
		default:
			return err
		}
	}
}

var (
	errHeadTooSlow   = &http1.Error{Status: 408, Reason: "request head not complete in time"}
	errHeadTooLarge  = &http1.Error{Status: 431, Reason: "request head too large"}
	errTargetTooLong = &http1.Error{Status: 414, Reason: "request line too long"}
	errOverload      = &http1.Error{Status: 503, Reason: "too many connections"}
)

// leastBody is how much room there is at least behind a head for reading its body.
const leastBody = 512

// fill reads more into the buffer, at least one byte, as read does.
func (x *exchange) fill(wait bool) error {
	if x.w == len(x.in) || x.w == x.base && len(x.in)-x.base < leastBody {
		if x.r > x.base { // move down what is not used; the head before base stays
			x.w = x.base + copy(x.in[x.base:], x.in[x.r:x.w])
			x.r = x.base
		} else {
			// A new buffer: the old one lives on where the present head points into it. Only a head makes it grow.
			size := min(max(2*(x.w-x.r), firstInput), x.set.MaxHeaderSize+firstInput)
			grown := make([]byte, size)
			x.w = copy(grown, x.in[x.r:x.w])
			x.r, x.base, x.in = 0, 0, grown
		}
	}
	n, err := x.read(x.in[x.w:], wait)
	x.w += n
	return err
}

// read reads at least one byte. Without wait the error is stream.ErrWouldBlock where there is none.
// Before it waits it writes what there is to write: the client may be waiting for that.
//
// Over TLS a wait can be for the rest of a record, and be ended by any byte of it. So the head has its absolute limit
// here, and a body must keep its pace.
func (x *exchange) read(p []byte, wait bool) (int, error) {
	for {
		n, err := x.tryRead(p)
		if err != stream.ErrWouldBlock || !wait {
			return n, err
		}
		if err := x.flush(); err != nil {
			return 0, err
		}
		if err := x.stream.AwaitInput(); err != nil {
			return 0, own(err)
		}
	}
}

func (x *exchange) tryRead(p []byte) (int, error) {
	if x.c.tls == nil {
		return x.stream.TryRead(p)
	}
	n, err := x.c.tls.Read(p)
	if n > 0 {
		return n, nil // an error that came with it comes again
	}
	var below *net.OpError // the stream's
	if errors.As(err, &below) {
		err = below.Err
	}
	return 0, err
}

// own returns the error of a wait for the client. A thread other than the request's cannot wait for it.
func own(err error) error {
	if errors.Is(err, loop.ErrAwaited) {
		panic("conn: a thread waits for the client of another thread's request")
	}
	return err
}
