package http1

import "bytes"

// CleanPath turns the raw path of a request into the one to route and to open: percent-encodings
// decoded once, runs of '/' made one, "." and ".." resolved (RFC 3986 section 5.2.4), all in one
// go, so that "%2e%2e" and "%2F" cannot carry a dot segment past a check done earlier. The result
// begins with '/', never contains "//", "/./" or "/../", and ends with '/' if raw names a directory
// by "/", "/." or "/..". An empty raw path is "/" (RFC 9110 section 4.2.3).
//
// A path above the root, which RFC 3986 would cut off there, is ErrPathAbove: only clients that
// probe the server send one. Malformed encodings, NUL, other controls and DEL, raw or decoded, are
// ErrPath, as is a path that does not begin with '/'. Bytes above 0x7f pass, valid UTF-8 or not:
// file names are bytes.
//
// A path that is clean already is returned as it is, without a copy. Otherwise the result is
// written to dst[:0], which is replaced only if its capacity is smaller than len(raw); dst may be
// raw[:0], as writing never overtakes reading.
func CleanPath(dst, raw []byte) (path []byte, err error) {
	if len(raw) == 0 {
		return append(dst[:0], '/'), nil
	}
	if raw[0] != '/' {
		return nil, ErrPath
	}
	segment := 1 // where the last segment begins
	for i := 1; i < len(raw); i++ {
		c := raw[i]
		if class[c]&isPlain != 0 && (c != '.' || i != segment || !dotSegment(raw[i:])) {
			continue
		}
		if c != '/' || i == segment {
			// Work to do, and up to this segment all was clean.
			return cleanFrom(dst, raw, segment)
		}
		segment = i + 1
	}
	return raw, nil
}

// dotSegment reports whether s, which begins with a dot, begins with a segment of one or two dots.
func dotSegment(s []byte) bool {
	if s = s[1:]; len(s) > 0 && s[0] == '.' {
		s = s[1:]
	}
	return len(s) == 0 || s[0] == '/'
}

// cleanFrom is CleanPath for a path whose first n bytes, up to and with a '/', are clean.
func cleanFrom(dst, raw []byte, n int) ([]byte, error) {
	if cap(dst) < len(raw) {
		dst = make([]byte, 0, len(raw))
	}
	out := append(dst[:0], raw[:n]...)
	segment := n
	for i := n; i < len(raw); i++ {
		c := raw[i]
		if c == '%' {
			if i+2 >= len(raw) || class[raw[i+1]]&class[raw[i+2]]&isHex == 0 {
				return nil, ErrPath
			}
			c = unhex(raw[i+1])<<4 | unhex(raw[i+2])
			i += 2
		}
		if c < 0x20 || c == 0x7f {
			return nil, ErrPath
		}
		if c != '/' {
			out = append(out, c)
			continue
		}
		var ok bool
		if out, ok = closeSegment(out, segment); !ok {
			return nil, ErrPathAbove
		}
		if out[len(out)-1] != '/' {
			out = append(out, '/')
		}
		segment = len(out)
	}
	out, ok := closeSegment(out, segment)
	if !ok {
		return nil, ErrPathAbove
	}
	return out, nil
}

// closeSegment removes the segment that begins at n if it is a dot segment, and the one before it
// if it is two dots; ok is false if there is none before.
func closeSegment(out []byte, n int) (_ []byte, ok bool) {
	switch string(out[n:]) {
	case ".":
		return out[:n], true
	case "..":
		if n == 1 {
			return nil, false
		}
		n-- // the '/' before
		for out[n-1] != '/' {
			n--
		}
		return out[:n], true
	}
	return out, true
}

// EncodedSlash stands for a slash within a segment, as a client has encoded it ("%2F"), in paths
// that SplitPath returns, and in readings. No path of a request has a NUL.
const EncodedSlash = "\x00"

// SplitPath returns the path in which an encoded slash is part of its segment: it has EncodedSlash
// there, and its other slashes are those between segments. path is what CleanPath has made of raw;
// SplitPath returns it, and allocates nothing, if there is no encoded slash.
//
// clean reports whether nothing but encodings was resolved between the slashes that are not
// encoded. Otherwise SplitPath returns path, in which no dots are between encoded slashes.
func SplitPath(path, raw []byte) (split []byte, clean bool) {
	if len(raw) == len(path) || len(raw) == 0 { // cleaning and decoding only shorten
		return path, true
	}
	sent := Sent(raw)
	if bytes.Contains(raw, []byte("//")) || octets(raw) != octets(sent) {
		return path, false
	}
	if !hasEncodedSlash(sent) {
		return path, true
	}
	return EncodedKept.Append(make([]byte, 0, len(sent)), sent), true
}

// octets returns the length of a path when it is decoded.
func octets(raw []byte) int { return len(raw) - 2*bytes.Count(raw, []byte{'%'}) }

func hasEncodedSlash(raw []byte) bool {
	return bytes.Contains(raw, []byte("%2F")) || bytes.Contains(raw, []byte("%2f"))
}

// AppendPath appends a path that is decoded, as CleanPath or SplitPath returns it, and encodes what
// may not stand in a target, and each EncodedSlash again.
func AppendPath(dst, path []byte) []byte {
	for _, c := range path {
		switch {
		case c == EncodedSlash[0]:
			dst = append(dst, "%2F"...)
		case inPath(c):
			dst = append(dst, c)
		default:
			dst = AppendPercent(dst, c)
		}
	}
	return dst
}

// inPath reports whether c may stand in a path as it is: "/" or one of pchar, but for '%'.
func inPath(c byte) bool { return class[c]&isHost != 0 || c == '/' || c == ':' || c == '@' }
