package convert

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// server is a server block.
type server struct {
	at        *directive
	scope     *scope
	hosts     []string // none: it answers for all names
	listeners []*listener
	certs     []*table // with cert and key
	secure    bool     // one of its listeners has TLS
	dropped   bool     // no request would reach it
}

// listener is an address at which servers listen.
type listener struct {
	table
	address string
	name    string
	ssl     bool
	servers []*server
	first   *server // the one for unknown names
	chosen  bool    // first has said default_server
}

// listen makes the listeners of all servers, and finds out which of them needs which name.
func (c *converter) listen() {
	dual := map[string]bool{} // ports that are listened to on all addresses of IPv4
	for _, s := range c.servers {
		for _, d := range s.scope.own("listen") {
			if port, ok := anyAddress(d.arg(0)); ok {
				dual[port] = true
			}
		}
	}
	for _, s := range c.servers {
		c.names(s)
		all := s.scope.take("listen")
		if len(all) == 0 {
			all = []*directive{{name: "listen", args: []string{"80"}, done: true}}
		}
		for _, d := range all {
			c.listenAt(s, d, dual)
		}
		if d := s.scope.last("ssl"); d != nil && d.arg(0) == "on" {
			for _, l := range s.listeners {
				l.ssl = true
			}
		}
	}
	for _, s := range c.servers {
		s.secure = slices.ContainsFunc(s.listeners, func(l *listener) bool { return l.ssl })
		if s.secure {
			c.certificates(s)
		}
	}
	c.uniqueNames()
	for _, l := range c.listeners {
		c.at(&l.table, func() { c.listener(l) })
		c.out.listeners = append(c.out.listeners, &l.table)
	}
}

// anyAddress returns the port of a listen for all addresses of IPv4.
func anyAddress(a string) (port string, ok bool) {
	if _, err := strconv.Atoi(a); err == nil {
		return a, true
	}
	host, port, err := net.SplitHostPort(a)
	return port, err == nil && (host == "*" || host == "0.0.0.0")
}

func (c *converter) listenAt(s *server, d *directive, dual map[string]bool) {
	a := d.arg(0)
	if strings.Contains(a, "$") {
		c.left(d, "an address has no variables")
		return
	}
	if port, ok := anyAddress(a); ok {
		a = "*:" + port
	} else if !strings.HasPrefix(a, "unix:") {
		if _, _, err := net.SplitHostPort(a); err != nil {
			a = net.JoinHostPort(strings.Trim(a, "[]"), "80")
		}
		host, port, _ := net.SplitHostPort(a)
		if host == "::" && (dual[port] || slices.Contains(d.args, "ipv6only=off")) {
			a = "*:" + port
		}
	}
	host, _, err := net.SplitHostPort(a)
	if err == nil && host != "*" && host != "localhost" && !strings.HasPrefix(a, "unix:") {
		if _, err := netip.ParseAddr(host); err != nil {
			c.left(d, "an address is an IP address, or localhost")
			return
		}
	}
	if slices.Contains(d.args, "quic") || slices.Contains(d.args, "http3") {
		c.left(d, "HTTP/3 is not spoken")
		return
	}
	i := slices.IndexFunc(c.listeners, func(l *listener) bool { return l.address == a })
	if i < 0 {
		i = len(c.listeners)
		c.listeners = append(c.listeners, &listener{address: a})
	}
	l := c.listeners[i]
	for _, arg := range d.rest(1) {
		switch arg {
		case "ssl":
			l.ssl = true
		case "default_server", "default":
			l.first, l.chosen = s, true
		case "proxy_protocol":
			l.set("proxy_protocol", true)
		}
	}
	if l.first == nil {
		l.first = s
	}
	if !slices.Contains(l.servers, s) {
		l.servers = append(l.servers, s)
		s.listeners = append(s.listeners, l)
	}
}

// names reads the names of a server.
func (c *converter) names(s *server) {
	for _, d := range s.scope.take("server_name") {
		for _, n := range d.args {
			n = strings.ToLower(n)
			switch {
			case n == "" || n == "_" || n == "--" || n == "!@#":
			case strings.HasPrefix(n, "~") || strings.HasSuffix(n, ".*") || strings.Contains(n, "$"):
				c.left(d, "names are whole, or *.example.org; not "+n)
			case strings.HasPrefix(n, "."):
				s.hosts = append(s.hosts, n[1:], "*"+n)
			default:
				s.hosts = append(s.hosts, n)
			}
		}
	}
	slices.Sort(s.hosts)
	s.hosts = slices.Compact(s.hosts)
}

// uniqueNames sees to it that of two servers with the same name at one address the first has it,
// and that the default server of an address comes first or has no names.
func (c *converter) uniqueNames() {
	for _, l := range c.listeners {
		if l.chosen && l.servers[0] != l.first {
			l.first.hosts = nil
			if slices.ContainsFunc(l.first.listeners, func(o *listener) bool { return o.first != l.first }) {
				c.say(l.first.at, differs, "it answers for unknown names at all of its addresses")
			}
		}
		taken, nameless := map[string]bool{}, false
		for _, s := range l.servers {
			if len(s.hosts) == 0 {
				if nameless {
					c.left(s.at, "another server without a name listens at "+l.address)
					s.dropped = true
				}
				nameless = true
			}
			kept := s.hosts[:0:0]
			for _, h := range s.hosts {
				if taken[h] {
					c.say(s.at, differs, "another server at "+l.address+" has the name "+h)
					continue
				}
				taken[h] = true
				kept = append(kept, h)
			}
			if len(s.hosts) > 0 && len(kept) == 0 {
				c.left(s.at, "other servers have all of its names")
				s.dropped = true
			}
			s.hosts = kept
		}
	}
}

