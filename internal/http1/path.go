package http1

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
			return cleanFrom(dst, raw, segment, '/')
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

// cleanFrom is CleanPath for a path whose first n bytes, up to and with a '/', are clean. slash is
// what an encoded slash becomes: one, or EncodedSlash.
func cleanFrom(dst, raw []byte, n int, slash byte) ([]byte, error) {
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
			if c == '/' && slash != '/' {
				out = append(out, slash)
				continue
			}
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

// DecodesTo reports whether raw has no characters but those of a path (RFC 3986 section 3.3), and
// is path once its percent-encodings are decoded, without any other change.
func DecodesTo(raw, path []byte) bool { return decodesTo(raw, path, false) }

// MergesTo is DecodesTo for a raw path whose empty segments ("//") have been taken out, too. A slash
// that is encoded beside another one is more than that.
func MergesTo(raw, path []byte) bool { return decodesTo(raw, path, true) }

func decodesTo(raw, path []byte, merge bool) bool {
	n := 0
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case merge && c == '/' && i > 0 && raw[i-1] == '/':
			continue
		case c == '%':
			if i+2 >= len(raw) || class[raw[i+1]]&class[raw[i+2]]&isHex == 0 {
				return false
			}
			c = unhex(raw[i+1])<<4 | unhex(raw[i+2])
			i += 2
		case !inPath(c):
			return false
		}
		if n == len(path) || path[n] != c {
			return false
		}
		n++
	}
	return n == len(path) && n > 0
}

// EncodedSlash stands for a slash within a segment, as a client has encoded it ("%2F"), in paths
// that SplitPath returns. No path of a request has a NUL.
const EncodedSlash = "\x00"

// SplitPath returns the path that CleanPath would have made of raw if it did not take an encoded
// slash for one: it has EncodedSlash there, and its other slashes are those between segments. path
// is what CleanPath has made of raw; SplitPath returns it, and allocates nothing, if there is no
// encoded slash, or if the segments lead above the root.
//
// clean reports whether path is raw decoded, and nothing else was resolved. If it is not, a segment
// of the result may have dots between its encoded slashes ("x/../y").
func SplitPath(path, raw []byte) (split []byte, clean bool) {
	if len(raw) == len(path) || len(raw) == 0 { // cleaning and decoding only shorten
		return path, true
	}
	encoded, slashes := 0, 0
	for i, c := range raw {
		if c == '%' {
			encoded++
			if raw[i+1] == '2' && raw[i+2]|0x20 == 'f' {
				slashes++
			}
		}
	}
	clean = len(raw)-2*encoded == len(path)
	if slashes == 0 {
		return path, clean
	}
	split, err := cleanFrom(nil, raw, 1, EncodedSlash[0])
	if err != nil {
		return path, clean
	}
	return split, clean
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
