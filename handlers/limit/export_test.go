package limit

import (
	"encoding/binary"
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
	return waits(z.z.take(key, int64(now), 0))
}

// Clients counts the requests of clients.
type Clients struct{ c *clients }

// NewClients makes the tables for a rate such as "10/s".
func NewClients(rate string, burst int) Clients {
	var r Rate
	if err := r.UnmarshalText([]byte(rate)); err != nil {
		panic(err)
	}
	return Clients{newClients(r, burst, byText)}
}

// Take counts a request of an address, TakeKey one with a key.
func (c Clients) Take(client netip.Addr, now time.Duration) (wait time.Duration) {
	return waits(c.c.take(client, int64(now), 0))
}

func (c Clients) TakeKey(key uint64, client netip.Addr, now time.Duration) (wait time.Duration) {
	text := binary.NativeEndian.AppendUint64(nil, key)
	return waits(c.c.takeText(text, client, int64(now), 0))
}

// waits is after what time a request may come again; 0: it has passed.
func waits(t turn) time.Duration {
	if t.pass {
		return 0
	}
	return time.Duration(t.wait)
}

// Bytes returns how much memory the slots take.
func (z Zone) Bytes() int { return len(z.z.slots) * 16 }
