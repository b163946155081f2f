package http1

import "bytes"

// AppendSent appends a raw path, which CleanPath has taken, as it goes on to another program: as it
// was sent, with every encoding and every empty segment. Only three things are not as they were:
//
//   - Dot segments are resolved (RFC 3986 section 5.2.4), those between encoded slashes too, since
//     programs that decode a path first resolve them. Empty segments in front of ".." are none
//     here: "/a//../b" is "/b", as for CleanPath.
//   - An octet that may not stand in a path (section 3.3) is encoded.
//   - Slashes at the beginning become one: many programs read "//b/c" as the name of a server.
//
// So the result has no dot segment, whether its encoded slashes are taken for slashes or not, and
// CleanPath makes the same of it as of raw. An empty raw path is "/".
func AppendSent(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, '/')
	}
	n := sentLen(raw)
	if n == len(raw) {
		return append(dst, raw...)
	}
	return appendSentFrom(dst, raw, n, true)
}

// AppendResolved is AppendSent, but no octet is encoded.
func AppendResolved(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, '/')
	}
	return appendSentFrom(dst, raw, 1, false)
}

// Sent is AppendSent without a copy for a path that needs no change.
func Sent(raw []byte) []byte {
	if len(raw) > 0 && sentLen(raw) == len(raw) {
		return raw
	}
	return AppendSent(make([]byte, 0, len(raw)+16), raw)
}

// sentLen returns how many bytes of raw AppendSent leaves as they are, up to the beginning of a
// segment, or len(raw).
func sentLen(raw []byte) int {
	if len(raw) > 1 && raw[1] == '/' {
		return 1
	}
	segment := 1 // where the last one begins
	for i := 1; i < len(raw); i++ {
		c := raw[i]
		if class[c]&isHost != 0 && c != '.' {
			continue
		}
		switch n := slashLen(raw[i:]); {
		case n > 0:
			i += n - 1
			segment = i + 1
		case c == '%' && raw[i+1] == '2' && raw[i+2]|0x20 == 'e', c == '.':
			if i == segment && dotSegmentLen(raw[i:]) > 0 {
				return segment
			}
		case c == '%':
			i += 2
		case !inPath(c):
			return segment
		}
	}
	return len(raw)
}

// slashLen returns the length of the slash at the beginning of s, encoded or not; 0: none.
func slashLen(s []byte) int {
	switch {
	case len(s) > 0 && s[0] == '/':
		return 1
	case len(s) > 2 && s[0] == '%' && s[1] == '2' && s[2]|0x20 == 'f':
		return len("%2F")
	}
	return 0
}

// dotSegmentLen returns 1 or 2 if s begins with a segment of so many dots, encoded or not, else 0.
func dotSegmentLen(s []byte) int {
	for n := 0; ; n++ {
		switch {
		case len(s) == 0 || slashLen(s) > 0:
			return n
		case n == 2:
			return 0
		case s[0] == '.':
			s = s[1:]
		case len(s) > 2 && s[0] == '%' && s[1] == '2' && s[2]|0x20 == 'e':
			s = s[3:]
		default:
			return 0
		}
	}
}

// appendSentFrom is AppendSent for a path whose first n bytes, up to a slash, stay as they are.
// encode says whether octets are encoded.
func appendSentFrom(dst, raw []byte, n int, encode bool) []byte {
	root := len(dst)
	out := append(dst, raw[:n]...)
	for i := n; i < len(raw); {
		switch dotSegmentLen(raw[i:]) {
		case 2:
			out = cutLastSegment(out, root)
			fallthrough
		case 1:
			for i < len(raw) && slashLen(raw[i:]) == 0 {
				i++
			}
			i += slashLen(raw[i:])
			continue
		}
		for i < len(raw) && slashLen(raw[i:]) == 0 { // a segment
			if c := raw[i]; !encode || c == '%' || inPath(c) {
				out = append(out, c)
			} else {
				out = AppendPercent(out, c)
			}
			i++
		}
		slash := slashLen(raw[i:])
		if slash != 1 || len(out) > root+1 { // else it would be the second one in front
			out = append(out, raw[i:i+slash]...)
		}
		i += slash
	}
	return out
}

// cutLastSegment cuts the last segment that is not empty off a path, which begins at root and ends
// with a slash. No percent sign stands within an encoding, so "%2F" at the end is always a slash.
func cutLastSegment(out []byte, root int) []byte {
	last := func() int {
		if n := len(out); out[n-1] == '/' {
			return 1
		} else if n-root > 3 && slashLen(out[n-3:]) == 3 {
			return 3
		}
		return 0
	}
	for len(out) > root+1 && last() > 0 {
		out = out[:len(out)-last()]
	}
	for len(out) > root+1 && last() == 0 {
		out = out[:len(out)-1]
	}
	return out
}

