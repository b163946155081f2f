package http1

import "bytes"

// parseAuthority checks uri-host [ ":" port ] (RFC 9110 section 7.2). host is the length of the
// host; port is the port's number, -1 without a colon, 0 when nothing follows it (RFC 3986 section
// 3.2.3 allows that) or when it is 0. The host may come out empty: whether it may be is a question
// of where it stands. There is no '@' in the grammar.
func parseAuthority(b []byte) (host, port int, ok bool) {
	if len(b) > 0 && b[0] == '[' {
		// Of IP-literal, IPv6 is read and IPvFuture is not: no version of it was ever assigned. A
		// zone (RFC 6874) means nothing to the other side.
		host = bytes.IndexByte(b, ']') + 1
		if host == 0 || !validIPv6(b[1:host-1]) {
			return 0, 0, false
		}
	} else {
		// The grammar has percent-encoding, but no name in DNS needs it, and where one server
		// decodes a name and the next one does not, two sites answer to it.
		host = run(b, isHost)
	}
	if host == len(b) {
		return host, -1, true
	}
	if b[host] != ':' {
		return 0, 0, false
	}
	for _, c := range b[host+1:] {
		if class[c]&isDigit == 0 {
			return 0, 0, false
		}
		if port = port*10 + int(c-'0'); port > 65535 {
			return 0, 0, false
		}
	}
	return host, port, true
}

// validIPv6 reports whether b is an IPv6address (RFC 3986 section 3.2.2). netip.ParseAddr would
// take a string, and keep it in its error.
func validIPv6(b []byte) bool {
	groups, gap, i := 0, false, 0
	if len(b) >= 2 && b[0] == ':' && b[1] == ':' {
		gap, i = true, 2
	}
	for i < len(b) {
		start := i
		for i < len(b) && class[b[i]]&isHex != 0 {
			i++
		}
		if i < len(b) && b[i] == '.' {
			groups += 2 // the last two may be written as an IPv4 address
			if !validIPv4(b[start:]) {
				return false
			}
			break
		}
		if i == start || i-start > 4 {
			return false
		}
		groups++
		if i == len(b) {
			break
		}
		if b[i] != ':' || i+1 == len(b) {
			return false
		}
		i++
		if b[i] == ':' {
			if gap {
				return false
			}
			gap = true
			i++
		}
	}
	return groups == 8 && !gap || groups < 8 && gap
}

// validIPv4 reports whether b is four decimal octets, without leading zeros.
func validIPv4(b []byte) bool {
	for octet := range 4 {
		if octet > 0 {
			if len(b) == 0 || b[0] != '.' {
				return false
			}
			b = b[1:]
		}
		n, v := 0, 0
		for n < len(b) && class[b[n]]&isDigit != 0 {
			if v = v*10 + int(b[n]-'0'); v > 255 {
				return false
			}
			n++
		}
		if n == 0 || n > 1 && b[0] == '0' {
			return false
		}
		b = b[n:]
	}
	return len(b) == 0
}

// ValidAuthority reports whether s can be the value of a Host field that is not empty.
func ValidAuthority(s string) bool {
	host, _, ok := parseAuthority([]byte(s))
	return ok && host > 0
}
