package convert

import (
	"net"
	"slices"
	"strings"
)

// streams makes a [[stream]] of each server of the block stream.
func (c *converter) streams(s *scope) {
	before := c.groups
	c.groups = map[string]*group{}
	c.collectUpstreams(s.block, c.groups)
	for _, d := range s.own("server") {
		d.done = true
		c.stream(s.inner(d), d)
	}
	for name, g := range c.groups {
		if len(g.tables) == 0 && !g.at.done {
			c.leftAll(g.at.block, byItself, "nothing uses the upstream "+name)
		}
	}
	c.groups = before
}

func (c *converter) stream(s *scope, at *directive) {
	out := new(stream)
	c.at(&out.table, func() {
		listens := s.take("listen")
		if len(listens) == 0 {
			c.left(at, "it listens nowhere")
			return
		}
		for _, d := range listens[1:] {
			if !strings.HasPrefix(d.arg(0), "[::]") {
				c.left(d, "a stream has one address")
			}
		}
		d := listens[0]
		if slices.Contains(d.args, "udp") {
			c.left(d, "UDP is not passed on")
			c.leftAll(at.block, byItself, "of a server for UDP")
			return
		}
		address := d.arg(0)
		if port, ok := anyAddress(address); ok {
			address = "*:" + port
		}
		out.set("address", address)
		if slices.Contains(d.args, "proxy_protocol") {
			out.set("proxy_protocol", true)
			var networks []string
			for _, from := range s.find("set_real_ip_from") {
				networks = append(networks, from.arg(0))
			}
			if networks == nil {
				networks = []string{"0.0.0.0/0", "::/0"}
			}
			out.set("trusted_proxies", networks)
		}
		if slices.Contains(d.args, "ssl") {
			sv := &server{at: at, scope: s}
			c.certificates(sv)
			switch len(sv.certs) {
			case 0:
			case 1:
				out.set("tls", sv.certs[0])
			default:
				out.set("tls", sv.certs)
			}
			c.clientCA(&out.table, s)
		}
		if d := s.last("proxy_timeout"); d != nil {
			if dur := c.duration(d, d.arg(0)); dur != "" {
				out.set("idle_timeout", dur)
			}
		}
		access := new(table)
		c.access(access, s)
		for _, e := range access.keys {
			out.set(e.key, e.value)
		}
		passes := s.take("proxy_pass")
		if len(passes) == 0 {
			c.left(at, "there is no proxy_pass")
			return
		}
		c.streamRoutes(out, s, passes[0])
		if len(out.routes) > 0 {
			c.out.streams = append(c.out.streams, out)
		}
	})
	if len(out.routes) == 0 {
		c.out.top.comments = append(c.out.top.comments, out.comments...)
	}
	c.rest(at.block)
}

// streamRoutes makes the routes of a stream: one, or those of a map of names (SNI).
func (c *converter) streamRoutes(out *stream, s *scope, pass *directive) {
	name, isVariable := strings.CutPrefix(pass.arg(0), "$")
	if !isVariable {
		out.routes = append(out.routes, c.streamRoute(s, pass, pass.arg(0)))
		return
	}
	var found *directive
	for _, d := range s.outer.own("map") {
		if d.arg(1) == "$"+name && d.arg(0) == "$ssl_preread_server_name" {
			found = d
		}
	}
	if found == nil {
		c.left(pass, "an upstream follows from the name that a client asks for (SNI) alone")
		return
	}
	found.done = true
	var byTarget []string
	of := map[string][]string{}
	for _, d := range found.block {
		d.done = true
		switch key := d.name; {
		case key == "hostnames" || key == "volatile":
		case strings.HasPrefix(key, "~") || key == "include" || strings.HasSuffix(key, ".*"):
			c.left(d, "names are whole, or *.example.org")
		default:
			target := d.arg(0)
			if _, ok := of[target]; !ok {
				byTarget = append(byTarget, target)
			}
			switch {
			case key == "default":
				of[target] = append(of[target], "")
			case strings.HasPrefix(key, "."):
				of[target] = append(of[target], key[1:], "*"+key)
			default:
				of[target] = append(of[target], key)
			}
		}
	}
	for _, target := range byTarget {
		var sni []string
		rest := false
		for _, n := range of[target] {
			if n == "" {
				rest = true
			} else {
				sni = append(sni, n)
			}
		}
		if len(sni) > 0 {
			rt := c.streamRoute(s, pass, target)
			rt.keys = slices.Insert(rt.keys, 0, entry{"sni", sni})
			out.routes = append(out.routes, rt)
		}
		if rest {
			out.routes = append(out.routes, c.streamRoute(s, pass, target))
		}
	}
}

func (c *converter) streamRoute(s *scope, pass *directive, target string) *table {
	t := new(table)
	scheme := ""
	if s.on("proxy_ssl") {
		scheme = "tls://"
	}
	toUpstream := t
	if g := c.groups[target]; g != nil {
		name := c.use(g, "stream", scheme, "")
		t.set("upstream", name)
		for _, u := range c.out.upstreams {
			if u.get("name") == name {
				toUpstream = u
			}
		}
	} else {
		if _, _, err := net.SplitHostPort(target); err != nil && !strings.HasPrefix(target, "unix:") {
			c.left(pass, "expected host:port")
		}
		t.set("address", c.address(target, scheme, ""))
	}
	if d := s.last("proxy_connect_timeout"); d != nil {
		if dur := c.duration(d, d.arg(0)); dur != "" {
			toUpstream.set("connect_timeout", dur)
		}
	}
	if s.on("proxy_protocol") {
		toUpstream.set("proxy_protocol", "v1")
	}
	if scheme != "" && !s.on("proxy_ssl_verify") {
		tls := new(table)
		tls.set("insecure", true)
		toUpstream.set("tls", tls)
		c.say(pass, differs, "insecure = true takes any certificate, as nginx does")
	}
	return t
}
