package convert

import (
	"slices"
	"strings"
)

// siteRules carries over what a server does before it looks for a location. It returns a route if
// the server answers everything by itself.
func (c *converter) siteRules(out *site, s *server, locations bool) *route {
	root := ""
	if d := s.scope.last("root"); d != nil && !strings.Contains(d.arg(0), "$") {
		root = c.prefixPath(d.arg(0))
	}
	for _, d := range s.scope.block {
		switch d.name {
		case "rewrite":
			rule := new(table)
			if c.rewriteTo(rule, s.scope, d) {
				out.rules = append(out.rules, rule)
			}
		case "if":
			c.condition(out, &out.rules, s.scope, d, root)
		case "return":
			d.done = true
			r := &route{plain: true, from: &location{at: s.at, scope: s.scope, uri: "/", under: "/"}}
			r.set("prefix", "/")
			c.answer(r, s.scope, d, "")
			return r
		}
	}
	return nil
}

// locationRules carries over the rules of a location. It returns true if the location answers by
// itself, and has no handler.
func (c *converter) locationRules(out *site, r *route, l *location) bool {
	for _, d := range l.scope.block {
		switch d.name {
		case "rewrite":
			if d.arg(2) == "break" && l.scope.has("proxy_pass") {
				if _, ok := c.breakRewrite(l); !ok {
					c.left(d, "what goes to the upstream follows from strip_prefix and replace_prefix alone")
				}
				continue
			}
			rule := new(table)
			if c.rewriteTo(rule, l.scope, d) {
				c.unlessDone(rule)
				r.rules = append(r.rules, rule)
			}
		case "if":
			before := len(r.rules)
			root := ""
			if !c.sendsFiles(l) && !l.scope.has("fastcgi_pass") {
				root, _ = c.rootOf(l)
			}
			c.condition(out, &r.rules, l.scope, d, root)
			for _, rule := range r.rules[before:] {
				c.unlessDone(rule)
			}
		case "return":
			d.done = true
			re, _ := r.get("regexp").(string)
			c.answer(r, l.scope, d, re)
			c.passOver(l.scope, "the location answers by itself", "root", "alias", "index", "try_files",
				"proxy_pass", "fastcgi_pass", "allow", "deny", "auth_basic", "auth_basic_user_file")
			return true
		}
	}
	files := l.scope.has("root", "alias", "try_files", "index", "autoindex")
	if c.sendsFiles(l) && !files && l.mod != "" {
		// What is always rewritten needs no module.
		for _, rule := range r.rules {
			if len(rule.keys) == 1 && rule.get("rewrite") != nil {
				r.set("module", "response")
				r.set("status", 404)
				return true
			}
		}
	}
	return false
}

func (c *converter) passOver(s *scope, why string, names ...string) {
	for _, d := range s.own(names...) {
		c.say(d, byItself, why)
	}
}

// unlessDone keeps a rule of a route from rewriting what it has rewritten: the rules of a route are
// tried again if the new path leads to the same route.
func (c *converter) unlessDone(rule *table) {
	to, ok := rule.get("rewrite").(string)
	if !ok || rule.get("exists") != nil {
		return
	}
	path, _, _ := strings.Cut(to, "?")
	if path, _, cut := strings.Cut(path, "{"); !cut && path != "" {
		rule.sub("not").set("path", path)
	}
}

