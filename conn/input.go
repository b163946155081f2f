package conn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

// errTooSlow ends a peer that keeps us waiting with a byte now and then.
var errTooSlow = fmt.Errorf("peer is too slow: %w", os.ErrDeadlineExceeded)

// readHead reads until the head of the next request is there. stream.ErrWouldBlock means that nothing of it has come;
// an *http1.Error is to be answered; with any other the client is gone.
func (x *exchange) readHead() error {
	h := &x.req.head
	h.Reset()
	x.req.raw = nil
	x.until = time.Time{}
	x.base = 0 // the head before is done with
	if x.r == x.w {
		x.r, x.w = 0, 0
	}
	sealed := false // a part of a TLS record has come: the beginning of a head, as far as time is concerned
	x.sealed = 0
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
				x.until = time.Time{}
				return nil
			}
		}
		wait := time.Duration(0)
		if x.r < x.w || sealed {
			if wait = x.set.HeaderTimeout; x.until.IsZero() {
				x.until = x.c.Loop().Time().Add(wait)
			}
		}
		switch err := x.fill(wait); {
		case err == nil:
		case err == stream.ErrWouldBlock:
			if sealed = x.sealed > 0 && x.c.tls != nil; !sealed {
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

// fill reads more into the buffer, at least one byte, waiting at most d.
func (x *exchange) fill(d time.Duration) error {
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
	n, err := x.read(x.in[x.w:], d)
	x.w += n
	return err
}

// read reads at least one byte, waiting at most d; d of 0 means not at all, with stream.ErrWouldBlock. Before it
// waits it writes what there is to write: the client may be waiting for that.
//
// Over TLS a wait can be for the rest of a record, and be ended by any byte of it. So the head has its absolute limit
// here, and a body must keep its pace.
func (x *exchange) read(p []byte, d time.Duration) (int, error) {
	for {
		n, err := x.tryRead(p)
		if err != stream.ErrWouldBlock {
			return n, err
		}
		if d == 0 {
			return 0, err
		}
		if err := x.flush(); err != nil {
			return 0, err
		}
		before := x.c.Loop().Time()
		if x.until.IsZero() {
			if x.reading.tooSlow(x.set.MinRate) {
				return 0, errTooSlow
			}
		} else if d = x.until.Sub(before); d <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		err = x.c.WantRead(d)
		x.spent = 0
		x.reading.wait(x.c.Loop().Time().Sub(before))
		if err != nil {
			return 0, err
		}
	}
}

func (x *exchange) tryRead(p []byte) (int, error) {
	if x.c.tls == nil {
		return x.tryReadSocket(p)
	}
	n, err := x.c.tls.Read(p)
	if n > 0 {
		return n, nil // an error that came with it comes again
	}
	return 0, err
}

// tryReadSocket reads what is there. Where nothing has come since it was read empty, asking the kernel again would be a
// system call for nothing; but at a stop it is asked, since what came in this very moment is in flight, too.
func (x *exchange) tryReadSocket(p []byte) (int, error) {
	if !loop.Own(&x.c.Thread).Unread() && !x.c.Loop().Stopping() {
		return 0, stream.ErrWouldBlock
	}
	n, errno := loop.Own(&x.c.Thread).Recv(p)
	switch {
	case errno == unix.EAGAIN:
		return 0, stream.ErrWouldBlock
	case errno != 0:
		return 0, os.NewSyscallError("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	x.sealed += n
	x.reading.bytes += int64(n)
	x.spend(opCost + n)
	return n, nil
}

// pace measures what a peer moves while the exchange waits for it. The last 30 s of waiting count, or 15 s at least: a
// window of two halves, of which the older is dropped when the newer is full. So an early burst is no credit for later.
type pace struct {
	bytes int64 // in all

	// The newer half of the window, and the older.
	waited, waitedBefore time.Duration
	from, fromBefore     int64 // bytes when they began
}

// They are variables for the tests alone.
var (
	graceOfRate = 10 * time.Second // the time waited for a peer before its rate counts
	paceHalf    = 15 * time.Second // half of the window
)

// wait notes that the exchange has waited for the peer for d.
func (p *pace) wait(d time.Duration) {
	if p.waited += d; p.waited >= paceHalf {
		p.waitedBefore, p.fromBefore = p.waited, p.from
		p.waited, p.from = 0, p.bytes
	}
}

func (p *pace) tooSlow(minRate int) bool {
	waited := p.waitedBefore + p.waited
	return minRate > 0 && waited > graceOfRate && float64(p.bytes-p.fromBefore) < float64(minRate)*waited.Seconds()
}
