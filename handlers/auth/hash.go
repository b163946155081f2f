package auth

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// hash is the hash of a password, of a kind that matches knows.
type hash string

const (
	apr1Magic = "$apr1$"
	md5Magic  = "$1$"
	shaMagic  = "{SHA}"

	// maxCost is the highest cost of bcrypt. It takes about a second, and each step doubles that.
	maxCost = 14

	cryptDigits = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// parseHash checks a hash as it stands in a file. Errors do not repeat it.
func parseHash(s string) (hash, error) {
	switch {
	case s == "":
		return "", errors.New("no hash of a password behind the name")
	case strings.HasPrefix(s, "$2a$"), strings.HasPrefix(s, "$2b$"), strings.HasPrefix(s, "$2y$"):
		if len(s) != 60 || s[6] != '$' || !isCrypt(s[7:]) {
			return "", errors.New("not a complete hash of bcrypt")
		}
		cost, err := strconv.Atoi(s[4:6])
		if err != nil || s[4] == '+' || cost < bcrypt.MinCost || cost > maxCost {
			return "", fmt.Errorf("the cost of bcrypt must be %d to %d", bcrypt.MinCost, maxCost)
		}
	case strings.HasPrefix(s, apr1Magic), strings.HasPrefix(s, md5Magic):
		_, salt, sum, ok := cutMD5(s)
		if !ok || len(salt) < 1 || len(salt) > 8 || len(sum) != 22 || !isCrypt(salt+sum) {
			return "", errors.New("not a complete hash of APR1 or MD5")
		}
	case strings.HasPrefix(s, sha256Magic), strings.HasPrefix(s, sha512Magic):
		if _, err := parseSHACrypt(s); err != nil {
			return "", err
		}
	case strings.HasPrefix(s, yescryptMagic):
		if err := checkYescrypt(s); err != nil {
			return "", err
		}
	case strings.HasPrefix(s, argon2Magic):
		if _, err := parseArgon2(s); err != nil {
			return "", err
		}
	case strings.HasPrefix(s, shaMagic):
		sum, err := base64.StdEncoding.Strict().DecodeString(s[len(shaMagic):])
		// The decoder ignores line ends, which a hash does not have.
		if err != nil || len(sum) != sha1.Size || strings.Contains(s, "\r") {
			return "", errors.New("not a complete hash of SHA")
		}
	case s[0] == '$' && strings.Count(s, "$") > 2:
		kind, _, _ := strings.Cut(s[1:], "$")
		if !isCrypt(kind) || len(kind) > 8 { // then it may be a password
			kind = "..."
		}
		return "", fmt.Errorf("hashes of the kind $%s$ are not known; %s", kind, known)
	default:
		return "", errors.New("the password is plain, or hashed by DES; " + known)
	}
	return hash(s), nil
}

const known = "bcrypt (which htpasswd -B makes), argon2, yescrypt, $6$, $5$, $1$, APR1 and {SHA} " +
	"are"

func isCrypt(s string) bool { return strings.Trim(s, cryptDigits) == "" }

// matches reports whether h is the hash of the password. It may take a second.
func (h hash) matches(password []byte) bool {
	switch {
	case strings.HasPrefix(string(h), apr1Magic), strings.HasPrefix(string(h), md5Magic):
		magic, salt, _, _ := cutMD5(string(h))
		return equal(string(h), md5Crypt(password, magic, salt))
	case strings.HasPrefix(string(h), sha256Magic), strings.HasPrefix(string(h), sha512Magic):
		s, err := parseSHACrypt(string(h))
		return err == nil && s.matches(password)
	case strings.HasPrefix(string(h), yescryptMagic):
		return matchesYescrypt(string(h), password)
	case strings.HasPrefix(string(h), argon2Magic):
		a, err := parseArgon2(string(h))
		return err == nil && a.matches(password)
	case strings.HasPrefix(string(h), shaMagic):
		sum := sha1.Sum(password)
		return equal(string(h), shaMagic+base64.StdEncoding.EncodeToString(sum[:]))
	}
	return bcrypt.CompareHashAndPassword([]byte(h), password) == nil
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// cutMD5 returns the parts of a hash of APR1 or MD5.
func cutMD5(s string) (magic, salt, sum string, ok bool) {
	magic = md5Magic
	if strings.HasPrefix(s, apr1Magic) {
		magic = apr1Magic
	}
	salt, sum, ok = strings.Cut(s[len(magic):], "$")
	return magic, salt, sum, ok
}

// md5Crypt returns the MD5 crypt of FreeBSD of a password, or, with another magic string, APR1: a
// sum over password, magic and salt, then a thousand rounds over password, salt and the last sum,
// and an alphabet of its own.
func md5Crypt(password []byte, magic, salt string) string {
	inner := md5.New()
	inner.Write(password)
	inner.Write([]byte(salt))
	inner.Write(password)
	sum := inner.Sum(nil)

	d := md5.New()
	d.Write(password)
	d.Write([]byte(magic + salt))
	for n := len(password); n > 0; n -= md5.Size {
		d.Write(sum[:min(n, md5.Size)])
	}
	for n := len(password); n > 0; n >>= 1 {
		if n&1 == 1 {
			d.Write([]byte{0})
		} else {
			d.Write(password[:1])
		}
	}
	sum = d.Sum(sum[:0])

	for i := range 1000 {
		d.Reset()
		odd := i&1 == 1
		if odd {
			d.Write(password)
		} else {
			d.Write(sum)
		}
		if i%3 != 0 {
			d.Write([]byte(salt))
		}
		if i%7 != 0 {
			d.Write(password)
		}
		if odd {
			d.Write(sum)
		} else {
			d.Write(password)
		}
		sum = d.Sum(sum[:0])
	}

	out := []byte(magic + salt + "$")
	digits := func(n, count int) {
		for range count {
			out = append(out, cryptDigits[n&0x3f])
			n >>= 6
		}
	}
	for i := range 5 { // each time three bytes, a third of the sum apart; 5 takes the place of 16
		last := i + 12
		if last == 16 {
			last = 5
		}
		digits(int(sum[i])<<16|int(sum[i+6])<<8|int(sum[last]), 4)
	}
	digits(int(sum[11]), 2)
	return string(out)
}
