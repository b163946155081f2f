package upstream

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"time"
)

// resolve looks a name up as package net does: in /etc/hosts, from name services, or by way of the
// C library where the system's configuration asks for that. ttl is for how long the addresses are
// good: what the name services have said, if it is they that have answered.
func resolve(ctx context.Context, name string) (all []netip.Addr, ttl time.Duration, err error) {
	life := new(lifetime)
	all, err = life.resolver().LookupNetIP(ctx, "ip", name)
	switch {
	case err != nil:
		return nil, 0, err
	case len(all) == 0:
		return nil, 0, errNowhere
	}
	return sorted(all), life.ttl(), nil
}

// resolver returns one that asks as net.DefaultResolver does, and has l note their answers.
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
			// Package net speaks in datagrams where it gets a PacketConn.
			if p, ok := c.(net.PacketConn); ok {
				return datagrams{listener{Conn: c, life: l}, p}, nil
			}
			return &messages{listener: listener{Conn: c, life: l}}, nil
		},
	}
}

// lifetime is the least of what the answers to one look-up say, which come at once for IPv4 and
// IPv6, and for the hosts of a service. Any goroutine may call its methods.
type lifetime struct {
	mu    sync.Mutex
	known bool
	least uint32 // seconds
}

// ttl returns it, within bounds; without any answers, it is interval.
func (l *lifetime) ttl() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known {
		return interval
	}
	return min(max(time.Duration(l.least)*time.Second, leastTTL), mostTTL)
}

// add takes the times from a message of a name service (RFC 1035 section 4.1), as far as it is
// one. Package net finds out whether it is the right one.
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

// afterName returns what is behind the name at the beginning of m, nil if that is not complete.
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

// listener is a connection to a name service. Times that are read there are added to life.
type listener struct {
	net.Conn
	life *lifetime
}

// datagrams is one whose reads each return a message.
type datagrams struct {
	listener
	net.PacketConn
}

// Read implements net.Conn.
func (d datagrams) Read(p []byte) (int, error) {
	n, err := d.listener.Conn.Read(p)
	d.life.add(p[:n])
	return n, err
}

// messages is one on which each message has its length before it (RFC 1035 section 4.2.2).
type messages struct {
	listener
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
