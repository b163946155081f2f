package upstream

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"time"
)

// resolve looks a name up as package net does: in /etc/hosts, by DNS, or by the C library where the
// system's configuration demands it. ttl is how long the addresses are valid: the TTL of DNS, if
// DNS has answered.
func resolve(ctx context.Context, name string) (all []netip.Addr, ttl time.Duration, err error) {
	life := new(lifetime)
	all, err = life.resolver().LookupNetIP(ctx, "ip", name)
	switch {
	case err != nil:
		return nil, 0, err
	case len(all) == 0:
		return nil, 0, errNoServers
	}
	return sorted(all), life.ttl(), nil
}

// resolver returns a resolver like net.DefaultResolver, whose answers l notes.
func (l *lifetime) resolver() *net.Resolver {
	return &net.Resolver{
		PreferGo: net.DefaultResolver.PreferGo, StrictErrors: net.DefaultResolver.StrictErrors,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dial := net.DefaultResolver.Dial
			if dial == nil {
				dial = new(net.Dialer).DialContext
			}
			c, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			// Package net sends datagrams if it gets a PacketConn.
			if p, ok := c.(net.PacketConn); ok {
				return datagrams{dnsConn{Conn: c, life: l}, p}, nil
			}
			return &messages{dnsConn: dnsConn{Conn: c, life: l}}, nil
		},
	}
}

// lifetime is the least TTL of the answers to one look-up, which arrive at once for IPv4 and IPv6,
// and for the hosts of a service. Any goroutine may call its methods.
type lifetime struct {
	mu    sync.Mutex
	known bool
	least uint32 // seconds
}

// ttl returns the least TTL, within bounds, or defaultTTL without any answers.
func (l *lifetime) ttl() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known {
		return defaultTTL
	}
	return min(max(time.Duration(l.least)*time.Second, leastTTL), mostTTL)
}

// add takes the TTLs from a DNS message (RFC 1035 section 4.1), if it is valid. Package net checks
// whether it is the right one.
func (l *lifetime) add(m []byte) {
	const header, answer, failed = 12, 0x80, 0x0f
	if len(m) < header || m[2]&answer == 0 || m[3]&failed != 0 {
		return
	}
	questions, answers := binary.BigEndian.Uint16(m[4:]), binary.BigEndian.Uint16(m[6:])
	m = m[header:]
	for range questions {
		m = skip(afterName(m), 4)
	}
	for range answers {
		if m = afterName(m); len(m) < 10 {
			return
		}
		kind, ttl := binary.BigEndian.Uint16(m), binary.BigEndian.Uint32(m[4:])
		if ttl > 1<<31-1 {
			ttl = 0 // RFC 2181 section 8
		}
		m = skip(m, 10+int(binary.BigEndian.Uint16(m[8:])))
		const a, cname, aaaa, srv = 1, 5, 28, 33
		if kind != a && kind != cname && kind != aaaa && kind != srv {
			continue
		}
		l.mu.Lock()
		if !l.known || ttl < l.least {
			l.known, l.least = true, ttl
		}
		l.mu.Unlock()
	}
}

// afterName returns the part of m after the name at its beginning, nil if the name is incomplete.
func afterName(m []byte) []byte {
	for len(m) > 0 {
		switch n := int(m[0]); {
		case n == 0:
			return m[1:]
		case n >= 0xc0: // a pointer ends it
			return skip(m, 2)
		default:
			m = skip(m, 1+n)
		}
	}
	return nil
}

func skip(m []byte, n int) []byte { return m[min(n, len(m)):] }

// dnsConn is a connection to a DNS server. It adds the TTLs that are read to life.
type dnsConn struct {
	net.Conn
	life *lifetime
}

// datagrams is a dnsConn each of whose reads returns a message.
type datagrams struct {
	dnsConn
	net.PacketConn
}

// Read implements net.Conn.
func (d datagrams) Read(p []byte) (int, error) {
	n, err := d.dnsConn.Conn.Read(p)
	d.life.add(p[:n])
	return n, err
}

// messages is a dnsConn on which a length precedes each message (RFC 1035 section 4.2.2).
type messages struct {
	dnsConn
	in []byte
}

// Read implements net.Conn.
func (s *messages) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.in = append(s.in, p[:n]...)
	for len(s.in) >= 2 {
		end := 2 + int(binary.BigEndian.Uint16(s.in))
		if len(s.in) < end {
			break
		}
		s.life.add(s.in[2:end])
		s.in = s.in[end:]
	}
	return n, err
}
