package client

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/upstream/httpclient"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Body is the body of an answer, as it arrives. It belongs to the thread that has sent the request.
type Body struct {
	c     *Client
	t     *loop.Thread
	until time.Time

	exchange    *httpclient.Exchange // nil: the answer is complete, or has failed
	lease       upstream.Lease
	stream      *stream.Conn
	sendStopped bool // the server does not take all of the request

	buf      *[bufferSize]byte // nil: all that has come was read
	data     []byte            // of buf: not read yet
	sizeLeft int64             // how many more bytes may come
	err      error             // behind data; io.EOF at the end

	trailer *conn.Header // of the response

	registered   bool // by the client, in a list
	next, before *Body
}

const (
	bufferSize = 16 << 10
	// maxEmpty is how many reads of Request.From in a row may bring nothing, as in package bufio.
	maxEmpty = 100
)

// What a request uses only until its answer is complete.
var (
	buffers   = sync.Pool{New: func() any { return new([bufferSize]byte) }}
	exchanges = sync.Pool{New: func() any { return new(httpclient.Exchange) }}
)

// connect gets a connection.
func (b *Body) connect(want upstream.Want) (reused bool, err error) {
	if b.lease.Limit, err = b.remaining(); err == nil {
		b.stream, reused, err = b.lease.Connect(b.t, want)
	}
	if err != nil && !clientLeft(err) {
		err = fmt.Errorf("%w: %w", ErrConnect, err)
	}
	return reused, err
}

// head sends the request and receives the head of the answer, both at once: a server may answer
// before it has read all. head is a part of b.buf.
func (b *Body) head(head []byte, body *bodyContent) error {
	b.sendStopped = false
	if b.exchange.Mux() {
		b.exchange.Open(head, !body.more())
	} else {
		b.write(head)
	}
	for {
		e, _, err := b.exchange.Next()
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		case e == httpclient.Final:
			b.sendStopped = b.sendStopped || body.more()
			return nil
		case e == httpclient.Interim:
			continue
		}
		for len(body.bytes) > 0 && !b.sendStopped && b.exchange.Held() == 0 {
			n := min(len(body.bytes), 64<<10)
			b.write(body.bytes[:n])
			if body.bytes = body.bytes[n:]; !body.more() {
				b.finishRequest()
			}
		}
		if body.from != nil && !b.sendStopped && b.exchange.Held() == 0 {
			if err := b.sendPiece(body); err != nil {
				return err
			}
		}
		if err := b.receive(body.more()); err != nil {
			return err
		}
	}
}

// inputAwaiter is a reader that says when a Read would not wait.
type inputAwaiter interface{ AwaitInput() error }

var _ inputAwaiter = (*conn.Body)(nil)

// sendPiece reads and sends the next piece of the request's body. All received bytes have been
// used.
func (b *Body) sendPiece(body *bodyContent) error {
	b.putBuffer() // a client that uploads slowly makes the thread wait a thousand times
	if from, ok := body.from.(inputAwaiter); ok {
		_ = from.AwaitInput() // Read returns the error
	}
	if _, err := b.remaining(); err != nil {
		return err
	}
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf) // also when the thread is killed
	out, err := body.piece(buf[:0], b.exchange.Mux())
	if err != nil {
		return fmt.Errorf("body of the request: %w", err)
	}
	if len(out) > 0 {
		b.write(out)
	}
	switch {
	case !body.more():
		b.finishRequest()
	case len(out) > 0:
		body.empty = 0
	case body.from != nil:
		if body.empty++; body.empty > maxEmpty {
			return fmt.Errorf("body of the request: %w", io.ErrNoProgress)
		}
		b.t.Yield() // the reader has not waited
	}
	return nil
}

// finishRequest ends the request if the framing of its body does not.
func (b *Body) finishRequest() {
	if b.exchange.Mux() {
		b.exchange.Finish(nil)
	}
}