// answer sets the module of a route for a return. re is the route's expression, whose groups may
// stand in the text; "" if it has none.
func (c *converter) answer(r *route, s *scope, d *directive, re string) {
	status, text := d.arg(0), d.arg(1)
	if len(d.args) == 1 && !isStatus(status) {
		status, text = "302", status
	}
	code := number(status)
	groups := groupsOf(re)
	redirects := slices.Contains([]int{301, 302, 303, 307, 308}, code)
	to, err := c.text(s, text, groups)
	if err != nil {
		c.left(d, err.Error())
		r.set("module", "response")
		r.set("status", 500)
		return
	}
	if usesGroups(text, groups) {
		rule := new(table)
		rule.set("regexp", re)
		if redirects {
			rule.set("redirect", to)
			rule.set("status", code)
			r.rules = append(r.rules, rule)
		} else {
			c.left(d, "the text of an answer has no groups")
		}
		r.set("module", "response")
		r.set("status", 404)
		return
	}
	if redirects && !isAddress(to) {
		c.left(d, "expected http://..., https://... or a path that begins with a slash")
		r.set("module", "response")
		r.set("status", 500)
		return
	}
	if redirects {
		r.set("module", "redirect")
		r.set("to", to)
		if code != 302 {
			r.set("status", code)
		}
		return
	}
	r.set("module", "response")
	if code != 200 {
		r.set("status", code)
	}
	if text != "" {
		if code != 204 && code != 304 {
			r.set("body", to)
		}
		kind := s.value("default_type")
		if kind == "" {
			kind = "text/plain"
		}
		for _, h := range s.own("add_header") {
			if strings.EqualFold(h.arg(0), "Content-Type") {
				h.done = true
				kind = h.arg(1)
			}
		}
		if kind != "text/plain" {
			r.sub("headers").set("content-type", kind)
		}
	}
}

// isAddress reports whether a text is one that clients can be sent to.
func isAddress(text string) bool {
	for _, begin := range []string{"/", "http://", "https://", "{scheme}://"} {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return false
}

func isStatus(text string) bool {
	return len(text) == 3 && text[0] >= '1' && text[0] <= '5' && number(text) > 99
}

func usesGroups(text string, groups []string) bool {
	return slices.ContainsFunc(names(text), func(n string) bool { return slices.Contains(groups, n) })
}

// deny lets a rule answer with a status.
func (c *converter) deny(rule *table, d *directive, status string) bool {
	if code := number(status); code >= 400 && code <= 599 {
		rule.set("deny", code)
		return true
	}
	c.left(d, "a rule denies with 400 to 599")
	return false
}

// rewriteTo makes a rule of a rewrite, or of what is left of a rule's conditions.
func (c *converter) rewriteTo(rule *table, s *scope, d *directive) bool {
	d.done = true
	re, err := expression(d.arg(0), false)
	if err != nil {
		c.left(d, err.Error())
		return false
	}
	to, flag := d.arg(1), d.arg(2)
	groups := groupsOf(re)
	if !slices.Contains([]string{"^", ".*", "^.*$", "^.*", "^/.*$", "^/"}, re) {
		if rule.get("regexp") != nil {
			c.left(d, "a rule has one expression, and that of the condition stands there")
			return false
		}
		rule.set("regexp", re)
	}
	keeps := !strings.HasSuffix(to, "?")
	target, err := c.text(s, strings.TrimSuffix(to, "?"), groups)
	if err != nil {
		c.left(d, err.Error())
		return false
	}
	away := strings.HasPrefix(to, "http://") || strings.HasPrefix(to, "https://") ||
		strings.HasPrefix(to, "$scheme://")
	if keeps && !strings.Contains(target, "{query}") && !strings.Contains(target, "{uri}") &&
		(strings.Contains(target, "?") || away || flag == "permanent" || flag == "redirect") {
		target += "{query}"
	}
	switch {
	case away || flag == "permanent" || flag == "redirect":
		rule.set("redirect", target)
		if flag == "permanent" {
			rule.set("status", 301)
		}
		return true
	case !strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "{"):
		target = "/" + target
	}
	if !keeps {
		target += "?"
	}
	if flag == "break" {
		c.say(d, differs, "the route is chosen anew for the new path, as with `last`")
	}
	rule.set("rewrite", target)
	return true
}

