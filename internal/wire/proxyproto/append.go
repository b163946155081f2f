package proxyproto

import (
	"encoding/binary"
	"net/netip"
)

// Append1 appends the header of version 1 that says that a client at source has connected to
// destination. Where either is not known, as with UNIX sockets, it says that: `PROXY UNKNOWN`.
func Append1(b []byte, source, destination netip.AddrPort) []byte {
	from, to, family := pair(source, destination)
	if family == unspec {
		return append(b, "PROXY UNKNOWN\r\n"...)
	}
	if family == inet {
		b = append(b, "PROXY TCP4 "...)
	} else {
		b = append(b, "PROXY TCP6 "...)
	}
	b = append(from.Addr().AppendTo(b), ' ')
	b = append(to.Addr().AppendTo(b), ' ')
	b = appendNumber(b, from.Port())
	b = append(b, ' ')
	b = appendNumber(b, to.Port())
	return append(b, "\r\n"...)
}

func appendNumber(b []byte, n uint16) []byte {
	if n >= 10 {
		b = appendNumber(b, n/10)
	}
	return append(b, byte('0'+n%10))
}

// Append2 is Append1 for version 2.
func Append2(b []byte, source, destination netip.AddrPort) []byte {
	from, to, family := pair(source, destination)
	b = append(b, signature...)
	b = append(b, version2<<4|proxy)
	switch family {
	case inet:
		b = append(b, inet<<4|stream, 0, 12)
		b = append(b, from.Addr().AsSlice()...)
		b = append(b, to.Addr().AsSlice()...)
	case inet6:
		b = append(b, inet6<<4|stream, 0, 36)
		one, other := from.Addr().As16(), to.Addr().As16()
		b = append(append(b, one[:]...), other[:]...)
	default:
		return append(b, unspec, 0, 0)
	}
	b = binary.BigEndian.AppendUint16(b, from.Port())
	return binary.BigEndian.AppendUint16(b, to.Port())
}

// Append appends the header of a version of the configuration, "v1" or "v2", as Append1 and Append2
// do; "": none.
func Append(b []byte, version string, source, destination netip.AddrPort) []byte {
	switch version {
	case "v1":
		return Append1(b, source, destination)
	case "v2":
		return Append2(b, source, destination)
	}
	return b
}

// AppendLocal is Append for a connection that is for no client, such as a check: `PROXY UNKNOWN`,
// and in version 2 the command LOCAL.
func AppendLocal(b []byte, version string) []byte {
	if version == "v2" {
		return append(append(b, signature...), version2<<4|local, unspec, 0, 0)
	}
	return Append(b, version, netip.AddrPort{}, netip.AddrPort{})
}

// stream is the transport of TCP, in the low half of the byte that has the family in the other.
const stream = 0x1

// pair returns two addresses in one family, that of IPv6 if they are of different ones.
func pair(source, destination netip.AddrPort) (from, to netip.AddrPort, family byte) {
	if !source.IsValid() || !destination.IsValid() {
		return source, destination, unspec
	}
	one, other := source.Addr().Unmap().WithZone(""), destination.Addr().Unmap().WithZone("")
	family = inet
	if one.Is6() || other.Is6() {
		family = inet6
		one, other = netip.AddrFrom16(one.As16()), netip.AddrFrom16(other.As16())
	}
	return netip.AddrPortFrom(one, source.Port()), netip.AddrPortFrom(other,
		destination.Port()), family
}
