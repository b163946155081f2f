package upstream

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// resolvedAddr is an address that a name resolves to.
type resolvedAddr struct {
	addr netip.Addr

	// Of a service (RFC 2782).
	port   uint16 // 0: the name is that of a host, so the configuration has the port
	weight int
	level  int    // 0 for the lowest priority value, 1 for the next, ...
	target string // the name of the host
}

func (r resolvedAddr) compare(q resolvedAddr) int {
	return cmp.Or(r.addr.Compare(q.addr), cmp.Compare(r.port, q.port), cmp.Compare(r.level, q.level),
		cmp.Compare(q.weight, r.weight), strings.Compare(r.target, q.target))
}

// ServiceOf returns the domain of the name of a service, which has SRV records: example.com for
// _http._tcp.example.com. It returns "" for the name of a host.
func ServiceOf(name string) string {
	service, rest, _ := strings.Cut(name, ".")
	proto, domain, _ := strings.Cut(rest, ".")
	if len(service) < 2 || service[0] != '_' || !strings.EqualFold(proto, "_tcp") ||
		strings.ContainsAny(domain, ":/[]") || strings.Trim(domain, ".") == "" {
		return ""
	}
	return strings.TrimSuffix(domain, ".")
}

// targetsAtOnce is how many hosts of a service are looked up at the same time.
const targetsAtOnce = 16

// resolveService looks up the SRV records of a service, and the addresses of their hosts. Of too
// many it takes the first ones by priority, then by weight, and then by name. If the look-up of an
// existing host fails, its earlier addresses stay; then targetErr is the error, and ttl is
// defaultTTL at most. Otherwise ttl is the least of all answers.
func resolveService(
	ctx context.Context, name string, before []resolvedAddr,
) (all []resolvedAddr, ttl time.Duration, targetErr, err error) {
	life := new(lifetime)
	r := life.resolver()
	_, records, err := r.LookupSRV(ctx, "", "", name)
	if len(records) == 0 { // an error besides records means that other records are malformed
		if err == nil {
			err = errNoServers
		}
		return nil, 0, nil, err
	}
	records = slices.DeleteFunc(records, func(s *net.SRV) bool {
		return s.Target == "." || s.Port == 0
	})
	// LookupSRV has shuffled them, but of too many, the same ones are to be taken each time.
	slices.SortFunc(records, func(a, b *net.SRV) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Weight, a.Weight),
			strings.Compare(a.Target, b.Target), cmp.Compare(a.Port, b.Port))
	})
	records = records[:min(len(records), maxAddresses)]
	level := make(map[uint16]int)
	for _, s := range records {
		if _, ok := level[s.Priority]; !ok {
			level[s.Priority] = len(level)
		}
	}

	hosts := make(map[string]*found)
	turn := make(chan bool, targetsAtOnce)
	var running sync.WaitGroup
	for _, s := range records {
		if hosts[s.Target] != nil {
			continue
		}
		h := new(found)
		hosts[s.Target] = h
		running.Go(func() {
			turn <- true
			h.addrs, h.err = r.LookupNetIP(ctx, "ip", s.Target)
			h.addrs = sorted(h.addrs)
			<-turn
		})
	}
	running.Wait()
	have := make(map[netip.AddrPort]bool)
	add := func(one resolvedAddr) {
		if at := netip.AddrPortFrom(one.addr, one.port); !have[at] && len(all) < maxAddresses {
			have[at] = true
			all = append(all, one)
		}
	}
	for _, s := range records {
		one := resolvedAddr{port: s.Port, weight: max(int(s.Weight), 1), level: level[s.Priority],
			target: s.Target}
		h := hosts[s.Target]
		for _, a := range h.addrs {
			one.addr = a
			add(one)
		}
		if h.err != nil {
			err = h.err
			if e, ok := errors.AsType[*net.DNSError](h.err); ok && e.IsNotFound {
				continue
			}
			targetErr = h.err
			for _, old := range before {
				if old.target == s.Target && old.port == s.Port {
					one.addr = old.addr
					add(one)
				}
			}
		}
	}
	if len(all) == 0 {
		return nil, 0, nil, cmp.Or(err, errNoServers)
	}
	slices.SortFunc(all, resolvedAddr.compare)
	if ttl = life.ttl(); targetErr != nil {
		ttl = min(ttl, defaultTTL)
	}
	return all, ttl, targetErr, nil
}

// sorted returns the used addresses of a host: sorted, each once, and not too many.
func sorted(all []netip.Addr) []netip.Addr {
	for i := range all {
		all[i] = all[i].Unmap()
	}
	slices.SortFunc(all, netip.Addr.Compare) // DNS servers rotate them with each answer
	all = slices.Compact(all)
	return all[:min(len(all), maxAddresses)]
}

// found is the result of the look-up of a host.
type found struct {
	addrs []netip.Addr
	err   error
}
