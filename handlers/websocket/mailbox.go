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
	queue  []mailboxEntry
	size   int // in bytes, as limit counts them
	full   bool
	err    *CloseError // what the connection has ended with
}

// mailboxEntry is a message in a Mailbox.
type mailboxEntry struct {
	kind     int
	p        []byte
	prepared *PreparedMessage // instead
}

// entryOverhead is how much a message counts besides its bytes.
const entryOverhead = 64

func (b *mailboxEntry) size() int {
	if b.prepared != nil {
		return entryOverhead + len(b.prepared.payload())
	}
	return entryOverhead + len(b.p)
}

// Mailbox returns the connection's mailbox. The thread of the connection calls it, and may give the
// result to others. limit bounds its content: the bytes of its messages, and 64 for each. closes
// says that the connection is closed, with TryAgainLater, if a message has no room, since a peer
// that lags so far had better connect again. Later calls change both.
func (c *Conn) Mailbox(limit int, closes bool) *Mailbox {
	x := c.ensureExtra()
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
// error is ErrMailboxFull, or the *CloseError with which the connection has ended. A nil error does
// not mean that the peer will get the message. Any goroutine may call it.
func (m *Mailbox) Send(kind int, p []byte) error {
	if _, _, err := data(kind); err != nil {
		return err
	}
	return m.put(mailboxEntry{kind: kind, p: p})
}

// SendPrepared is Send for a message that other connections get, too. It does not copy the message.
func (m *Mailbox) SendPrepared(p *PreparedMessage) error { return m.put(mailboxEntry{prepared: p}) }

func (m *Mailbox) put(b mailboxEntry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.err != nil:
		return m.err
	case m.full || m.size+b.size() > m.limit:
		if m.closes && !m.full {
			m.full = true
			loop.Notify(m.thread)
		}
		return ErrMailboxFull
	}
	b.p = append([]byte(nil), b.p...)
	m.queue = append(m.queue, b)
	m.size += b.size()
	if len(m.queue) == 1 {
		loop.Notify(m.thread)
	}
	return nil
}

// Watch implements loop.Source, for the connection's thread: put notifies the thread in any case.
func (m *Mailbox) Watch(*loop.Thread) error { return nil }

// Unwatch implements loop.Source.
func (m *Mailbox) Unwatch(*loop.Thread) {}

// Ready implements loop.Source. It is true if there is a message to send.
func (m *Mailbox) Ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.full || len(m.queue) > 0
}

// end drops what is in the mailbox of a connection that has ended.
func (m *Mailbox) end(err *CloseError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err, m.queue, m.size = err, nil, 0
}

// box returns the mailbox if the connection may send its messages now, or else nil.
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
		if c.finalTimePassed() {
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
		m.size -= b.size()
		m.mu.Unlock()
	}
	if full {
		return c.failProtocol(errOverflow)
	}
	return nil
}
