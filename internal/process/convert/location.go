package convert

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// location is a location block, or what a server says for all paths that no location is for.
type location struct {
	at    *directive
	scope *scope
	mod   string // "", "=", "^~", "~", "~*" or "@"
	uri   string
	under string    // the prefix of the location around it; "/" if there is none
	php   *location // whose scripts run in its route

	// early says that nginx looks at no expressions of the server for these paths: ^~ at this
	// location or one around it. A longer prefix than that of such a location is early as well, so
	// that its route is found.
	early bool

	patterns []string // of the scripts that it is for, see scripts
	isPHP    bool
	fixed    bool // early because of ^~ at this location or one around it

	implied bool // nginx has no block for it
}

// site makes the site of a server.
func (c *converter) site(s *server) {
	if s.dropped {
		c.leftAll(s.at.block, byItself, "of a server that no request would reach")
		for _, d := range s.at.block {
			c.leftAll(d.block, byItself, "of a server that no request would reach")
		}
		return
	}
	out := new(site)
	c.out.sites = append(c.out.sites, out)
	c.at(&out.table, func() { c.fillSite(out, s) })
}

func (c *converter) fillSite(out *site, s *server) {
	switch len(s.hosts) {
	case 0:
	case 1:
		out.set("host", s.hosts[0])
	default:
		out.set("host", s.hosts)
	}
	if len(s.listeners) < len(c.listeners) {
		var names []string
		for _, l := range s.listeners {
			names = append(names, l.name)
		}
		out.set("listener", names)
	}
	if s.secure {
		if !s.sameCerts() && len(s.hosts) > 0 && len(s.certs) > 0 {
			if len(s.certs) == 1 {
				out.set("tls", s.certs[0])
			} else {
				out.set("tls", s.certs)
			}
		}
		if len(s.hosts) > 0 {
			c.clientCA(&out.table, s.scope)
		}
	}
	c.siteLog(out, s)
	c.siteLimits(out, s)
	var locations []*location
	c.collect(&locations, s.scope, &location{uri: "/", under: "/"})
	for _, l := range locations {
		l.early = l.fixed || l.mod == "" && slices.ContainsFunc(locations, func(o *location) bool {
			return o.fixed && strings.HasPrefix(l.uri, strings.TrimSuffix(o.uri, "/")+"/")
		})
	}
	c.locations = locations
	c.named(out, locations)
	c.prefix = "/"
	returns := c.siteRules(out, s, len(locations) > 0)
	if returns != nil {
		out.routes = append(out.routes, returns)
		c.leftAll(s.at.block, byItself, "the server answers before it looks for a location")
		for _, l := range locations {
			c.leftAll(l.at.block, byItself, "the server answers before it looks for a location")
		}
	} else {
		locations = c.order(s, locations)
		for _, l := range locations {
			c.route(out, s, l, locations)
			c.at(&out.table, func() { c.beside(out, l, locations) })
		}
	}
	c.prefix = ""
	accelerate(out)
	c.around(out, s)
	for _, r := range out.routes {
		if r.from.at != s.at {
			c.at(&r.table, func() { c.rest(r.from.at.block) })
		}
	}
	c.rest(s.at.block)
}

// accelerate lets applications lead to locations that are internal, by X-Accel-Redirect, where the
// server has one with files.
func accelerate(out *site) {
	if !slices.ContainsFunc(out.routes, func(r *route) bool {
		return r.get("internal") != nil && r.get("module") == "serve_files" && r.from.mod != "=" &&
			!r.from.matches()
	}) {
		return
	}
	for _, r := range out.routes {
		switch r.get("module") {
		case "proxy", "fastcgi", "uwsgi", "scgi":
			r.set("accel_redirect", true)
		}
	}
}

