package limit

import (
	"net/netip"
	"time"
)

// Slots is the number of slots of a Zone.
const Slots = rowLength * rowCount

// Zone counts requests.
type Zone struct{ z *zone }

// NewZone makes a zone for a rate such as "10/s".
func NewZone(rate string, burst int) Zone {
	var r Rate
	if err := r.UnmarshalText([]byte(rate)); err != nil {
		panic(err)
	}
	return Zone{newZone(r, burst)}
}

// Take counts a request at a time.
func (z Zone) Take(key uint64, now time.Duration) (wait time.Duration) {
	return time.Duration(z.z.take(key, int64(now)))
}

// Clients counts the requests of clients.
type Clients struct{ c *clients }

// NewClients makes the tables for a rate such as "10/s".
func NewClients(rate string, burst int) Clients {
	var r Rate
	if err := r.UnmarshalText([]byte(rate)); err != nil {
		panic(err)
	}
	return Clients{newClients(r, burst, true)}
}

// Take counts a request of an address, TakeKey one with a key.
func (c Clients) Take(client netip.Addr, now time.Duration) (wait time.Duration) {
	return time.Duration(c.c.take(client, int64(now)))
}

func (c Clients) TakeKey(key uint64, client netip.Addr, now time.Duration) (wait time.Duration) {
	return time.Duration(c.c.takeKey(key, client, int64(now)))
}

// Bytes returns how much memory the slots take.
func (z Zone) Bytes() int { return len(z.z.slots) * 16 }
