package fastcgi

import (
	"errors"

	"github.com/lwango/lwango/internal/relay"
	"github.com/lwango/lwango/loop"
)

// flow is the way of an answer to its client. As long as it has room, the application does not wait
// for the client: a process of PHP-FPM that waits serves no other request.
type flow struct {
	relay.Flow

	// The upstream's, once the thread has waited for it beside the client; before that nil.
	readable, writable *loop.Readiness
}

// begin makes the flow ready for an exchange. One flow serves all attempts, each of which has an
// upstream of its own.
func (f *flow) begin(c *call) {
	f.readable, f.writable = nil, nil
	f.Begin(c.req, c.resp, int64(c.m.set.ResponseBuffering), c.m.log, c.unspooled)
}

// starved reports that the call has nothing to send until the client's next bytes come.
func (c *call) starved() bool { return c.unspooled && c.buf == nil && !c.end && !c.lost }

// pour gives the client as many of the held bytes as it has room for.
func (c *call) pour() error { return c.unwritable(c.flow.Pour(!c.answer.buffered)) }

// drain gives the client the rest of the answer, when the upstream is not needed any more.
func (c *call) drain() error { return c.unwritable(c.flow.Drain(!c.answer.buffered)) }

// unwritable deals with the error of a client that takes no more. The script goes on only if
// ignore_client_abort is set.
func (c *call) unwritable(err error) error {
	if c.m.set.IgnoreClientAbort && errors.Is(err, relay.ErrClient) {
		c.answer.gone = true
		c.discard()
		return nil
	}
	return err
}

// discard says that the client does not get the body.
func (c *call) discard() {
	c.answer.discard = true
	c.flow.Discard()
}

// await waits for the client and the upstream at once: for the next bytes of an upload, or for room
// for the answer.
func (c *call) await() error {
	f := &c.flow
	if f.readable == nil {
		f.readable, f.writable = c.stream.Readable(), c.stream.Writable()
	}
	limit := c.m.set.ReadTimeout
	var room [2]loop.Source
	sources := room[:0]
	starved := c.starved()
	if c.buf != nil {
		limit, sources = c.m.set.SendTimeout, append(sources, f.writable)
	}
	if f.Full() { // how long the client may take is for the server to say
		return f.AwaitRoom(&c.up, starved, sources...)
	}
	sources = append(sources, f.readable)
	if starved {
		limit = -1
	}
	return f.Await(limit, starved, sources...)
}