// listener completes the table of a listener.
func (c *converter) listener(l *listener) {
	keys := l.keys
	l.keys = nil
	if len(c.listeners) > 1 {
		l.name = c.listenerName(l)
		l.set("name", l.name)
	}
	l.set("address", l.address)
	l.keys = append(l.keys, keys...)
	c.realIP(l)
	if !l.ssl {
		if l.first.scope.on("http2") {
			l.set("http2", true)
		}
		return
	}
	switch first := l.first; {
	case first.scope.on("ssl_reject_handshake"):
		l.set("tls", true)
		l.set("strict_sni", true)
	case len(first.certs) == 0:
		l.set("tls", true)
	case len(first.certs) == 1:
		l.set("tls", first.certs[0])
	default:
		l.set("tls", first.certs)
	}
	if d := l.first.scope.last("ssl_protocols"); d != nil {
		old := slices.ContainsFunc(d.args, func(v string) bool {
			return v == "SSLv3" || v == "TLSv1" || v == "TLSv1.1"
		})
		switch {
		case old:
			c.say(d, differs, "versions before TLS 1.2 are not spoken")
		case !slices.Contains(d.args, "TLSv1.2"):
			l.set("min_version", "1.3")
		}
	}
	if d := l.first.scope.last("http2"); d != nil && d.arg(0) == "off" {
		l.set("http2", false)
	}
	for _, s := range l.servers {
		if len(s.hosts) == 0 && !s.dropped {
			c.clientCA(&l.table, s.scope) // its site has no name to say it for
		}
	}
}

func (c *converter) listenerName(l *listener) string {
	name := ""
	switch host, port, _ := net.SplitHostPort(l.address); {
	case strings.HasPrefix(l.address, "unix:"):
		name = "unix"
	case host == "*" && port == "80":
		name = "http"
	case host == "*" && port == "443":
		name = "https"
	default:
		name = "port-" + port
	}
	for i, n := 2, name; ; i, n = i+1, name+"-"+strconv.Itoa(i) {
		if !slices.ContainsFunc(c.listeners, func(o *listener) bool { return o != l && o.name == n }) {
			return n
		}
	}
}

// realIP carries over which proxies in front are believed.
func (c *converter) realIP(l *listener) {
	s := l.first.scope
	var networks []string
	for _, d := range s.find("set_real_ip_from") {
		if a := d.arg(0); isNetwork(a) || a == "unix:" {
			networks = append(networks, a)
		} else {
			c.left(d, "expected a network")
		}
	}
	d := s.last("real_ip_header")
	if len(networks) == 0 {
		if l.get("proxy_protocol") != nil {
			l.comments = append(l.comments, "all peers may send the header: narrow that")
			l.set("trusted_proxies", []string{"0.0.0.0/0", "::/0"})
		}
		return
	}
	l.set("trusted_proxies", networks)
	field := "x-real-ip"
	if d != nil {
		field = strings.ToLower(d.arg(0))
	}
	switch field {
	case "x-forwarded-for":
		c.say(d, differs, "X-Forwarded-Proto and X-Forwarded-Host of these proxies are believed, too")
	case "x-real-ip":
		l.set("proxy_fields", "x-real-ip")
	case "proxy_protocol":
	default:
		c.left(d, "proxy_fields has x-forwarded, forwarded and x-real-ip alone")
	}
}

// certificates reads the certificates of a server.
func (c *converter) certificates(s *server) {
	certs, keys := s.scope.find("ssl_certificate"), s.scope.find("ssl_certificate_key")
	for i, d := range certs {
		switch {
		case strings.Contains(d.arg(0), "$") || strings.HasPrefix(d.arg(0), "data:"):
			c.left(d, "a certificate is a file; sites of many names have tls = { acme = true }")
		case i >= len(keys) || strings.HasPrefix(keys[i].arg(0), "engine:"):
			c.left(d, "its key is not in a file")
		default:
			t := new(table)
			t.set("cert", c.confPath(d.arg(0)))
			t.set("key", c.confPath(keys[i].arg(0)))
			s.certs = append(s.certs, t)
		}
	}
}

// clientCA carries over what clients prove with a certificate.
func (c *converter) clientCA(t *table, s *scope) {
	verify := s.value("ssl_verify_client")
	if verify == "" || verify == "off" {
		return
	}
	if d := s.last("ssl_client_certificate"); d != nil {
		t.set("client_ca", c.confPath(d.arg(0)))
	} else if d := s.last("ssl_trusted_certificate"); d != nil {
		t.set("client_ca", c.confPath(d.arg(0)))
	} else {
		return
	}
	switch verify {
	case "optional":
		t.set("client_cert", "optional")
	case "optional_no_ca":
		t.set("client_cert", "any")
	default:
		t.set("client_cert", "require")
	}
	if d := s.last("ssl_crl"); d != nil {
		t.set("client_crl", c.confPath(d.arg(0)))
	}
}

// sameCerts reports whether a server has the certificates of the default server of its listeners,
// which then need not stand at its site.
func (s *server) sameCerts() bool {
	for _, l := range s.listeners {
		if l.ssl && !slices.EqualFunc(l.first.certs, s.certs, func(a, b *table) bool {
			return a.get("cert") == b.get("cert") && a.get("key") == b.get("key")
		}) {
			return false
		}
	}
	return true
}
