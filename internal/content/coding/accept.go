// Package coding knows the content codings that the server speaks: which one a client wants, what
// is worth encoding, and the encoders. It knows nothing of requests.
//
//	accept.go   Accept-Encoding
//	policy.go   what is encoded, and how
//	encoder.go  the encoders, and how many there may be
//	cache.go    files that were encoded before
package coding

import (
	"bytes"

	"github.com/lwango/lwango/internal/base/ascii"
)

// Coding is a content coding (RFC 9110 section 8.4.1).
type Coding uint8

// The codings. Identity means that there is none.
const (
	Identity Coding = iota
	Gzip
	Brotli
	Zstd

	// Kinds is how many there are.
	Kinds
)

// All are the codings that a server can choose, best first: zstd costs the least for its size, and
// every client takes gzip.
var All = []Coding{Zstd, Brotli, Gzip}

var names = [Kinds]string{"identity", "gzip", "br", "zstd"}

// String returns the name that the coding has in header fields.
func (c Coding) String() string { return names[c] }

// Extension returns the extension of the names of files that hold the encoded form of others.
func (c Coding) Extension() string { return [Kinds]string{"", ".gz", ".br", ".zst"}[c] }

// Named returns the coding of a name, in any case of letters. RFC 9110 section 8.4.1.3 has x-gzip
// mean gzip.
func Named[T string | []byte](name T) (Coding, bool) {
	for c, n := range names {
		if ascii.EqualFold(name, n) {
			return Coding(c), true
		}
	}
	if ascii.EqualFold(name, "x-gzip") {
		return Gzip, true
	}
	return Identity, false
}

// Accept is what a client says in Accept-Encoding (RFC 9110 section 12.5.3). The zero value is that
// of a client that says nothing, which gets no coding: it may know none.
type Accept struct {
	// Weights in thousandths, and one more; 0: not named.
	weight [Kinds]uint16
	others uint16 // of all that is not named: "*"
}

// Add takes the value of one field. An element that is malformed is left out.
func (a *Accept) Add(list []byte) {
	for len(list) > 0 {
		var name []byte
		name, list, _ = bytes.Cut(list, []byte(","))
		weight := 1000
		if i := bytes.IndexByte(name, ';'); i >= 0 {
			weight = parseWeight(ascii.TrimOWS(name[i+1:]))
			name = name[:i]
		}
		name = ascii.TrimOWS(name)
		if weight < 0 {
			continue
		}
		if len(name) == 1 && name[0] == '*' {
			a.others = uint16(weight + 1)
		} else if c, ok := Named(name); ok {
			a.weight[c] = uint16(weight + 1)
		}
	}
}

// parseWeight reads "q=" and a number from 0 to 1 with up to three digits behind the point (RFC
// 9110 section 12.4.2), and returns it in thousandths; -1 if it is none.
func parseWeight(s []byte) int {
	if !ascii.HasPrefixFold(s, "q=") {
		return -1
	}
	s = s[len("q="):]
	if len(s) == 0 || s[0] != '0' && s[0] != '1' || len(s) > len("0.000") ||
		len(s) > 1 && s[1] != '.' {
		return -1
	}
	weight, place := int(s[0]-'0')*1000, 100
	for _, c := range s[min(2, len(s)):] {
		if c < '0' || c > '9' {
			return -1
		}
		weight += int(c-'0') * place
		place /= 10
	}
	if weight > 1000 {
		return -1
	}
	return weight
}

// of returns the weight of a coding, in thousandths. What the client has not named has that of "*",
// or else 0.
func (a *Accept) of(c Coding) int {
	switch {
	case a.weight[c] > 0:
		return int(a.weight[c]) - 1
	case a.others > 0:
		return int(a.others) - 1
	}
	return 0
}

// Rank appends to dst those of the given codings that the client accepts and does not like less
// than no coding at all. They are in the order of the client's weights, and in the given order
// where these are equal.
func (a *Accept) Rank(dst, order []Coding) []Coding {
	identity := a.of(Identity)
	for _, c := range order {
		w := a.of(c)
		if w == 0 || w < identity {
			continue
		}
		dst = append(dst, c)
		for i := len(dst) - 1; i > 0 && a.of(dst[i-1]) < w; i-- {
			dst[i-1], dst[i] = dst[i], dst[i-1]
		}
	}
	return dst
}
