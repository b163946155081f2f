package certs

import (
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/settings"
)

// Site has the keys of a [[site]] about TLS. They apply at its listeners with TLS, to clients whose
// SNI is one of its hosts.
type Site struct {
	Table settings.Table `toml:",table"`
	// Files is a certificate with its key for the site's hosts, or a list of them; { acme = true }
	// has one obtained for each of them.
	Files []Files `toml:"tls"`

	hosts []string // in lower case
	pairs []pair   // of Files
	wrong bool     // that they contradict those of another site was reported
}

// Check reads the pairs of a site, and reports errors at the table of the file. It comes before
// TLS.Check of its listeners.
func (s *Site) Check(c Context) {
	if len(s.Files) == 0 {
		if s.Table.Has("tls") {
			s.Table.Errorf("tls", "expected at least one { cert = ..., key = ... }")
		}
		return
	}
	if s.Files[0].On != nil {
		s.Table.Errorf("tls", "expected { cert = ..., key = ... } or { acme = true }, for the hosts "+
			"of the site")
		return
	}
	s.pairs = c.pairs(s.Files, s.hosts, false)
}

// Complete tells s the hosts of its site. It comes before all else.
func (s *Site) Complete(hosts []string) {
	for _, host := range hosts {
		s.hosts = append(s.hosts, ascii.ToLower(strings.TrimSuffix(host, ".")))
	}
}

// Needs returns a key of the site that needs TLS; "": it has none.
func (s *Site) Needs() string {
	if s.Table.Has("tls") {
		return "tls"
	}
	return ""
}

// Obtains reports whether certificates are to be obtained for the hosts of the site.
func (s *Site) Obtains() bool {
	for _, f := range s.Files {
		if f.ACME {
			return true
		}
	}
	return false
}

// Sites are the sites at a listener.
type Sites struct {
	// Of returns the index in All of the site that a request of https for a host gets to at the
	// listener; -1: none. "" is a host that no site names. Handshakes call it. nil: there are no
	// sites.
	Of func(host string) int

	// All has nil for a site that is not at the listener.
	All []*Site
}

// addSites adds the pairs of the sites to t. It reports sites that bring different pairs for a name
// which is no host of a site with pairs of its own: nothing says which one a client gets. Wildcards
// may overlap, since most sites that have one do not have it for the others' hosts.
func (t *TLS) addSites() {
	owned, first := map[string]bool{}, map[string]*pair{}
	for _, s := range t.sites.All {
		if s != nil && len(s.pairs) > 0 {
			for _, host := range s.hosts {
				owned[host] = true
			}
		}
	}
	for i, s := range t.sites.All {
		if s == nil {
			continue
		}
		for _, p := range s.pairs {
			p.site, p.hosts, p.strict = i, s.hosts, t.Strict
			t.pairs = append(t.pairs, p)
			if p.leaf == nil || p.domain != "" || s.wrong {
				continue
			}
			for _, name := range p.leaf.DNSNames {
				name = ascii.ToLower(name)
				switch other := first[name]; {
				case strings.HasPrefix(name, "*"):
				case other == nil:
					first[name] = &p
				case other.site != i && !owned[name] && !other.leaf.Equal(p.leaf):
					s.wrong = true
					p.table.Errorf("", "%s is a name of this certificate, and of another one, which another site "+
						"brings (%s); expected the same files, or a site with the host %s and with tls of its own",
						name, other.table.Place(""), name)
				}
			}
		}
	}
}