// collect gathers the locations of a block and those within them. around is the location of the
// block.
func (c *converter) collect(all *[]*location, s *scope, around *location) {
	under := around.under
	if around.at != nil && (around.mod == "" || around.mod == "^~") {
		under = around.uri
	}
	for _, d := range s.block {
		if d.name != "location" {
			continue
		}
		d.done = true
		l := &location{at: d, scope: s.inner(d), under: under}
		switch len(d.args) {
		case 1:
			l.uri = d.arg(0)
			for _, mod := range []string{"=", "^~", "~*", "~"} {
				if rest, ok := strings.CutPrefix(l.uri, mod); ok {
					l.mod, l.uri = mod, rest
					break
				}
			}
			if strings.HasPrefix(l.uri, "@") {
				l.mod, l.uri = "@", l.uri[1:]
			}
		case 2:
			l.mod, l.uri = d.arg(0), d.arg(1)
		default:
			c.left(d, "expected a path or an expression")
			continue
		}
		if l.mod != "~" && l.mod != "~*" && l.mod != "@" && !strings.HasPrefix(l.uri, "/") {
			c.left(d, "a path begins with a slash")
			continue
		}
		*all = append(*all, l)
		l.patterns, l.isPHP = l.findScripts()
		l.fixed = l.mod == "^~" || l.mod == "" && around.fixed
		c.collect(all, l.scope, l)
	}
}

func (l *location) matches() bool { return l.mod == "~" || l.mod == "~*" }

// order puts locations into the order of their routes: exact ones, expressions as nginx tries them,
// and prefixes. A server without a location for all paths gets one, in which the server's own
// directives hold.
func (c *converter) order(s *server, all []*location) (sorted []*location) {
	if !slices.ContainsFunc(all, func(l *location) bool {
		return l.uri == "/" && (l.mod == "" || l.mod == "^~")
	}) {
		rest := &directive{name: "location", args: []string{"/"}, file: s.at.file, line: s.at.line,
			seq: s.at.seq, braces: true, done: true}
		all = append(all, &location{at: rest, scope: s.scope.inner(rest), uri: "/", under: "/",
			implied: true})
	}
	rank := func(l *location) int {
		switch {
		case l.mod == "=":
			return 0
		case l.matches() && l.under != "/", l.early:
			return 1 // these go before the expressions of the server
		case l.matches():
			return 2
		}
		return 3
	}
	sorted = slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b *location) int {
		if ra, rb := rank(a), rank(b); ra != rb {
			return ra - rb
		}
		switch rank(a) {
		case 1: // the longest prefix first, and before it the expressions within
			pa, pb := a.prefix(), b.prefix()
			if len(pa) != len(pb) {
				return len(pb) - len(pa)
			}
			return bool2int(!a.matches()) - bool2int(!b.matches())
		case 3: // named ones last
			return bool2int(a.mod == "@") - bool2int(b.mod == "@")
		}
		return 0
	})
	seen := map[string]bool{}
	return slices.DeleteFunc(sorted, func(l *location) bool {
		if l.matches() {
			return false
		}
		key := l.mod + strings.TrimSuffix(l.uri, "/")
		if l.mod == "^~" {
			key = key[2:]
		}
		if l.mod == "=" {
			key = l.mod + l.uri
		}
		if seen[key] {
			c.left(l.at, "another location has this path; /x and /x/ are one, as a prefix ends at a slash")
			return true
		}
		seen[key] = true
		return false
	})
}

func bool2int(b bool) int {
	if b {
		return 1
	}
	return 0
}

// prefix returns the path below which the route of a location is.
func (l *location) prefix() string {
	switch {
	case l.matches():
		return l.under
	case l.mod == "@":
		return "/_" + l.uri
	}
	return l.uri
}

// route makes the route of a location.
func (c *converter) route(out *site, s *server, l *location, all []*location) {
	if l.mod == "@" && c.onlyRewrites(l) != nil {
		return // it stands where try_files leads to it
	}
	r := &route{from: l}
	c.prefix = l.prefix()
	if l.mod == "=" {
		c.prefix = "" // nothing follows it
	}
	c.at(&r.table, func() {
		if c.matching(r, l, all) && c.answers(out, s, r, l, all) {
			out.routes = append(out.routes, r)
		} else {
			out.comments = append(out.comments, r.comments...)
		}
	})
}

