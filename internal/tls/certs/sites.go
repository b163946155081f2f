package certs

import (
	"iter"
	"maps"
	"slices"
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
	Files   []Files `toml:"tls"`
	Clients `toml:",inline"`

	hosts []string // in lower case
	pairs []pair   // of Files
	wrong bool     // that they contradict those of another site was reported
}

// Check reads the pairs of a site, and reports errors at the table of the file. It comes before
// TLS.Check of its listeners.
func (s *Site) Check(c Context) {
	s.Clients.verifier(c.Dir) // each listener has its own, for what it says of its files
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
	for _, key := range []string{"tls", "client_ca", "client_cert", "client_crl"} {
		if s.Table.Has(key) {
			return key
		}
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
func (t *TLS) addSites(dir string) {
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
		if s.Asks() {
			if t.ofSites == nil {
				t.ofSites = map[int]*verifier{}
			}
			t.ofSites[i] = s.Clients.verifier(dir)
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

// verifiers returns that of the listener, and those of sites.
func (t *TLS) verifiers() iter.Seq[*verifier] {
	return func(yield func(*verifier) bool) {
		if t.clients != nil && !yield(t.clients) {
			return
		}
		for _, i := range slices.Sorted(maps.Keys(t.ofSites)) {
			if !yield(t.ofSites[i]) {
				return
			}
		}
	}
}

// clientsOf returns what verifies clients that ask for a host; nil: nothing does.
func (t *TLS) clientsOf(host string) *verifier {
	if len(t.ofSites) > 0 {
		if v := t.ofSites[t.sites.Of(host)]; v != nil {
			return v
		}
	}
	return t.clients
}

// stricterSites reports whether there is a name for which t asks more of clients than old does.
func (t *TLS) stricterSites(old *TLS) bool {
	if len(t.ofSites) == 0 {
		// Where a site has asked by itself, and does so no more, the listener may ask for more.
		if len(old.ofSites) == 0 || t.clients == nil {
			return false
		}
	}
	if t.clientsOf("").stricter(old.clientsOf("")) {
		return true
	}
	for _, s := range slices.Concat(t.sites.All, old.sites.All) {
		if s == nil {
			continue
		}
		for _, host := range s.hosts {
			if t.clientsOf(host).stricter(old.clientsOf(host)) {
				return true
			}
		}
	}
	return false
}
