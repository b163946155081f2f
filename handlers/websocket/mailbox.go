package websocket

import (
	"errors"
	"sync"

	"github.com/lwango/lwango/loop"
)

// ErrMailboxFull is the error of a message for which a Mailbox has no room.
var ErrMailboxFull = errors.New("websocket: mailbox is full")

var errOverflow = &CloseError{Code: TryAgainLater, Text: "too slow"}

// Mailbox takes messages for a connection from any goroutine. The connection's thread sends them,
// in their order, while it waits in AwaitAny or reads, and under Serve between messages.
type Mailbox struct {
	mu     sync.Mutex
	thread *loop.Thread
	limit  int
	closes bool
	queue  []boxed
	held   int // bytes, as limit counts them
	full   bool
	err    *CloseError // what the connection has ended with
}

// boxed is a message in a Mailbox.
type boxed struct {
	kind     int
	p        []byte
	prepared *PreparedMessage // instead
}

// boxedSize is what a message counts beside its bytes.
const boxedSize = 64

func (b *boxed) size() int {
	if b.prepared != nil {
		return boxedSize + len(b.prepared.payload())
	}
	return boxedSize + len(b.p)
}

// Mailbox returns the connection's mailbox. The thread of the connection calls it, and may give the
// result to others. limit bounds what is in it: the bytes of its messages and 64 for each; closes
// says that the connection is to be closed, with TryAgainLater, if there is no room for a message,
// since a peer that is so far behind may better begin anew. Later calls change both.
func (c *Conn) Mailbox(limit int, closes bool) *Mailbox {
	x := c.more()
	if x.box == nil {
		x.box = &Mailbox{thread: c.thread}
		if c.err != nil {
			x.box.end(c.err)
		}
	}
	m := x.box
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit, m.closes = limit, closes
	return m
}

// Send puts a message of kind Text or Binary into the mailbox. It copies p and does not wait. The
// error is ErrMailboxFull, or the *CloseError with which the connection has ended. That there is
// none does not mean that the peer will get the message. Any goroutine may call it.
func (m *Mailbox) Send(kind int, p []byte) error {
	if _, _, err := data(kind); err != nil {
		return err
	}
	return m.put(boxed{kind: kind, p: p})
}

// SendPrepared is Send of a message that other connections get, too. It is not copied.
func (m *Mailbox) SendPrepared(p *PreparedMessage) error { return m.put(boxed{prepared: p}) }

func (m *Mailbox) put(b boxed) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.err != nil:
		return m.err
	case m.full || m.held+b.size() > m.limit:
		if m.closes && !m.full {
			m.full = true
			loop.Notify(m.thread)
		}
		return ErrMailboxFull
	}
	b.p = append([]byte(nil), b.p...)
	m.queue = append(m.queue, b)
	m.held += b.size()
	if len(m.queue) == 1 {
		loop.Notify(m.thread)
	}
	return nil
}

// Watch implements loop.Source, for the connection's thread: put notifies it in any case.
func (m *Mailbox) Watch(*loop.Thread) error { return nil }

// Unwatch implements loop.Source.
func (m *Mailbox) Unwatch(*loop.Thread) {}

// Ready implements loop.Source: there is something to send.
func (m *Mailbox) Ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.full || len(m.queue) > 0
}

// end drops what is in the mailbox of a connection that has ended.
func (m *Mailbox) end(err *CloseError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err, m.queue, m.held = err, nil, 0
}

// box returns the mailbox, if the connection may send what is in it now; else nil.
func (c *Conn) box() *Mailbox {
	if c.extra == nil || c.extra.box == nil || c.extra.writer != nil {
		return nil
	}
	return c.extra.box
}

// deliver sends what is in the mailbox.
func (c *Conn) deliver() error {
	m := c.box()
	if m == nil || c.err != nil {
		return c.failure()
	}
	m.mu.Lock()
	queue, full := m.queue, m.full
	m.queue = nil
	m.mu.Unlock()
	for i := range queue {
		if c.late() {
			m.mu.Lock()
			m.queue = append(queue[i:], m.queue...)
			m.mu.Unlock()
			return nil
		}
		b := &queue[i]
		var err error
		if b.prepared != nil {
			err = c.WritePrepared(b.prepared)
		} else {
			err = c.WriteMessage(b.kind, b.p)
		}
		if err != nil {
			return err
		}
		m.mu.Lock()
		m.held -= b.size()
		m.mu.Unlock()
	}
	if full {
		return c.violated(errOverflow)
	}
	return nil
}
