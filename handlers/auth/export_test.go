package auth

import (
	"crypto/sha256"
	"net/netip"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// Bounds of the gate and of a remembered result.
const (
	MaxFlights            = maxFlights
	MaxFlightsFromNetwork = maxFlightsFromNetwork
)

// ForgetAlways lets credentials that were right be verified again each time, until the test ends.
func ForgetAlways(t testing.TB) {
	before := provedFor
	provedFor = 0
	t.Cleanup(func() { provedFor = before })
}

// LookAlways lets every request look at the file, and wait for the result, until the test ends.
func LookAlways(t testing.TB) {
	every, most := lookEvery, lookWait
	lookEvery, lookWait = 0, wait.Patience
	t.Cleanup(func() { lookEvery, lookWait = every, most })
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
	n, p, ok := http1.BasicCredentials(make([]byte, maxCredentials), []byte(field))
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

// occupied makes the digests of Occupy different.
var occupied byte

// Occupy takes n places of the gate, as n verifications that do not end until free is called.
func Occupy(n int, network string) (free func()) {
	gates.mu.Lock()
	defer gates.mu.Unlock()
	from, _ := netip.ParseAddr(network)
	occupied++
	var all [][sha256.Size]byte
	for i := range n {
		d := [sha256.Size]byte{byte(i), occupied}
		all = append(all, d)
		gates.flights[d] = new(loop.Promise[bool])
	}
	gates.from[from] += n
	return func() {
		gates.mu.Lock()
		defer gates.mu.Unlock()
		for _, d := range all {
			delete(gates.flights, d)
		}
		if gates.from[from] -= n; gates.from[from] == 0 {
			delete(gates.from, from)
		}
	}
}

// ProvedFor returns for how long credentials that were right are not verified again.
func ProvedFor() time.Duration { return provedFor }

// Proved tells for a user whose credentials were right d ago whether they are known and need not be
// verified, and whether others are.
func Proved(d time.Duration) (known, fresh, others bool) {
	now := time.Now()
	var e entry
	digest := [sha256.Size]byte{1}
	e.proved.Store(&proof{digest, now.Add(provedFor)})
	known, fresh = e.proves(&digest, now.Add(d))
	others, _ = e.proves(new([sha256.Size]byte), now.Add(d))
	return known, fresh, others
}

// AtATime returns how many verifications run at a time in a new process.
func AtATime() int { return cap(newGate().running()) }
