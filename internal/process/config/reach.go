package config

import (
	"log/slog"
	"slices"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/https"
)

// checkSites finds the listeners that sites name. It refuses a site that no request could reach.
func (c *Config) checkSites() {
	var known []string
	for _, l := range c.Listeners {
		if l.Name != "" {
			known = append(known, l.Name)
		}
	}
	for i := range c.Sites {
		site := &c.Sites[i]
		if len(site.Names) == 0 && site.Table.Has("listener") {
			site.Table.Errorf("listener",
				"expected at least one name; leave it out for all listeners")
		}
		for i, name := range site.Names {
			j := slices.IndexFunc(c.Listeners,
				func(l Listener) bool { return l.Name == name })
			switch {
			case slices.Contains(site.Names[:i], name):
				site.Table.Errorf("listener", "%q: named twice", name)
				continue
			case j >= 0 && name != "":
				site.Listeners = append(site.Listeners, c.Listeners[j].Address.String())
				continue
			case len(known) == 0:
				site.Table.Errorf("listener", "there is no listener %q: none has a name", name)
			default:
				site.Table.Errorf("listener", "%s", unknownName("listener", name, known))
			}
			// Sites for all listeners may have the same host, so this one must stay apart.
			site.Listeners = append(site.Listeners, "?"+name)
		}
		c.checkScheme(site)
	}
}

// checkScheme refuses a scheme that no request by the site's listeners can have.
func (c *Config) checkScheme(site *Site) {
	if site.Scheme == "" {
		return
	}
	for _, l := range c.Listeners {
		secure := l.TLS.On()
		if site.at(l) && (secure == (site.Scheme == "https") || l.proxied()) {
			return
		}
	}
	if site.Scheme == "https" {
		site.Table.Errorf("scheme",
			"no listener of the site has tls or trusted_proxies, so no request is an https one")
		return
	}
	site.Table.Errorf("scheme", "all listeners of the site have tls, so no request is an http one")
}

// At reports whether the site answers at a listener.
func (s *Site) at(l Listener) bool {
	return len(s.Listeners) == 0 || slices.Contains(s.Listeners, l.Address.String())
}

// proxied reports whether a proxy in front can say what the client's scheme is.
func (l *Listener) proxied() bool { return l.Proxies != nil }

// https makes the layer of the keys https and hsts of a site.
func (c *Config) https(site Site, log *slog.Logger, report func(error)) handlers.Middleware {
	port, ok := c.httpsPort(site)
	if site.HTTPS.HTTPS != "" {
		if l := c.unsureOfHTTPS(site); l != nil {
			log.Warn("https: a listener with proxy_protocol and without tls knows an https request only "+
				"if the proxy sends version 2 with its TLV for TLS, or has the port 443; else it is "+
				"redirected for ever", "site", siteName(site.Hosts), "listener", l.Listen)
		}
	}
	if site.HTTPS.HTTPS != "" && !ok {
		report(handlers.BadKey("https", "there is no listener with tls, and none with "+
			"trusted_proxies, so there is no https address"))
		return nil
	}
	m, err := https.New(site.HTTPS, port)
	switch {
	case err != nil:
		report(err)
	case site.Scheme == "https" && site.HTTPS.HTTPS != "":
		report(handlers.BadKey("https",
			`has no effect beside scheme = "https": the requests that it is for `+
				`get to another site; a [[site]] of that host with scheme = "http" has it`))
	case site.Scheme == "http" && site.HTTPS.HSTS != nil:
		report(handlers.BadKey("hsts",
			`has no effect beside scheme = "http": browsers heed it in answers of `+
				`https alone (RFC 6797 section 7.2)`))
	case site.HTTPS.HSTS != nil && !ok:
		report(handlers.BadKey("hsts",
			"there is no listener with tls, and none with trusted_proxies, so no "+
				"answer of https has it"))
	}
	return m
}

// proof makes the layer of a site that has the key client_ca, or for whose clients a listener has
// it while another site, which asks for certificates by itself, may ask for less or for others. It
// returns nil for other sites.
func (c *Config) proof(site int) handlers.Middleware {
	if clients := &c.Sites[site].TLS.Clients; clients.Asks() {
		return https.Proof(clients.Required(), func(listener, sni string) bool {
			return c.Router.Site(listener, sni) == site
		})
	}
	asks := map[string]bool{} // by the names of listeners
	for i := range c.Listeners {
		if l := &c.Listeners[i]; l.TLS.Clients.Asks() && c.Sites[site].at(*l) {
			asks[l.Address.ListenerName()] = true
		}
	}
	byItself := func(s Site) bool { return s.TLS.Clients.Asks() }
	if len(asks) == 0 || !slices.ContainsFunc(c.Sites, byItself) {
		return nil
	}
	return https.Proof(false, func(listener, sni string) bool {
		of := c.Router.Site(listener, sni)
		return of < 0 || !asks[listener] || !byItself(c.Sites[of])
	})
}

// unsureOfHTTPS returns the only listener for https requests of the site, if only a proxy's header
// fields can tell them from http requests there; otherwise nil. Before a request arrives, the
// server cannot know whether the proxy sends these fields.
func (c *Config) unsureOfHTTPS(site Site) (blind *Listener) {
	for i := range c.Listeners {
		switch l := &c.Listeners[i]; {
		case l.TLS.On(), l.proxied() && !l.ProxyProtocol && site.at(*l):
			return nil
		case l.ProxyProtocol && site.at(*l):
			blind = l
		}
	}
	return blind
}

// httpsPort returns a function for the port of the site's https address, and whether there is such
// an address: at one of the site's own listeners with TLS or, if there is none, at any one of those
// of the file. One with port 443 comes first, otherwise the order in the file counts. Behind
// proxies it is 443. A port that the kernel chooses is known when the listener is open, and so the
// function is called later.
func (c *Config) httpsPort(site Site) (port func() int, ok bool) {
	const usual = 443
	found, best := -1, 0
	for i, l := range c.Listeners {
		if l.proxied() && site.at(l) {
			ok = true
		}
		if !l.TLS.On() {
			continue
		}
		worth := 1
		if site.at(l) {
			worth += 2
		}
		if l.Address.Port() == usual {
			worth++
		}
		if worth > best {
			found, best = i, worth
		}
	}
	if found < 0 {
		return func() int { return usual }, ok
	}
	addr := c.Listeners[found].Address
	return func() int {
		if port := addr.Port(); port > 0 {
			return port
		}
		if port := c.Ports[addr]; port > 0 {
			return port
		}
		return usual
	}, true
}
