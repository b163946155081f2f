// Package openfiles divides the descriptors of the process among their uses, so that none of them
// leaves too few for the others. There is one Budget for the process, for all of its servers:
// Process.
//
// A descriptor is one of these:
//
//   - The server's own, such as epoll's, sockets that listen, logs. Their number is known
//     beforehand. The server says it to Reserve.
//   - One that is kept open so that the next request is cheaper: a file, a pipe. All of these have
//     an eighth of the limit, first come, first served. Keep takes n of them or returns false, and
//     then the caller does without. Drop returns them.
//   - A connection of a client. Connected counts them, and max_connections bounds them.
//   - A descriptor of a request: a connection to an upstream, a temporary file, the file that it
//     sends. Every connection may have two of these, for one request at a time; max_connections
//     leaves room for them, and they are not counted. A connection that carries many requests at
//     once, as one of HTTP/2 does, takes the descriptors of its requests beyond these two: Take,
//     before a request opens anything, and Give with the same client and number after the close. If
//     Take returns false, the request waits or gets 503.
//
// Take leaves an eighth of the limit to uses that do not take. Of the rest a client may hold as
// much as is free: half of it if it is alone, a third each if there are two. The clients of an IPv6
// /48 may hold three times as much as is free. The zero Addr stands for any number of clients, as a
// trusted proxy has, and has no such bound.
//
// Descriptors that are not counted (files of a program, lookups of names) may still be too many.
// Last shows that by a descriptor's number: a descriptor that is only kept open is then closed at
// once.
//
// All of it is safe for any goroutine.
package openfiles

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/internal/base/sysio"
)

// Process is the Budget of this process. The Go runtime has raised the limit before.
var Process = New(sysio.DescriptorLimit())

// part: the descriptors that are kept open may be a part-th of the limit, and Take leaves as many
// to other uses.
const part = 8

// Budget is a number of descriptors and their uses.
type Budget struct {
	limit int64 // does not change

	reserved  atomic.Int64
	kept      atomic.Int64
	connected atomic.Int64

	mu      sync.Mutex
	taken   int64
	clients networks.Counts // of taken, by client
}

// New returns a Budget of that many descriptors, none of which has a use.
func New(limit int) *Budget { return &Budget{limit: int64(limit)} }

// Limit returns how many descriptors there are.
func (b *Budget) Limit() int { return int(b.limit) }

// Share returns how many of n descriptors can be kept open at most.
func (b *Budget) Share(n int) int { return min(n, int(b.limit/part)) }

// Reserve says that n more descriptors, or fewer, are a server's own.
func (b *Budget) Reserve(n int) { b.reserved.Add(int64(n)) }

// Keep reports whether n descriptors more may be kept open, until Drop.
func (b *Budget) Keep(n int) bool {
	if b.kept.Add(int64(n)) > b.limit/part {
		b.kept.Add(-int64(n))
		return false
	}
	return true
}

// Drop undoes Keep.
func (b *Budget) Drop(n int) { b.kept.Add(-int64(n)) }

// Kept returns how many descriptors are kept open.
func (b *Budget) Kept() int { return int(b.kept.Load()) }

// Connected says that clients have n more connections, or fewer.
func (b *Budget) Connected(n int) { b.connected.Add(int64(n)) }

// Connections returns how many connections all clients have.
func (b *Budget) Connections() int { return int(b.connected.Load()) }

// Take reports whether the requests of a client may hold n descriptors more, beyond the two of each
// of its connections, until Give.
func (b *Budget) Take(client netip.Addr, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	more := int64(n)
	// The descriptors that are kept open may grow to their part at any time.
	free := b.limit - 2*(b.limit/part) - b.reserved.Load() - b.connected.Load() - b.taken - more
	if free < 0 {
		return false
	}
	if client.IsValid() {
		network, clientNet := b.clients.Of(client)
		if network+more > free || (clientNet+more)/3 > free {
			return false
		}
	}
	b.taken += more
	b.clients.Add(client, more)
	return true
}

// Give undoes Take.
func (b *Budget) Give(client netip.Addr, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= int64(n)
	b.clients.Add(client, -int64(n))
}

// Taken returns how many descriptors were taken for the requests of all clients.
func (b *Budget) Taken() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.taken)
}

// Last reports whether fd, which was opened a moment ago, is one of the last eighth. The kernel
// gives the lowest number that is free (POSIX.1-2024, 2.6), so all numbers below it are in use
// then.
func (b *Budget) Last(fd int) bool { return int64(fd) >= b.limit-b.limit/part }
