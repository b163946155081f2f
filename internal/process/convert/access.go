package convert

import (
	"slices"
	"strings"
)

// accessNames are the directives that say who may come.
var accessNames = []string{"allow", "deny", "satisfy", "auth_basic", "auth_request", "limit_except"}

// guards returns the scope whose directives, which have these names, hold for the route of a
// location: that of its scripts, if it runs some and they have such. A path that names no script
// runs one, too.
func (c *converter) guards(l *location, names []string) *scope {
	switch {
	case l.php == nil || !l.php.scope.has(accessNames...) || !l.php.scope.has(names...):
		return l.scope
	case l.scope.has(names...):
		c.left(l.php.at, "who may come is said here and at the location of the files: the latter holds "+
			"for the scripts that run for a folder or for a missing file")
		return l.scope
	}
	c.say(l.php.at, differs, "who may come holds for the files beside the scripts, too")
	return l.php.scope
}

// beside makes a rule for paths such as /.htaccess, for which location /.ht holds in nginx, since a
// prefix ends at a slash here. Only who may come matters: elsewhere the route of another location
// answers.
func (c *converter) beside(out *site, l *location, all []*location) {
	if l.mod != "" && l.mod != "^~" || l.implied || strings.HasSuffix(l.uri, "/") {
		return
	}
	rule, sc := new(table), l.scope
	rule.set("regexp", "^"+quoteRegexp(l.uri)+"[^/]")
	var others []string // that nginx takes for such a path
	for _, o := range all {
		switch re, err := expression(o.uri, o.mod == "~*"); {
		case o.matches() && err == nil && below(l.uri, o.under) && (o.under != "/" || !l.fixed):
			others = append(others, "(?:"+re+")")
		case o.mod == "=" && strings.HasPrefix(o.uri, l.uri):
			others = append(others, "^"+quoteRegexp(o.uri)+"$")
		case (o.mod == "" || o.mod == "^~") && len(o.uri) > len(l.uri) &&
			strings.HasPrefix(o.uri, l.uri) && o.uri[len(l.uri)] != '/':
			others = append(others, "^"+quoteRegexp(o.uri))
		}
	}
	if others != nil {
		rule.sub("not").set("regexp", strings.Join(others, "|"))
	}
	before := len(rule.keys)
	switch answer := sc.own("return"); {
	case sc.has("internal"):
		rule.set("deny", 404)
	case len(answer) > 0 && !sc.has("rewrite"):
		if code := number(answer[0].arg(0)); code >= 400 && code <= 599 {
			rule.set("deny", code)
		}
	case sc.has("deny") && sc.own("allow", "deny")[0].arg(0) == "all" && !sc.has("allow"):
		rule.set("deny", 403)
	default:
		if sc.has("deny") {
			limit := new(table)
			if c.access(limit, sc); !limit.empty() {
				rule.set("limit", limit)
			}
		}
		if sc.has("auth_basic", "auth_request") {
			auth := new(table)
			if c.auth(auth, sc); !auth.empty() {
				rule.set("auth", auth)
			}
		}
	}
	if len(rule.keys) > before {
		out.rules = append(out.rules, rule)
	}
}

func repr(t *table) string {
	var b strings.Builder
	writeValue(&b, t, false)
	return b.String()
}

// anySatisfies moves a password to a rule for clients of other networks than those that need none.
func (c *converter) anySatisfies(rules *[]*table, t *table, s *scope) {
	if s.value("satisfy") != "any" {
		return
	}
	limit, _ := t.get("limit").(*table)
	auth, _ := t.get("auth").(*table)
	if limit == nil || auth == nil || limit.get("allow") == nil {
		return
	}
	rule := new(table)
	rule.sub("not").set("client", limit.get("allow"))
	rule.set("auth", auth)
	*rules = append([]*table{rule}, *rules...)
	t.drop("auth")
	if limit.drop("allow"); limit.empty() {
		t.drop("limit")
	}
}

// deniesOthers reports whether other methods than those of a limit_except are denied to all.
func deniesOthers(d *directive) bool {
	return len(d.block) == 1 && d.block[0].name == "deny" && d.block[0].arg(0) == "all"
}

// exceptions makes rules of limit_except that ask who may use other methods.
func (c *converter) exceptions(r *route, s *scope) {
	for _, d := range s.own("limit_except") {
		if deniesOthers(d) {
			continue
		}
		inner, rule := s.inner(d), new(table)
		methods := slices.Clone(d.args)
		if slices.Contains(methods, "GET") {
			methods = append(methods, "HEAD")
		}
		rule.sub("not").set("method", methods)
		if inner.has("deny") {
			limit := new(table)
			if c.access(limit, inner); !limit.empty() {
				rule.set("limit", limit)
			}
		}
		if inner.has("auth_basic") {
			auth := new(table)
			if c.auth(auth, inner); !auth.empty() {
				rule.set("auth", auth)
			}
		}
		if len(rule.keys) > 1 {
			d.done = true
			r.rules = append([]*table{rule}, r.rules...)
		}
	}
}

