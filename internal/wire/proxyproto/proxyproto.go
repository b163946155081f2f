// Package proxyproto reads the header that a proxy sends ahead of a client's bytes to say who the
// client is: the PROXY protocol, versions 1 and 2, as the HAProxy project defines it in
// doc/proxy-protocol.txt. It is pure functions on bytes.
package proxyproto

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
)

// Header is what a header says of the client.
type Header struct {
	// Known says that there are addresses. There are none if the proxy speaks for itself (LOCAL,
	// as in health checks), and if it does not know them (UNKNOWN, UNSPEC); then the addresses of
	// the connection itself count.
	Known bool

	// Source is the client's address, and Destination the one that it connected to. Both are the
	// zero AddrPort if the client came by a UNIX socket.
	Source, Destination netip.AddrPort

	// Fields is where the fields behind the addresses begin, which TLVs reads: up to the header's
	// size. 0: there are none, or they do not count.
	Fields int
}

// Error is what is wrong with a header.
type Error string

// The errors of Parse.
const (
	ErrNoHeader Error = "something else has come"
	ErrLine     Error = "malformed, version 1"
	ErrVersion  Error = "unknown version"
	ErrCommand  Error = "unknown command, version 2"
	ErrFamily   Error = "unknown family of addresses or protocol, version 2"
	ErrLength   Error = "too short for its addresses, version 2"
)

// Error implements error.
func (e Error) Error() string { return string(e) }

const (
	signature = "\r\n\r\n\x00\r\nQUIT\n" // of version 2
	fixedPart = len(signature) + 4       // version and command, family, length
	maxLine   = 107                      // of version 1, with CR LF
	word      = "PROXY "                 // begins version 1
)

// MaxAddresses is how many bytes Parse needs at most: a header of version 2 up to the end of its
// longest addresses, those of UNIX sockets.
const MaxAddresses = fixedPart + 2*108

// Parse reads a header at the beginning of b. size is its length, which may be more than b has: the
// rest is no part of what Parse needs, and the caller skips it. 0 without an error: the header is
// not complete as far as Parse needs it. After an error b does not begin with a valid header,
// whatever follows.
func Parse(b []byte) (h Header, size int, err error) {
	switch {
	case begins(b, signature):
		return parseBinary(b)
	case begins(b, word):
		return parseLine(b)
	}
	return h, 0, ErrNoHeader
}

// begins reports whether b begins with s, or s with b.
func begins(b []byte, s string) bool {
	n := min(len(b), len(s))
	return string(b[:n]) == s[:n]
}

// parseLine reads version 1: `PROXY TCP4 source destination sourceport destinationport`, each
// separated from the next by exactly one space, and CR LF.
func parseLine(b []byte) (h Header, size int, err error) {
	end := bytes.IndexByte(b[:min(len(b), maxLine)], '\n')
	switch {
	case end < 0 && len(b) >= maxLine:
		return h, 0, ErrLine
	case end < 0:
		return h, 0, nil
	case b[end-1] != '\r': // the word comes before it
		return h, 0, ErrLine
	}
	rest := string(b[len(word) : end-1])
	if rest == "UNKNOWN" || strings.HasPrefix(rest, "UNKNOWN ") {
		return h, end + 1, nil // whatever else is in the line, the receiver must ignore it
	}
	parts := strings.Split(rest, " ")
	if len(parts) != 5 || parts[0] != "TCP4" && parts[0] != "TCP6" {
		return h, 0, ErrLine
	}
	var ok, also bool
	h.Source, ok = address(parts[1], parts[3], parts[0] == "TCP4")
	h.Destination, also = address(parts[2], parts[4], parts[0] == "TCP4")
	if !ok || !also {
		return Header{}, 0, ErrLine
	}
	h.Known = true
	return h, end + 1, nil
}

func address(host, port string, v4 bool) (netip.AddrPort, bool) {
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Zone() != "" || addr.Is4() != v4 {
		return netip.AddrPort{}, false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || port != strconv.FormatUint(n, 10) { // no sign, no leading zeroes
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), true
}

// Commands and families of version 2.
const (
	version2 = 0x2
	local    = 0x0
	proxy    = 0x1

	unspec = 0x0
	inet   = 0x1
	inet6  = 0x2
	unix   = 0x3

	maxTransport = 0x2 // 0: unspecified, 1: stream, 2: datagram
)

// parseBinary reads version 2. What follows the addresses is left for TLVs, or to be skipped.
func parseBinary(b []byte) (h Header, size int, err error) {
	if len(b) <= len(signature) {
		return h, 0, nil
	}
	// All values that are not named here must be rejected (section 2.2).
	command := b[len(signature)] & 0xf
	switch {
	case b[len(signature)]>>4 != version2:
		return h, 0, ErrVersion
	case command != local && command != proxy:
		return h, 0, ErrCommand
	case len(b) < fixedPart:
		return h, 0, nil
	}
	family, transport := b[len(signature)+1]>>4, b[len(signature)+1]&0xf
	if family > unix || transport > maxTransport {
		return h, 0, ErrFamily
	}
	length := int(binary.BigEndian.Uint16(b[fixedPart-2:]))
	size = fixedPart + length
	// The proxy's own connection, or one of which it knows nothing: the addresses do not count, and
	// there may be any number of bytes of them.
	if command == local || family == unspec || transport == 0 {
		return h, size, nil
	}
	need := [...]int{inet: 12, inet6: 36, unix: 216}[family]
	switch {
	case length < need:
		return h, 0, ErrLength
	case len(b) < fixedPart+need:
		return h, 0, nil
	}
	h.Known = true
	if length > need {
		h.Fields = fixedPart + need
	}
	a := b[fixedPart : fixedPart+need]
	switch family {
	case inet:
		h.Source = addrPort(a[0:4], a[8:10])
		h.Destination = addrPort(a[4:8], a[10:12])
	case inet6:
		h.Source = addrPort(a[0:16], a[32:34])
		h.Destination = addrPort(a[16:32], a[34:36])
	}
	return h, size, nil
}

func addrPort(addr, port []byte) netip.AddrPort {
	a, _ := netip.AddrFromSlice(addr)
	return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port))
}