// condition makes rules of an if block.
func (c *converter) condition(out *site, rules *[]*table, s *scope, d *directive, root string) {
	if d.done {
		return
	}
	rule := new(table)
	inner := s.inner(d)
	if to := c.moved(inner, d); to != nil {
		*rules = append(*rules, to)
		return
	}
	ok, why := c.conditions(rule, s, d, root)
	if !ok {
		c.left(d, why)
		c.leftAll(d.block, byItself, "of an if that is not carried over")
		return
	}
	d.done = true
	base := slices.Clone(rule.keys)
	for _, a := range d.block {
		rule = &table{keys: cloneEntries(base)}
		switch a.name {
		case "return":
			a.done = true
			if c.returnRule(out, rule, inner, a) {
				*rules = append(*rules, rule)
			}
			return
		case "rewrite":
			if c.rewriteTo(rule, inner, a) {
				*rules = append(*rules, rule)
			}
		case "add_header":
			if value, err := c.text(inner, a.arg(1), nil); err != nil {
				c.left(a, err.Error())
			} else {
				a.done = true
				rule.sub("set_headers").set(a.arg(0), value)
				*rules = append(*rules, rule)
			}
		case "expires":
			if control, ok := expires(a.arg(0)); ok {
				a.done = true
				rule.set("cache_control", control)
				*rules = append(*rules, rule)
			} else {
				c.left(a, "expected a time")
			}
		case "break", "access_log":
			c.say(a, byItself, "of an if")
		case "set":
			c.left(a, "a variable that depends on a condition is a [[map]] here")
		case "deny":
			a.done = true
			rule.set("deny", 403)
			*rules = append(*rules, rule)
		default:
			c.left(a, "a rule denies, redirects, rewrites, or changes the header of the answer")
		}
	}
}

// moved makes a rule of an if that redirects to the value of a map where it is not empty, as rules
// do with such a text.
func (c *converter) moved(s *scope, d *directive) *table {
	if len(d.args) != 1 || len(d.block) != 1 || d.block[0].name != "return" {
		return nil
	}
	answer := d.block[0]
	v := strings.Trim(d.args[0], "()")
	m := c.maps[strings.Trim(strings.TrimPrefix(v, "$"), "{}")]
	if m == nil || m.at.name != "map" || answer.arg(1) != v ||
		!strings.HasPrefix(answer.arg(0), "30") {
		return nil
	}
	for _, e := range m.at.block {
		to := e.arg(0)
		if to != "" && !isAddress(strings.Replace(to, "$scheme:", "{scheme}:", 1)) {
			return nil
		}
	}
	d.done, answer.done, m.used = true, true, true
	rule := new(table)
	rule.set("redirect", "{"+m.name+"}")
	if code := number(answer.arg(0)); code != 302 {
		rule.set("status", code)
	}
	return rule
}

func cloneEntries(all []entry) []entry {
	all = slices.Clone(all)
	for i, e := range all {
		if t, ok := e.value.(*table); ok {
			all[i].value = &table{keys: cloneEntries(t.keys)}
		}
	}
	return all
}

// returnRule lets a rule answer as return does.
func (c *converter) returnRule(out *site, rule *table, s *scope, d *directive) bool {
	status, text := d.arg(0), d.arg(1)
	if len(d.args) == 1 && !isStatus(status) {
		status, text = "302", status
	}
	code := number(status)
	switch {
	case slices.Contains([]int{301, 302, 303, 307, 308}, code):
		var groups []string
		if re, ok := rule.get("regexp").(string); ok {
			groups = groupsOf(re)
		}
		to, err := c.text(s, text, groups)
		if err != nil {
			c.left(d, err.Error())
			return false
		}
		if !isAddress(to) {
			c.left(d, "expected http://..., https://... or a path that begins with a slash")
			return false
		}
		rule.set("redirect", to)
		if code != 302 {
			rule.set("status", code)
		}
	case code >= 400:
		if text != "" {
			c.say(d, differs, "the page is that of error_pages, or the server's")
		}
		rule.set("deny", code)
	default:
		path := "/_answer-" + itoa(int64(len(out.routes)+1))
		r := &route{plain: true, from: &location{at: d, scope: s, uri: path, under: "/"}}
		r.set("prefix", path)
		r.set("exact", true)
		r.set("internal", true)
		c.answer(r, s, d, "")
		out.routes = append(out.routes, r)
		rule.set("rewrite", path)
	}
	return true
}

