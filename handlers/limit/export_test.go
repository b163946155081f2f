package limit

import "time"

// Places is the number of places of a Zone.
const Places = rowLength * rowCount

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

// Bytes returns how much memory the places take.
func (z Zone) Bytes() int { return len(z.z.places) * 16 }
