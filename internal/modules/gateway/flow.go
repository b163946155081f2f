package gateway

import (
	"errors"
	"time"

	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/loop"
)

// awaitsBody reports that the call has nothing to send until the client's next bytes arrive.
func (c *Call) awaitsBody() bool { return c.Unspooled && c.buf == nil && !c.End && !c.sendStopped }

// writeHeld gives the client as many of the held bytes as it has room for.
func (c *Call) writeHeld() error { return c.clientGone(c.Flow.WriteHeld(!c.answer.buffered)) }

// clientGone handles the error of a client that takes no more. The script goes on only if
// ignore_client_abort is set.
func (c *Call) clientGone(err error) error {
	if c.IgnoreClientAbort && errors.Is(err, reverseproxy.ErrClient) {
		c.answer.clientGone = true
		c.Flow.Discard()
		return nil
	}
	return err
}

// await waits for the client and the upstream at once: for the next bytes of an upload, or for room
// for the answer. limit is for bytes of the upstream.
func (c *Call) await(limit time.Duration) error {
	f := &c.Flow
	if c.readable == nil {
		c.readable, c.writable = c.Stream.Readable(), c.Stream.Writable()
	}
	var room [2]loop.Source
	sources := room[:0]
	starved := c.awaitsBody()
	if c.sending() {
		sources = append(sources, c.writable)
	}
	if f.Full() { // how long the client may take is for the server to say
		return f.AwaitRoom(&c.Up, starved, sources...)
	}
	sources = append(sources, c.readable)
	if starved && !c.answer.begun {
		limit = -1 // how long the client may take is for the server to say
	}
	return f.Await(limit, starved, sources...)
}
