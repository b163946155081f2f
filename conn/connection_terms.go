package conn

import "sync/atomic"

// terms are what a port asks of its clients: TLS, of which version, and whose certificate. When
// they become stricter, what has been agreed on before does not suffice any more.
type terms struct {
	count *atomic.Uint32 // of Listener; nil: they never change
	first mark           // when the port was made, for all of its plain connections
}

// mark is a count of terms. It has few bits, since each idle connection has one: a connection whose
// answer is under way while they change 4 times passes for a new one.
type mark uint8

const markBits = 8 - firstAgreed

// state returns the state of a connection of which no more is known.
func (m mark) state() state { return state(m) << firstAgreed }

func newTerms(count *atomic.Uint32) terms {
	t := terms{count: count}
	t.first = t.current()
	return t
}

func (t *terms) current() mark {
	if t.count == nil {
		return 0
	}
	return mark(t.count.Load() & (1<<markBits - 1))
}

// agree notes the terms that the client meets.
func (c *connection) agree(m mark) { c.state = c.state&(1<<firstAgreed-1) | m.state() }

// outdated reports whether the client has met terms that are not those of the port any more.
func (c *connection) outdated() bool {
	return mark(c.state>>firstAgreed) != c.port.terms.current()
}