// access sets allow and deny. nginx takes the first that fits; here what is denied cannot be
// allowed.
func (c *converter) access(t *table, s *scope) {
	var allow, deny []string
	all := s.find("allow", "deny")
	closed := false
	for i, d := range all {
		switch a := d.arg(0); {
		case a == "all":
			closed = d.name == "deny"
			if i != len(all)-1 {
				c.say(d, differs, "what follows has no effect")
			}
		case !isNetwork(a) && a != "unix:":
			c.left(d, "expected a network")
			continue
		case d.name == "allow":
			allow = append(allow, a)
			continue
		default:
			deny = append(deny, a)
			if len(allow) > 0 {
				c.say(d, differs, "what is denied is denied, whatever was allowed before")
			}
			continue
		}
		break
	}
	if closed {
		if len(allow) == 0 {
			allow = []string{"255.255.255.255/32"}
		}
		t.set("allow", allow)
	}
	if len(deny) > 0 {
		t.set("deny", deny)
	}
}

// auth sets the keys of auth.
func (c *converter) auth(t *table, s *scope) {
	if d := s.last("auth_request"); d != nil && d.arg(0) != "off" {
		c.authRequest(t, s, d)
		if realm := s.value("auth_basic"); realm != "" && realm != "off" {
			c.left(s.last("auth_basic"), "a route is asked, or a password; a rule may have the other")
		}
		return
	}
	d := s.last("auth_basic")
	file := s.last("auth_basic_user_file")
	if d == nil || d.arg(0) == "off" {
		return
	}
	if file == nil {
		file = d
	}
	if file == d || strings.Contains(file.arg(0), "$") {
		// The result is refused until somebody says who may come: it must not be open.
		c.left(d, "expected a file with the users")
	}
	if realm, err := c.text(s, d.arg(0), nil); err == nil && !strings.Contains(realm, "{") {
		t.set("realm", realm)
	}
	t.set("htpasswd", c.confPath(file.arg(0)))
}

func (c *converter) authRequest(t *table, s *scope, d *directive) {
	if strings.Contains(d.arg(0), "$") {
		// The result is refused until somebody writes the path: it must not be open.
		c.left(d, "the path has no variables")
		t.set("request", d.arg(0))
		return
	}
	t.set("request", d.arg(0))
	c.login(t, s)
	var copies, answers []string
	for _, set := range s.find("auth_request_set") {
		from, ok := strings.CutPrefix(set.arg(1), "$upstream_http_")
		variable := strings.TrimPrefix(set.arg(0), "$")
		field := fieldName(from)
		used := false
		for _, h := range s.find("proxy_set_header") {
			if ok && h.arg(1) == "$"+variable {
				if strings.EqualFold(h.arg(0), field) {
					copies, used = append(copies, h.arg(0)), true
				} else {
					c.left(h, "a field of the asked route goes on under its own name, "+field)
					copies = append(copies, field)
				}
			}
		}
		for _, h := range s.find("add_header") {
			if ok && h.arg(1) == "$"+variable {
				answers, used = append(answers, h.arg(0)), true
			}
		}
		if !used {
			c.say(set, differs, "fields of the asked route: copy_headers, answer_headers, login")
		}
	}
	if copies != nil {
		t.set("copy_headers", slices.Compact(copies))
	}
	if answers != nil {
		t.set("answer_headers", answers)
	}
}

// login sets the address to log in at, where nginx sends clients that get a 401.
func (c *converter) login(t *table, s *scope) {
	for _, d := range s.find("error_page") {
		if d.arg(0) != "401" || len(d.args) < 2 {
			continue
		}
		page, at := d.arg(len(d.args)-1), s
		if name, ok := strings.CutPrefix(page, "@"); ok {
			page = ""
			for _, l := range c.locations {
				if l.mod == "@" && l.uri == name && len(l.scope.block) > 0 &&
					l.scope.block[len(l.scope.block)-1].name == "return" {
					answer := l.scope.block[len(l.scope.block)-1]
					page, at = answer.arg(1), l.scope
					answer.done = true
				}
			}
		}
		page = strings.NewReplacer("$scheme://$http_host$request_uri", "$url",
			"$scheme://$host$request_uri", "$url").Replace(page)
		page = strings.ReplaceAll(page, "$auth_resp_", "$")
		text, err := c.text(at, strings.ReplaceAll(page, "$url", "URL_HERE"), nil)
		if page == "" || err != nil {
			c.left(d, "login of auth is the address to log in at")
			continue
		}
		t.set("login", strings.ReplaceAll(text, "URL_HERE", "{url}"))
		c.loggedIn[d] = true
	}
}

// copied reports whether a variable has a field of the route that auth_request asks.
func (c *converter) copied(s *scope, name string) bool {
	for o := s; o != nil; o = o.outer {
		for _, d := range o.own("auth_request_set") {
			if strings.TrimPrefix(d.arg(0), "$") == name {
				return true
			}
		}
	}
	return false
}