// matching sets the keys that say which requests a route is for.
func (c *converter) matching(r *route, l *location, all []*location) bool {
	prefix := l.prefix()
	if len(prefix) > 1 && l.mod != "=" {
		prefix = strings.TrimSuffix(prefix, "/")
	}
	r.set("prefix", prefix)
	switch l.mod {
	case "=":
		r.set("exact", true)
	case "@":
		r.set("internal", true)
	case "~", "~*":
		re, err := expression(l.uri, l.mod == "~*")
		if err != nil {
			c.left(l.at, err.Error())
			return false
		}
		r.set("regexp", re)
	default:
		if l.early && slices.ContainsFunc(all, func(o *location) bool {
			return o.matches() && o.under == "/"
		}) {
			r.set("regexp", "^") // goes before the expressions of the server
		}
	}
	if l.scope.has("internal") {
		l.scope.take("internal")
		r.set("internal", true)
	}
	return true
}

// answers sets the module of a route with its keys. It returns false if there is no route.
func (c *converter) answers(out *site, s *server, r *route, l *location, all []*location) bool {
	sc := l.scope
	switch {
	case c.dropsPHP(l, all): // it is done with the files
		return false
	case c.locationRules(out, r, l):
		r.plain = true
	case sc.has("proxy_pass"):
		return c.proxy(r, l, sc.take("proxy_pass")[0])
	case sc.has("grpc_pass"):
		return c.grpc(r, l, sc.take("grpc_pass")[0])
	case sc.has("fastcgi_pass"):
		return c.fastcgi(r, l)
	case sc.has("uwsgi_pass"):
		return c.uwsgi(r, l, "uwsgi")
	case sc.has("scgi_pass"):
		return c.uwsgi(r, l, "scgi")
	case sc.has("stub_status"):
		c.say(sc.take("stub_status")[0], differs,
			"the page is another one; metrics are at /metrics below")
		r.set("module", "status")
	case sc.has("empty_gif"):
		c.left(sc.own("empty_gif")[0], "serve a file")
		return false
	case c.deniesAll(sc):
		r.set("module", "response")
		r.set("status", 403)
		r.plain = true
	case l.mod == "@" && !sc.has("root", "alias", "try_files"):
		c.left(l.at, "nothing answers in it")
		return false
	default:
		return c.files(out, s, r, l, all)
	}
	return true
}

// deniesAll reports whether nobody may come.
func (c *converter) deniesAll(s *scope) bool {
	rules := s.own("allow", "deny")
	if len(rules) > 0 && rules[0].name == "deny" && rules[0].arg(0) == "all" &&
		!s.has("auth_basic") && s.value("satisfy") != "any" {
		s.take("allow", "deny")
		return true
	}
	return false
}

// named notes which named locations there are, so that try_files and error_page find them.
func (c *converter) named(out *site, all []*location) {
	out.namedLocations = map[string]*location{}
	for _, l := range all {
		if l.mod == "@" {
			out.namedLocations[l.uri] = l
		}
	}
}

// onlyRewrites returns the rewrite of a named location that does nothing else; nil: it does.
func (c *converter) onlyRewrites(l *location) *directive {
	var found *directive
	for _, d := range l.scope.block {
		switch {
		case d.name == "rewrite" && found == nil:
			found = d
		case d.name == "access_log" || d.name == "log_not_found":
		default:
			return nil
		}
	}
	if found == nil || found.arg(2) == "break" {
		return nil
	}
	return found
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// quoteGlob returns a pattern of rules that matches the text alone, where it has no wildcards.
func quoteGlob(text string) string {
	if strings.ContainsAny(text, "*?~") {
		return "~^" + regexp.QuoteMeta(text) + "$"
	}
	return text
}