// conditions sets the conditions of an if.
func (c *converter) conditions(rule *table, s *scope, d *directive, root string) (ok bool,
	why string) {
	args := slices.Clone(d.args)
	if len(args) == 0 {
		return false, "expected a condition"
	}
	args[0] = strings.TrimPrefix(args[0], "(")
	last := len(args) - 1
	args[last] = strings.TrimSuffix(args[last], ")")
	args = slices.DeleteFunc(args, func(a string) bool { return a == "" })
	switch len(args) {
	case 1:
		return c.compare(rule, s, args[0], "", "")
	case 2:
		if args[1] == "=" || args[1] == "!=" {
			return c.compare(rule, s, args[0], args[1], "")
		}
		exists := map[string]any{"-f": "file", "-d": "folder", "-e": []string{"file", "folder"},
			"!-f": []string{"folder", "no"}, "!-d": []string{"file", "no"}, "!-e": "no"}[args[0]]
		if exists == nil {
			return false, "there is no such condition"
		}
		switch strings.TrimSuffix(args[1], "/") {
		case "$request_filename", "$document_root$uri", "$document_root$fastcgi_script_name",
			"$document_root$document_uri":
		default:
			return false, "whether another file than that of the path exists cannot be asked"
		}
		rule.set("exists", exists)
		if root != "" {
			rule.set("root", root)
		}
		return true, ""
	case 3:
		return c.compare(rule, s, args[0], args[1], args[2])
	}
	return false, "there is no such condition"
}

// compare sets the condition that a variable is equal to a text or matches an expression. Without
// an operator it must not be empty.
func (c *converter) compare(rule *table, s *scope, v, op, value string) (ok bool, why string) {
	t := rule
	if rest, negated := strings.CutPrefix(op, "!"); negated {
		t, op = rule.sub("not"), rest
	}
	name, isVariable := strings.CutPrefix(v, "$")
	name = strings.Trim(name, "{}")
	if !isVariable {
		return false, "expected a variable"
	}
	if constant, ok := s.constant(name); ok && constant != v && strings.HasPrefix(constant, "$") {
		if name = strings.Trim(constant[1:], "{}"); c.maps[name] == nil && strings.Contains(name, "$") {
			return false, "there is no condition for more than one variable"
		}
	}
	re := ""
	if op == "~" || op == "~*" {
		var err error
		if re, err = expression(value, op == "~*"); err != nil {
			return false, err.Error()
		}
	}
	if m := c.maps[name]; m != nil {
		return c.mapCondition(t, m, op, value)
	}
	return c.part(t, name, op, value, re)
}

// part sets a condition for a variable that stands for a part of the request.
func (c *converter) part(t *table, name, op, value, re string) (ok bool, why string) {
	pattern := "?*" // it is there
	switch {
	case re != "":
		pattern = "~" + re
	case op == "=" && value != "":
		pattern = quoteGlob(value)
	case op == "=":
		t = t.sub("not")
	}
	for _, f := range families {
		of, found := strings.CutPrefix(name, f.prefix)
		if !found || of == "" || name == "http_host" {
			continue
		}
		key := map[string]string{"field": "header", "cookie": "cookie", "query": "query"}[f.placeholder]
		if f.placeholder == "field" {
			of = strings.ToLower(fieldName(of))
		}
		t.sub(key).set(of, pattern)
		return true, ""
	}
	switch name {
	case "host", "http_host", "server_name":
		if re != "" {
			t.sub("header").set("host", "~"+re)
		} else if op == "=" && value != "" {
			t.set("host", strings.ToLower(value))
		} else {
			return false, "a request has a host"
		}
	case "scheme":
		if op != "=" {
			return false, "the scheme is compared as a whole"
		}
		t.set("scheme", value)
	case "request_method":
		if op == "=" {
			t.set("method", value)
			break
		}
		texts, _, ok := literals(strings.TrimSuffix(value, "$")+"$", false)
		if !ok {
			return false, "methods are named one by one"
		}
		t.set("method", texts)
	case "uri", "document_uri", "request_uri":
		switch {
		case name == "request_uri" && strings.ContainsAny(value, "?"):
			if strings.Contains(value, `\?`) || op == "=" {
				return false, "path and query are two conditions: path or regexp, and query"
			}
			fallthrough
		case re != "":
			t.set("regexp", re)
		case op == "=":
			t.set("regexp", "^"+quoteRegexp(value)+"$")
		default:
			return false, "a request has a path"
		}
	case "remote_addr":
		if op != "=" {
			return false, "a client is in a network, such as 10.0.0.0/8"
		}
		t.set("client", value)
	case "ssl_client_verify":
		t.set("cert_verify", pattern)
	case "https":
		t.set("scheme", "https")
	default:
		return false, "there is no condition for $" + name
	}
	return true, ""
}

