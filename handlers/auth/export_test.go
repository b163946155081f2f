package auth

import (
	"crypto/sha256"
	"net/netip"
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
)

// Bounds of the gate and of a remembered result.
const (
	MaxFlights            = maxFlights
	MaxFlightsFromNetwork = maxFlightsFromNetwork
	ProvedFor             = provedFor
)

// LookAlways lets every request look at the file until the test ends.
func LookAlways(t testing.TB) {
	before := lookEvery
	lookEvery = 0
	t.Cleanup(func() { lookEvery = before })
}

// Users returns the names and hashes of a file.
func Users(text []byte) (map[string]string, error) {
	t, err := parse(text)
	if err != nil {
		return nil, err
	}
	users := make(map[string]string)
	for _, e := range t.all {
		users[e.name] = string(e.hash)
	}
	return users, nil
}

// Line returns the line of an error of Users.
func Line(err error) int { return err.(*lineError).line }

// Matches checks a hash and compares it with a password.
func Matches(hashed, password string) (bool, error) {
	h, err := parseHash(hashed)
	return err == nil && h.matches([]byte(password)), err
}

// Credentials decodes an Authorization field.
func Credentials(field string) (name, password string, ok bool) {
	n, p, ok := credentials(make([]byte, maxCredentials), []byte(field))
	return string(n), string(p), ok
}

// Decoy returns the name of the user whose hash is computed for a name that no user has.
func Decoy(text []byte, name string) string {
	t, _ := parse(text)
	first := t.decoy([]byte(name))
	if again := t.decoy([]byte(name)); again != first {
		panic("a decoy changes")
	}
	return first.name
}

// Occupy takes n places of the gate, as n verifications that do not end until free is called.
func Occupy(n int, network string) (free func()) {
	gates.mu.Lock()
	defer gates.mu.Unlock()
	from, _ := netip.ParseAddr(network)
	for i := range n {
		gates.flights[[sha256.Size]byte{byte(i)}] = new(loop.Promise[bool])
	}
	gates.from[from] += n
	return func() {
		gates.mu.Lock()
		defer gates.mu.Unlock()
		for i := range n {
			delete(gates.flights, [sha256.Size]byte{byte(i)})
		}
		if gates.from[from] -= n; gates.from[from] == 0 {
			delete(gates.from, from)
		}
	}
}

// Proved tells for a user whose credentials were right d ago whether they, and others, count.
func Proved(d time.Duration) (same, others bool) {
	now := time.Now()
	var e entry
	digest := [sha256.Size]byte{1}
	e.proved.Store(&proof{digest, now.Add(provedFor)})
	return e.isProved(&digest, now.Add(d)), e.isProved(new([sha256.Size]byte), now.Add(d))
}
