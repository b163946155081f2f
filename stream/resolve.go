package stream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"

	"github.com/lwango/lwango/loop"
)

// resolve returns the addresses in the order in which Dial tries them. There is at least one.
func (a *attempts) resolve(address string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ips, port, err := a.lookUp(host, service)
	if err != nil {
		return nil, err
	}
	var addrs []netip.AddrPort
	for _, ip := range alternate(ips) {
		if ip = ip.Unmap(); a.network == "tcp" || ip.Is4() == (a.network == "tcp4") {
			addrs = append(addrs, netip.AddrPortFrom(ip, port))
		}
	}
	if len(addrs) == 0 {
		return nil, &net.AddrError{Err: "no suitable address", Addr: host}
	}
	return addrs, nil
}

// lookUp returns the addresses of a host and the port of a service. The resolver looks up names,
// off the loop.
func (a *attempts) lookUp(host, service string) (ips []netip.Addr, port uint16, err error) {
	if host == "" { // this machine, as for net.Dial
		host = "127.0.0.1"
		if a.network == "tcp6" {
			host = "::1"
		}
	}
	number, portErr := strconv.ParseUint(service, 10, 16)
	ip, ipErr := netip.ParseAddr(host)
	if portErr == nil && ipErr == nil {
		return []netip.Addr{ip}, uint16(number), nil
	}
	left, err := a.Left(a.thread.Loop())
	if err != nil {
		return nil, 0, err
	}
	r := a.Resolver
	if r == nil {
		r = net.DefaultResolver
	}
	type found struct {
		port int
		ips  []netip.Addr
	}
	is, err := loop.Await(a.thread, left, func(ctx context.Context) (is found, err error) {
		if is.port, err = r.LookupPort(ctx, a.network, service); err == nil {
			is.ips, err = r.LookupNetIP(ctx, "ip"+a.network[len("tcp"):], host)
		}
		return is, err
	})
	if errors.Is(err, loop.ErrDeadlineExceeded) && errors.Is(err, context.DeadlineExceeded) {
		err = loop.ErrDeadlineExceeded // which the resolver has seen before the thread has
	}
	return is.ips, uint16(is.port), err
}

// alternate orders addresses so that the two families alternate, beginning with that of the first
// address (RFC 8305, section 4). If one family does not work at all, Dial tries an address of the
// other one second.
func alternate(ips []netip.Addr) []netip.Addr {
	ordered := make([]netip.Addr, 0, len(ips))
	var same, other []netip.Addr
	for _, ip := range ips {
		if ip.Unmap().Is4() == ips[0].Unmap().Is4() {
			same = append(same, ip)
		} else {
			other = append(other, ip)
		}
	}
	for len(same)+len(other) > 0 {
		if len(same) > 0 {
			ordered = append(ordered, same[0])
			same = same[1:]
		}
		if len(other) > 0 {
			ordered = append(ordered, other[0])
			other = other[1:]
		}
	}
	return ordered
}