// AppendMerged appends a path without its empty segments between slashes that are not encoded.
func AppendMerged(dst, sent []byte) []byte {
	if !bytes.Contains(sent, []byte("//")) {
		return append(dst, sent...)
	}
	for i, c := range sent {
		if c != '/' || i == 0 || sent[i-1] != '/' {
			dst = append(dst, c)
		}
	}
	return dst
}

// A Reading is one of the ways in which programs read the slashes of a path. Each of them is in
// use.
type Reading uint8

// Values of Reading.
const (
	// Merged: all is decoded, and a run of slashes is one, as CleanPath does it.
	Merged Reading = iota
	// EncodedKept: an encoded slash is part of its segment, and becomes EncodedSlash; a run of other
	// slashes is one.
	EncodedKept
	// Decoded: all is decoded, and nothing else; two slashes in a row are an empty segment.
	Decoded
	// AllKept: an encoded slash is part of its segment, and two slashes in a row are an empty segment.
	AllKept
	// MergedFirst: a run of slashes that are not encoded is one, and then all is decoded.
	MergedFirst
)

// Readings returns the readings of a path, in the form of AppendSent, that differ from Merged:
// nearly always none.
func Readings(sent []byte) []Reading {
	encoded, empty, beside := false, false, false
	last := 0 // the length of the slash before
	for i := 0; i < len(sent); {
		n := slashLen(sent[i:])
		encoded = encoded || n > 1
		empty = empty || n == 1 && last == 1
		beside = beside || n > 0 && last > 0 && n+last > 2
		last = n
		i += max(n, 1)
	}
	switch {
	case !encoded && !empty:
		return nil
	case !encoded:
		return onlyEmpty
	case !empty && !beside:
		return onlyEncoded
	case !empty:
		return encodedBeside
	case !beside:
		return everyReading[:3]
	}
	return everyReading
}

var (
	onlyEmpty     = []Reading{Decoded}
	onlyEncoded   = []Reading{EncodedKept}
	encodedBeside = []Reading{EncodedKept, Decoded}
	everyReading  = []Reading{EncodedKept, Decoded, AllKept, MergedFirst}
)

// Append appends the path as it is in that reading. sent is in the form of AppendSent.
func (r Reading) Append(dst, sent []byte) []byte {
	from := len(dst)
	var raw bool // the last byte is a slash that was not encoded
	for i := 0; i < len(sent); {
		c, n, keep := r.next(sent[i:], len(dst) > from && dst[len(dst)-1] == '/', raw)
		if keep {
			dst, raw = append(dst, c), n == 1 && c == '/'
		}
		i += n
	}
	return dst
}

// next reads the first octet of s: c stands for n bytes of it, and is left out if keep is false.
// slash says that the octet before, as far as one was kept, is a slash, and raw that this was not
// encoded.
func (r Reading) next(s []byte, slash, raw bool) (c byte, n int, keep bool) {
	c, n = s[0], 1
	if c == '%' {
		c, n = unhex(s[1])<<4|unhex(s[2]), 3
	}
	if c != '/' {
		return c, n, true
	}
	switch r {
	case Merged:
		return c, n, !slash
	case MergedFirst:
		return c, n, n > 1 || !slash || !raw
	case Decoded:
		return c, n, true
	}
	if n > 1 {
		return EncodedSlash[0], n, true
	}
	return c, n, r == AllKept || !slash
}

// Raw returns the part of sent that the octets from and following, up to to, of its reading stand
// for. The caller must not change it.
func (r Reading) Raw(sent []byte, from, to int) []byte {
	begin, end := len(sent), len(sent)
	slash, raw := false, false
	for i, at := 0, 0; i < len(sent); {
		c, n, keep := r.next(sent[i:], slash, raw)
		if keep {
			if at == from {
				begin = i
			}
			at++
			slash, raw = c == '/', n == 1 && c == '/'
		}
		if i += n; at == to {
			end = i
			break
		}
	}
	if begin > end || from >= to {
		return nil
	}
	return sent[begin:end]
}

// AppendBelow appends the part of a path behind its first n octets, as Merged counts them, which
// end before a slash or where the path ends: then it appends nothing. Else the part begins with a
// slash that is not encoded. Where a slash of these octets, or the one behind them, is encoded, or
// there are empty segments among them, the part is as Merged reads it: the caller has taken the one
// for a slash, and the others for nothing, so no reading may take those that follow for something
// else.
func AppendBelow(dst, sent []byte, n int) []byte {
	if n == 0 {
		return append(dst, sent...)
	}
	at, plain := 0, true
	for i, slash := 0, false; i < len(sent); {
		c, size, keep := Merged.next(sent[i:], slash, false)
		plain = plain && keep && (c != '/' || size == 1)
		if at == n && plain {
			return append(dst, sent[i:]...)
		}
		if !plain {
			merged := Merged.Append(nil, sent)
			return AppendPath(dst, merged[min(n, len(merged)):])
		}
		at++
		slash = c == '/'
		i += size
	}
	return dst
}
