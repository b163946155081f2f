package handlers

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unsafe"

	"github.com/lwango/lwango/internal/base/ascii"
)

// Hosts is a set of hosts, as Site.Hosts has them. It does not change.
type Hosts struct{ table hostTable }

// NewHosts makes a set.
func NewHosts(hosts []string) (*Hosts, error) {
	h, in := new(Hosts), new(site)
	for _, host := range hosts {
		if err := h.table.add(host, in); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Has reports whether the Host of a request is in the set, whatever its port and its case. It
// allocates nothing.
func (h *Hosts) Has(host []byte) bool { return h.table.find(host) != nil }

// hostTable finds the site of a host. It keeps names in lower case without a dot at their end,
// wildcards as the suffix that begins with a dot, and IPv6 addresses parsed, because each of them
// has many spellings.
type hostTable struct {
	names     map[string]*site
	wildcards map[string]*site
	addrs     map[netip.Addr]*site

	other *site // the default site; nil only if there is no site at all
	named bool  // other has hosts, and is the default site because all sites have some
}

// maxName is the length of the longest name that DNS allows (RFC 1035 section 2.3.4), as text
// without the last dot.
const maxName = 253

// find returns the site for the Host of a request, which may have a port, a dot at its end and any
// case. Every request passes it, so it does not allocate: it lowers the name in a local array, and
// map look-ups by string(bytes) make no copy.
func (t *hostTable) find(host []byte) *site {
	if len(t.names)+len(t.wildcards)+len(t.addrs) == 0 || len(host) == 0 {
		return t.other
	}
	if host[0] == '[' {
		return t.findAddr(host)
	}
	if i := bytes.LastIndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	if n := len(host); n > 0 && host[n-1] == '.' {
		host = host[:n-1]
	}
	if len(host) > maxName {
		return t.other
	}
	var lowered [maxName]byte
	name := lowered[:len(host)]
	for i := range name {
		name[i] = ascii.Lower(host[i])
	}
	if to := t.names[string(name)]; to != nil {
		return to
	}
	if len(t.wildcards) > 0 {
		// From the left, to find the longest suffix first; from 1, because a wildcard stands for at
		// least one label.
		for i := 1; i < len(name); i++ {
			if name[i] != '.' {
				continue
			}
			if to := t.wildcards[string(name[i:])]; to != nil {
				return to
			}
		}
	}
	return t.other
}

// findAddr is find for an address in brackets.
func (t *hostTable) findAddr(host []byte) *site {
	end := bytes.IndexByte(host, ']')
	if len(t.addrs) == 0 || end < 2 {
		return t.other
	}
	// A string without a copy: ParseAddr keeps it in its error only, which goes no further than
	// here.
	addr, err := netip.ParseAddr(unsafe.String(&host[1], end-1))
	if err != nil {
		return t.other
	}
	if to := t.addrs[addr]; to != nil {
		return to
	}
	return t.other
}

// add enters one host of the configuration.
func (t *hostTable) add(host string, to *site) error {
	if strings.HasPrefix(host, "[") || strings.Count(host, ":") > 1 {
		return t.addAddr(host, to)
	}
	name := ascii.ToLower(strings.TrimSuffix(host, "."))
	table, key := &t.names, name
	if domain, ok := strings.CutPrefix(name, "*."); ok {
		table, key, name = &t.wildcards, name[1:], domain
	}
	if err := checkName(name); err != nil {
		return fmt.Errorf("%q: %w", host, err)
	}
	if *table == nil {
		*table = make(map[string]*site)
	}
	return enter(*table, key, host, to)
}

// enter puts a site into a table, unless there is one of a higher rank.
func enter[K comparable](table map[K]*site, key K, host string, to *site) error {
	switch before := table[key]; {
	case before == nil || before.rank < to.rank:
		table[key] = to
	case before == to, before.rank == to.rank && to.rank == 0:
		return fmt.Errorf("%q: %w", host, errTwice)
	case before.rank == to.rank:
		return fmt.Errorf("%q: named twice, for the same listener or scheme", host)
	}
	return nil
}

// addDefault makes to the default site, if it is that. anyHost says that it has no hosts.
func (t *hostTable) addDefault(to *site, anyHost bool) error {
	switch {
	case t.other == nil, anyHost && (t.named || t.other.rank < to.rank):
		t.other, t.named = to, !anyHost
	case anyHost && t.other.rank == to.rank:
		return fmt.Errorf("missing, and site %d has none either: only one site can be the default",
			t.other.index+1)
	}
	return nil
}

func (t *hostTable) addAddr(host string, to *site) error {
	text := host
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text, ok = strings.CutSuffix(inner, "]")
		if !ok {
			return fmt.Errorf("%q: expected an address in brackets, without a port", host)
		}
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return fmt.Errorf("%q: not an IPv6 address", host)
	}
	if t.addrs == nil {
		t.addrs = make(map[netip.Addr]*site)
	}
	return enter(t.addrs, addr, host, to)
}

// checkName refuses a name that can never be in a Host field. The error gives the most
// likely reason.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("no name in it; a site for every host leaves `host` out")
	case name == "*":
		return errors.New("a wildcard needs a domain, as in *.example.org; " +
			"a site for every host leaves `host` out")
	case strings.Contains(name, ":"):
		return errors.New("a host is named without its port")
	case strings.Contains(name, "*"):
		return errors.New("a wildcard stands at the beginning only, as in *.example.org")
	case len(name) > maxName:
		return fmt.Errorf("longer than %d characters", maxName)
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return errors.New("each part between dots has 1 to 63 characters")
		}
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 0x80:
			return errors.New("international names are written in their ASCII form, xn--...")
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return fmt.Errorf("%q cannot be part of a host name", c)
		}
	}
	return nil
}
