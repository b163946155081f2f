package auth

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/slots"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http1"
)

// ForgetAlways lets credentials that were right be verified again each time, until the test ends.
func ForgetAlways(t testing.TB) {
	before := verifiedFor
	verifiedFor = 0
	t.Cleanup(func() { verifiedFor = before })
}

// CheckAlways lets every request check the file, and wait for the result, until the test ends.
func CheckAlways(t testing.TB) {
	every, most := checkInterval, checkTimeout
	checkInterval, checkTimeout = 0, wait.Patience
	t.Cleanup(func() { checkInterval, checkTimeout = every, most })
}

// Meant sets the age from which a file without users is meant to be so, until the test ends.
func Meant(t testing.TB, d time.Duration) {
	before := meant
	meant = d
	t.Cleanup(func() { meant = before })
}

// RenewAlways lets tokens of unknown keys have the keys read again, whenever that was done last,
// for handlers that are made until the test ends.
func RenewAlways(t testing.TB) {
	before := keysLeast
	keysLeast = 0
	t.Cleanup(func() { keysLeast = before })
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

// Hold takes all slots of the gate until free is called.
func Hold() (free func()) { return slots.Take(gates.slots) }

// Patience sets how long a request waits for its verification, and one whose credentials were right
// before, until the test ends.
func Patience(t testing.TB, limit, known time.Duration) {
	before, beforeKnown := maxWait, maxKnownWait
	maxWait, maxKnownWait = limit, known
	t.Cleanup(func() { maxWait, maxKnownWait = before, beforeKnown })
}

// ForgetSuspects lets all sites be as if they had not guessed.
func ForgetSuspects() {
	gates.mu.Lock()
	defer gates.mu.Unlock()
	gates.wrong = recentFailures{}
}

// Suspects tells whether a client network that has guessed is known d later, in a table that
// another one has asked since if between is set.
func Suspects(d, between time.Duration) bool {
	var s recentFailures
	now := time.Now()
	a := netip.MustParseAddr("192.0.2.1")
	s.add(a, now)
	if between > 0 {
		s.add(netip.MustParseAddr("192.0.2.2"), now.Add(between))
	}
	return s.has(a, now.Add(d))
}

// ProvedFor returns for how long credentials that were right are not verified again.
func ProvedFor() time.Duration { return verifiedFor }

// Proved tells for a user whose credentials were right d ago whether they are known and need not be
// verified, and whether others are.
func Proved(d time.Duration) (known, fresh, others bool) {
	now := time.Now()
	var e entry
	digest := [sha256.Size]byte{1}
	e.proved.Store(&proof{digest, now.Add(verifiedFor)})
	known, fresh = e.matches(&digest, now.Add(d))
	others, _ = e.matches(new([sha256.Size]byte), now.Add(d))
	return known, fresh, others
}

// MaxAnswers is how many answers a cache has at most.
const MaxAnswers = maxAnswers

// MaxRemoved is how many of them make way for a new one at most.
const MaxRemoved = maxRemoved

// Cache is a cache of answers by numbers.
type Cache struct{ *cache }

func NewCache(d time.Duration) Cache { return Cache{newCache(&Settings{Cache: d})} }

func number(n int) (d digest) {
	binary.BigEndian.PutUint64(d[:], uint64(n))
	return d
}

func (c Cache) Add(n int, now time.Time)      { c.add(number(n), new(answer), now) }
func (c Cache) Has(n int, now time.Time) bool { return c.find(number(n), now) != nil }
func (c Cache) Len() int                      { return max(len(c.answers), len(c.oldest)) }