// write sends p. If the server takes no more, its answer still counts.
func (b *Body) write(p []byte) {
	if _, err := b.exchange.Write(p); err != nil {
		b.sendStopped = true
	}
}

// receive waits for the next bytes, or, with more to send, until all that is held has gone out.
func (b *Body) receive(more bool) error {
	for {
		if b.exchange.Held() > 0 {
			if left, err := b.exchange.SendHeld(); err != nil {
				b.sendStopped = true
			} else if left == 0 && more && !b.sendStopped {
				return nil
			}
		}
		if b.buf == nil {
			b.buf = buffers.Get().(*[bufferSize]byte)
		}
		if err := b.exchange.Receive(b.buf[:]); err != stream.ErrWouldBlock {
			return err
		}
		if more && !b.sendStopped && b.exchange.Held() == 0 {
			return nil
		}
		b.putBuffer() // what waits for a slow server holds none
		d, err := b.remaining()
		if err == nil {
			err = b.exchange.Await(d)
		}
		if err != nil {
			return err
		}
	}
}

// fill takes received bytes; with wait, it waits until some have arrived. Then there is data, or an
// error, or both.
func (b *Body) fill(wait bool) {
	n := 0
	for b.err == nil {
		e, data, err := b.exchange.Next()
		switch {
		case err != nil:
			b.fail(fmt.Errorf("%w: %w", ErrProtocol, err))
		case e == httpclient.Data:
			// The pieces move together, to the front of what was received.
			if b.sizeLeft -= int64(len(data)); b.sizeLeft < 0 {
				b.fail(ErrTooLarge)
				break
			}
			n += copy(b.buf[n:], data)
		case e == httpclient.Done:
			b.finish()
		case n > 0 || !wait:
			b.setData(n)
			return
		default:
			// While the thread is busy elsewhere, with a slow client of its own, something has always
			// come, and receive never waits.
			_, err := b.remaining()
			if err == nil {
				err = b.receive(false)
			}
			if err != nil {
				b.fail(err)
			}
		}
	}
	b.setData(n)
}

// setData ends fill, with n bytes of data.
func (b *Body) setData(n int) {
	if n == 0 {
		b.putBuffer()
	} else {
		b.data = b.buf[:n]
	}
}

func (b *Body) putBuffer() {
	if b.buf != nil {
		buffers.Put(b.buf)
		b.buf, b.data = nil, nil
	}
}

// finish ends the exchange at the end of the answer.
func (b *Body) finish() {
	b.exchange.Trailer(func(name, value []byte) {
		if name := string(name); !http1.Framing(name) {
			b.trailer.Add(name, string(value))
		}
	})
	if !b.sendStopped && b.exchange.Reusable() {
		b.exchange.End()
		b.lease.Keep(b.stream, b.exchange.KeepFor())
		b.stream = nil
	}
	b.fail(io.EOF)
}

// fail ends the exchange with an error, which Read returns after the data.
func (b *Body) fail(err error) {
	b.err = err
	if b.registered {
		b.c.unregister(b)
	}
	if b.exchange != nil {
		b.exchange.Reset()
		exchanges.Put(b.exchange)
		b.exchange = nil
	}
	b.lease.Close(b.stream)
	b.stream = nil
}

// drop releases all resources.
func (b *Body) drop() {
	b.fail(errEnded)
	b.putBuffer()
}

// Read implements io.Reader. It waits until bytes have arrived. An error other than io.EOF means
// that the body is not complete: see Client.Do.
func (b *Body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(b.data) == 0 && b.err == nil {
		b.fill(true)
	}
	n := copy(p, b.data)
	if b.data = b.data[n:]; len(b.data) > 0 {
		return n, nil
	}
	b.putBuffer() // the thread may wait for long before it reads on
	if n > 0 {
		return n, nil
	}
	return 0, b.err
}

// Close drops the rest of the body. It is no error to call it again, or at the end.
func (b *Body) Close() error {
	if err := b.err; err != errEnded {
		b.drop()
	}
	return nil
}
