package convert

import (
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func quoteRegexp(text string) string { return regexp.QuoteMeta(text) }

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// proxy makes a route of a location with proxy_pass.
func (c *converter) proxy(r *route, l *location, pass *directive) bool {
	target := pass.arg(0)
	if value, err := c.text(l.scope, target, nil); err == nil {
		target = strings.TrimSuffix(value, "{uri}")
		if strings.Contains(target, "{") {
			c.left(pass, "an upstream is named in the file, not by a variable")
			return false
		}
	} else {
		c.left(pass, err.Error())
		return false
	}
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || scheme != "http" && scheme != "https" {
		c.left(pass, "expected http:// or https://")
		return false
	}
	host, path := rest, ""
	if socket, found := strings.CutPrefix(rest, "unix:"); found {
		host, path, _ = strings.Cut(socket, ":")
		host = "unix:" + host
	} else if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if strings.Contains(path, "?") {
		c.left(pass, "the query is the client's")
		path, _, _ = strings.Cut(path, "?")
	}
	r.set("module", "proxy")
	front, port := "", "80"
	if scheme == "https" {
		front, port = "https://", "443"
	}
	g := c.askedAt(r, host, "proxy", front, port)
	c.proxyPath(r, l, pass, path)
	c.proxyHeaders(r, l.scope, host, g, "proxy")
	if scheme == "https" {
		c.proxyTLS(r, l.scope, pass, "proxy")
	}
	c.transport(r, l.scope, "proxy")
	c.proxyAnswer(r, l.scope)
	return true
}

// proxyPath sets what becomes of the route's prefix.
func (c *converter) proxyPath(r *route, l *location, pass *directive, path string) {
	if l.mod == "@" {
		r.set("strip_prefix", true)
		return
	}
	if to, ok := c.breakRewrite(l); ok {
		path = to
	}
	if path == "" {
		return
	}
	prefix := r.get("prefix").(string)
	switch path = "/" + strings.Trim(path, "/"); {
	case l.matches():
		c.left(pass, "a path behind the address stands for a prefix; an expression has none")
	case path == prefix:
	case path == "/" && l.mod != "=":
		r.set("strip_prefix", true)
	default:
		r.set("replace_prefix", path)
	}
}

// breakRewrite returns the path that takes the place of the location's prefix by the usual rewrite
// with break.
func (c *converter) breakRewrite(l *location) (path string, ok bool) {
	all := l.scope.own("rewrite")
	if len(all) != 1 || all[0].arg(2) != "break" || l.matches() {
		return "", false
	}
	d := all[0]
	m := strips.FindStringSubmatch(d.arg(0))
	if m == nil {
		return "", false
	}
	from := strings.ReplaceAll(m[1], `\`, "")
	below, ok := strings.CutPrefix(strings.TrimSuffix(l.uri, "/")+"/", from+"/")
	to := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(d.arg(1), "$2"), "$1"), "/")
	if !ok || strings.Contains(to, "$") || strings.HasSuffix(d.arg(1), to) && d.arg(1) == to {
		return "", false
	}
	d.done = true
	return to + "/" + below, true
}

// strips matches the expressions of a rewrite that takes a prefix, without a slash at its end, off
// a path.
var strips = regexp.MustCompile(`^\^?((?:/(?:[\w-]|\\?\.|\\-)+)*)` +
	`(?:/\(\.[*+]\)|/\?\(\.\*\)|\(/\.\*\)|\(\.\*\)|\(/\|\$\)\(\.\*\)|\(/\?\.\*\))\$?$`)

// forwarded are the fields in which the server tells an upstream of the client without being asked.
var forwarded = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host",
	"X-Forwarded-Prefix", "Forwarded"}

// proxyHeaders sets the fields that an upstream gets.
func (c *converter) proxyHeaders(r *route, s *scope, host string, g *group, family string) {
	fields := new(table)
	tells := slices.Clone(forwarded)
	hostKey := "upstream"
	if g != nil {
		hostKey = host
	} else if strings.HasPrefix(host, "unix:") {
		hostKey = "localhost"
	}
	for _, d := range s.find(family + "_set_header") {
		name, value := d.arg(0), d.arg(1)
		lower := strings.ToLower(name)
		switch {
		case lower == "host":
			hostKey = c.hostKey(s, d, value, hostKey)
		case lower == "connection" || lower == "upgrade" || lower == "content-length" ||
			lower == "te" || lower == "transfer-encoding" || lower == "keep-alive":
			c.say(d, byItself, "the server sets the fields of the connection, and passes upgrades on")
		case lower == "x-forwarded-for" && (strings.Contains(value, "$proxy_add_x_forwarded_for") ||
			value == "$remote_addr"):
			c.say(d, byItself, "forwarded; a chain of trusted proxies is kept with forwarded_chain")
		case lower == "x-real-ip" && value == "$remote_addr":
			tells = append(tells, "X-Real-IP")
		case lower == "x-forwarded-port" && value == "$server_port":
			tells = append(tells, "X-Forwarded-Port")
		case lower == "x-forwarded-proto" && value == "$scheme",
			lower == "x-forwarded-host" && (value == "$host" || value == "$http_host"),
			lower == "x-request-id":
			c.say(d, byItself, "the server says so")
		case strings.HasPrefix(value, "$http_") && "$http_"+strings.ReplaceAll(lower, "-", "_") == value:
			c.say(d, byItself, "the client's fields go on")
		case lower == "via" || lower == "expect" || lower == "trailer":
			c.left(d, "the field belongs to the server")
		default:
			if name, ok := strings.CutPrefix(value, "$"); ok && c.copied(s, name) {
				c.say(d, byItself, "auth has it in copy_headers")
				continue
			}
			text, err := c.text(s, value, nil)
			if err != nil {
				c.left(d, err.Error())
				continue
			}
			fields.set(name, text)
		}
	}
	if hostKey != "client" {
		r.set("host", hostKey)
	}
	if len(tells) > len(forwarded) {
		r.set("forwarded", tells)
	}
	if !fields.empty() {
		r.set("request_headers", fields)
	}
}

// hostKey returns the key host for a proxy_set_header Host.
func (c *converter) hostKey(s *scope, d *directive, value, upstream string) string {
	switch value {
	case "$host", "$http_host", "$host:$server_port", "$http_host:$server_port",
		"${host}:${server_port}":
		return "client"
	case "$proxy_host":
		return upstream
	}
	text, err := c.text(s, value, nil)
	if err != nil || text == "" || strings.Contains(text, "{") {
		c.left(d, "host is the client's, the upstream's, or one name")
		return "client"
	}
	return text
}

// proxyTLS sets how an upstream is verified.
func (c *converter) proxyTLS(r *route, s *scope, pass *directive, family string) {
	t := new(table)
	if d := s.last(family + "_ssl_trusted_certificate"); d != nil {
		t.set("ca", c.confPath(d.arg(0)))
	}
	if d := s.last(family + "_ssl_name"); d != nil {
		if name, err := c.text(s, d.arg(0), nil); err != nil {
			c.left(d, err.Error())
		} else {
			t.set("name", name)
		}
	}
	for _, k := range []string{"certificate", "certificate_key", "crl"} {
		if d := s.last(family + "_ssl_" + k); d != nil {
			key := map[string]string{"certificate": "cert", "certificate_key": "key", "crl": "crl"}[k]
			t.set(key, c.confPath(d.arg(0)))
		}
	}
	if !s.on(family + "_ssl_verify") {
		t.set("insecure", true)
		t.drop("ca")
		c.say(pass, differs, "insecure = true takes any certificate, as nginx does; leave it out if "+
			"the upstream's is a good one")
	}
	if t.empty() {
		return
	}
	if name, ok := r.get("upstream").(string); ok {
		for _, u := range c.out.upstreams {
			if u.get("name") == name {
				u.set("tls", t)
			}
		}
		return
	}
	r.set("tls", t)
}

// transport sets timeouts, buffers and the like, of all modules with upstreams.
func (c *converter) transport(r *route, s *scope, family string) {
	toUpstream := &r.table
	if name, ok := r.get("upstream").(string); ok {
		for _, u := range c.out.upstreams {
			if u.get("name") == name {
				toUpstream = u
			}
		}
	}
	timeout := func(name string, t *table, keys ...string) {
		if d := s.last(family + name); d != nil {
			if dur := c.duration(d, d.arg(0)); dur != "" && dur != "0s" {
				for _, k := range keys {
					t.set(k, dur)
				}
			}
		}
	}
	timeout("_connect_timeout", toUpstream, "connect_timeout")
	timeout("_send_timeout", &r.table, "send_timeout")
	if family == "proxy" {
		timeout("_read_timeout", &r.table, "first_byte_timeout", "read_timeout")
		if ms, ok := milliseconds(s.value("proxy_read_timeout")); ok && ms > 3600e3 {
			timeout("_read_timeout", &r.table, "tunnel_timeout", "first_byte_timeout", "read_timeout")
		}
	} else {
		timeout("_read_timeout", &r.table, "read_timeout")
	}
	if d := s.last(family + "_buffering"); d != nil && d.arg(0) == "off" {
		r.set("response_buffering", "0B")
	}
	if d := s.last(family + "_request_buffering"); d != nil && d.arg(0) == "off" {
		r.set("request_buffering", false)
	}
	if s.on(family + "_intercept_errors") {
		r.set("intercept_errors", true)
	}
	if s.on(family + "_ignore_client_abort") {
		r.set("ignore_client_abort", true)
	}
	if s.on("underscores_in_headers") {
		r.set("underscores", true)
	}
	if d := s.last(family + "_bind"); d != nil && d.arg(0) != "off" {
		if _, _, err := net.ParseCIDR(d.arg(0) + "/32"); err == nil && len(d.args) == 1 {
			toUpstream.set("source", d.arg(0))
		} else {
			c.left(d, "source is one address of this machine")
		}
	}
	var hidden []string
	for _, d := range s.find(family + "_hide_header") {
		hidden = append(hidden, d.arg(0))
	}
	if hidden != nil {
		r.set("hide_header", hidden)
	}
	c.cache(r, s, family)
	if family == "proxy" {
		c.nextUpstream(r, s)
	}
}

// nextUpstream sets for what another address is asked.
func (c *converter) nextUpstream(r *route, s *scope) {
	if d := s.last("proxy_next_upstream"); d != nil {
		var retry []string
		for _, a := range d.args {
			switch {
			case a == "error":
				retry = append(retry, "connect", "cut")
			case a == "timeout":
				retry = append(retry, "timeout")
			case strings.HasPrefix(a, "http_"):
				retry = append(retry, a[5:])
			case a == "non_idempotent":
				c.say(d, differs, "a POST is sent twice only if no connection could be made")
			case a == "invalid_header" || a == "off":
			}
		}
		if !slices.Equal(retry, []string{"connect", "cut", "timeout"}) {
			r.set("retry", slices.Concat([]string{}, retry))
		}
	}
	if d := s.last("proxy_next_upstream_tries"); d != nil {
		if n := number(d.arg(0)); n > 0 {
			r.set("retry_tries", n)
		} else {
			r.set("retry_tries", -1)
		}
	}
	if d := s.last("proxy_next_upstream_timeout"); d != nil {
		if dur := c.duration(d, d.arg(0)); dur != "" && dur != "0s" {
			r.set("retry_time", dur)
		}
	}
}

// proxyAnswer sets how addresses and cookies in the answer are changed.
func (c *converter) proxyAnswer(r *route, s *scope) {
	for _, table := range []struct{ directive, key string }{
		{"proxy_redirect", "map_location"}, {"proxy_cookie_path", "map_cookie_path"},
		{"proxy_cookie_domain", "map_cookie_domain"},
	} {
		for _, d := range s.find(table.directive) {
			switch {
			case len(d.args) == 1 && d.arg(0) == "off":
				if table.key == "map_location" && changesAddress(r) {
					r.set("map_back", false)
				}
			case len(d.args) == 1:
			default:
				c.mapping(r, s, d, table.key)
			}
		}
	}
}

func changesAddress(r *route) bool {
	return r.get("strip_prefix") != nil || r.get("replace_prefix") != nil || r.get("host") != nil
}

func (c *converter) mapping(r *route, s *scope, d *directive, key string) {
	from, to := d.arg(0), d.arg(1)
	var groups []string
	if re, ok := strings.CutPrefix(from, "~"); ok {
		re, folds := strings.CutPrefix(re, "*")
		converted, err := expression(re, folds)
		if err != nil {
			c.left(d, err.Error())
			return
		}
		from, groups = "~"+converted, groupsOf(converted)
	} else if value, err := c.text(s, from, nil); err == nil {
		from = value
	}
	text, err := c.text(s, to, groups)
	if err != nil || strings.Contains(from, "$") && !strings.HasPrefix(from, "~") {
		c.left(d, "the text has a variable without a placeholder there")
		return
	}
	r.sub(key).set(from, text)
}

// grpc makes a route of a location with grpc_pass.
func (c *converter) grpc(r *route, l *location, pass *directive) bool {
	target := pass.arg(0)
	scheme, host, ok := strings.Cut(target, "://")
	if !ok {
		scheme, host = "grpc", target
	}
	if strings.Contains(host, "$") {
		c.left(pass, "an upstream is named in the file, not by a variable")
		return false
	}
	r.set("module", "proxy")
	front, port := "h2c://", "80"
	if scheme == "grpcs" {
		front, port = "https://", "443"
	}
	g := c.askedAt(r, host, "grpc", front, port)
	if scheme == "grpcs" {
		if g == nil {
			r.set("version", "2")
		}
		c.proxyTLS(r, l.scope, pass, "grpc")
	}
	c.proxyHeaders(r, l.scope, host, g, "grpc")
	c.transport(r, l.scope, "grpc")
	r.set("request_buffering", false)
	r.set("response_buffering", "0B")
	return true
}
