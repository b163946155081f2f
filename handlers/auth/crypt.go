package auth

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	stdhash "hash"
	"strconv"
	"strings"

	"github.com/go-crypt/x/crypt"
	"github.com/go-crypt/x/yescrypt"
	"golang.org/x/crypto/argon2"
)

// Hashes of crypt(3) and argon2. A file may not ask for more time or memory than these bounds,
// since each request with a wrong password costs it; a second and 128 MiB are about the most.
const (
	sha256Magic   = "$5$"
	sha512Magic   = "$6$"
	yescryptMagic = "$y$"
	argon2Magic   = "$argon2"

	usualRounds  = 5000 // of SHA-256 and SHA-512 without a number
	leastRounds  = 1000
	maxRounds    = 500_000
	maxMemory    = 128 << 10 // KiB
	maxPasses    = 1 << 20   // KiB times passes
	maxLanes     = 16
	maxSaltBytes = 64
	maxSumBytes  = 64
)

// shaCrypt is a hash of SHA-256 or SHA-512 as crypt(3) makes it.
type shaCrypt struct {
	hash   func() stdhash.Hash
	rounds int
	salt   string
	sum    string
}

func parseSHACrypt(s string) (c shaCrypt, err error) {
	incomplete := errors.New("not a complete hash of SHA-256 or SHA-512")
	length := 43
	c.hash, c.rounds = sha256.New, usualRounds
	if strings.HasPrefix(s, sha512Magic) {
		c.hash, length = sha512.New, 86
	}
	rest := s[len(sha256Magic):]
	if number, ok := strings.CutPrefix(rest, "rounds="); ok {
		number, rest, ok = strings.Cut(number, "$")
		n, err := strconv.ParseUint(number, 10, 31)
		switch {
		case !ok || err != nil:
			return c, incomplete
		case n < leastRounds || n > maxRounds:
			return c, fmt.Errorf("the rounds of SHA-256 and SHA-512 must be %d to %d", leastRounds,
				maxRounds)
		}
		c.rounds = int(n)
	}
	var ok bool
	c.salt, c.sum, ok = strings.Cut(rest, "$")
	if !ok || len(c.salt) > 16 || len(c.sum) != length || !isCrypt(c.sum) {
		return c, incomplete
	}
	return c, nil
}

func (c shaCrypt) matches(password []byte) bool {
	return equal(c.sum, string(crypt.KeySHACrypt(c.hash, password, []byte(c.salt), c.rounds)))
}

// checkYescrypt checks a hash of yescrypt: $y$, the letter j, one for the number of blocks and one
// for their size, the salt and the sum.
func checkYescrypt(s string) error {
	rest := s[len(yescryptMagic):]
	settings, rest, _ := strings.Cut(rest, "$")
	salt, sum, ok := strings.Cut(rest, "$")
	if !ok || len(sum) != 43 || salt == "" || len(salt) > 86 || !isCrypt(settings+salt+sum) {
		return errors.New("not a complete hash of yescrypt")
	}
	if len(settings) != 3 || settings[0] != 'j' {
		return errors.New("this kind of yescrypt is not known; the one of mkpasswd is, with $y$j")
	}
	log, size := strings.IndexByte(cryptDigits, settings[1])+1, strings.IndexByte(cryptDigits,
		settings[2])+1
	if log < 10 || log > 18 || size > 32 || size<<log>>3 > maxMemory { // blocks of 128 bytes
		return fmt.Errorf("the cost of yescrypt must be 1024 blocks or more, and %d MiB or less",
			maxMemory>>10)
	}
	return nil
}

func matchesYescrypt(s string, password []byte) bool {
	made, err := yescrypt.Hash(password, []byte(s))
	return err == nil && equal(s, string(made))
}

// argon is a hash of argon2, as in $argon2id$v=19$m=65536,t=3,p=4$salt$sum.
type argon struct {
	id                    bool
	memory, passes, lanes uint32
	salt, sum             []byte
}

func parseArgon2(s string) (a argon, err error) {
	incomplete := errors.New("not a complete hash of argon2")
	parts := strings.Split(s, "$")
	if len(parts) != 6 {
		return a, incomplete
	}
	switch parts[1] {
	case "argon2id":
		a.id = true
	case "argon2i":
	default:
		return a, errors.New("of argon2 only argon2id and argon2i are known")
	}
	if parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return a, errors.New("of argon2 only version 19 is known")
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &a.memory, &a.passes, &a.lanes); err != nil ||
		parts[3] != fmt.Sprintf("m=%d,t=%d,p=%d", a.memory, a.passes, a.lanes) {
		return a, incomplete
	}
	a.salt, err = base64.RawStdEncoding.Strict().DecodeString(parts[4])
	var sumErr error
	a.sum, sumErr = base64.RawStdEncoding.Strict().DecodeString(parts[5])
	switch {
	case err != nil || sumErr != nil || len(a.salt) < 8 || len(a.salt) > maxSaltBytes ||
		len(a.sum) < 16 || len(a.sum) > maxSumBytes:
		return a, incomplete
	case a.passes < 1 || a.lanes < 1 || a.lanes > maxLanes || a.memory < 8*a.lanes ||
		a.memory > maxMemory || uint64(a.passes)*uint64(a.memory) > maxPasses:
		return a, fmt.Errorf("the cost of argon2 must be %d MiB or less, t times m %d or less, and "+
			"p %d or less", maxMemory>>10, maxPasses, maxLanes)
	}
	return a, nil
}

func (a argon) matches(password []byte) bool {
	key := argon2.Key
	if a.id {
		key = argon2.IDKey
	}
	made := key(password, a.salt, a.passes, a.memory, uint8(a.lanes), uint32(len(a.sum)))
	return subtle.ConstantTimeCompare(made, a.sum) == 1
}