// mapCondition sets the condition that a map has a value which is not empty and not 0, if it
// follows from one part of the request.
func (c *converter) mapCondition(t *table, m *valueMap, op, value string) (ok bool, why string) {
	wants := func(v string) bool { return v != "" && v != "0" }
	if op == "=" {
		wants = func(v string) bool { return v == value }
	} else if op != "" {
		return false, "the value of a map is compared as a whole"
	}
	if m.at.name == "split_clients" {
		return false, "there is no condition for a part of the clients; see split of proxy"
	}
	type entry struct{ key, value string }
	var yes []entry
	for _, d := range m.at.block {
		switch d.name {
		case "hostnames", "volatile":
		case "default":
			if wants(d.arg(0)) {
				return false, "a condition of a map is one that its default does not have"
			}
		default:
			if strings.Contains(d.arg(0), "$") {
				return false, "a condition of a map needs values without variables"
			}
			if wants(d.arg(0)) {
				yes = append(yes, entry{d.name, d.arg(0)})
			} else if m.at.name == "geo" {
				return false, "a condition of networks has no exceptions; see `not`"
			}
		}
	}
	if len(yes) == 0 {
		return false, "no value of the map is meant"
	}
	from := "remote_addr"
	if m.at.name == "map" || len(m.at.args) == 2 {
		from = strings.Trim(strings.TrimPrefix(m.at.arg(0), "$"), "{}")
	}
	c.readInConditions[m] = true
	if m.at.name == "geo" {
		var networks []string
		for _, e := range yes {
			networks = append(networks, e.key)
		}
		if from != "remote_addr" && from != "binary_remote_addr" {
			return false, "networks are those of the client"
		}
		t.set("client", networks)
		return true, ""
	}
	var patterns []string
	key, of := "", ""
	for _, e := range yes {
		one := new(table)
		op, value, re := "=", e.key, ""
		if rest, found := strings.CutPrefix(e.key, "~"); found {
			rest, folds := strings.CutPrefix(rest, "*")
			var err error
			if re, err = expression(rest, folds); err != nil {
				return false, err.Error()
			}
			op, value = "~", rest
		}
		if ok, why := c.part(one, from, op, value, re); !ok {
			return false, why
		}
		if len(one.keys) != 1 {
			return false, "there is no condition for this map"
		}
		switch v := one.keys[0].value.(type) {
		case string:
			patterns = append(patterns, v)
			key = one.keys[0].key
		case *table:
			if len(v.keys) != 1 {
				return false, "there is no condition for this map"
			}
			p, _ := v.keys[0].value.(string)
			patterns, key, of = append(patterns, p), one.keys[0].key, v.keys[0].key
		default:
			return false, "there is no condition for this map"
		}
	}
	switch {
	case of != "":
		t.sub(key).set(of, patterns)
	case key == "regexp" && len(patterns) == 1:
		t.set(key, patterns[0])
	case key == "regexp":
		t.set(key, "(?:"+strings.Join(patterns, "|")+")")
	default:
		t.set(key, patterns)
	}
	return true, ""
}
