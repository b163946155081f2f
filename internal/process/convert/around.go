package convert

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// siteLimits carries over limits that a server sets for all of its locations.
func (c *converter) siteLimits(out *site, s *server) {
	if s.scope.has("client_max_body_size") {
		d := s.scope.last("client_max_body_size")
		if size := c.routeBodySize(d); size != "" {
			out.sub("limit").set("max_body_size", size)
		}
	}
	if s.scope.has("client_body_timeout") {
		d := s.scope.last("client_body_timeout")
		if dur := c.duration(d, d.arg(0)); dur != "" && dur != "0s" {
			out.sub("limit").set("body_timeout", dur)
		}
	}
	for _, w := range wholeTimes {
		if w.directive == "client_body_timeout" {
			continue
		}
		for _, d := range s.scope.own(w.directive) {
			dur := c.duration(d, d.arg(0))
			switch was := c.out.top.get(w.key); {
			case dur == "" || dur == "0s" || was == dur:
			case was == nil:
				c.out.top.set(w.key, dur)
				c.say(d, differs, "it holds for the whole server")
			default:
				c.left(d, "it holds for the whole server, and stands at the top of the file")
			}
		}
	}
}

// routeBodySize returns max_body_size of limit; 0 of nginx is no limit.
func (c *converter) routeBodySize(d *directive) string {
	size, n := c.size(d, d.arg(0))
	if size == "" {
		return ""
	}
	if n == 0 {
		n, size = 1<<40, "1TiB"
	}
	if n > c.largest {
		c.largest = n
	}
	return size
}

// around carries over what stands around the handlers of a site: for the whole site where all
// locations agree, and for each route where they do not.
func (c *converter) around(out *site, s *server) {
	var some []*route
	for _, r := range out.routes {
		if !r.plain {
			some = append(some, r)
		}
	}
	for _, key := range []struct {
		name  string
		make  func(*table, *scope)
		names []string
	}{
		{"limit", c.limit, []string{"allow", "deny", "limit_req", "limit_conn", "limit_rate",
			"client_max_body_size", "client_body_timeout", "satisfy", "limit_except"}},
		{"auth", c.auth, []string{"auth_basic", "auth_request", "satisfy"}},
	} {
		made := make([]*table, len(some))
		same := true
		for i, r := range some {
			made[i] = new(table)
			c.at(&r.table, func() {
				from := c.guards(r.from, key.names)
				key.make(made[i], from)
				same = same && repr(made[i]) == repr(made[0]) && !from.has(key.names...)
			})
		}
		if same && len(some) > 0 {
			if !made[0].empty() {
				t := out.sub(key.name)
				for _, e := range made[0].keys {
					t.set(e.key, e.value)
				}
				if key.name == "auth" {
					c.anySatisfies(&out.rules, &out.table, s.scope)
				}
			}
			continue
		}
		for i, r := range some {
			if !made[i].empty() {
				r.set(key.name, made[i])
				if key.name == "auth" {
					c.anySatisfies(&r.rules, &r.table, c.guards(r.from, key.names))
				}
			}
		}
	}
	for _, r := range some {
		c.at(&r.table, func() { c.exceptions(r, c.guards(r.from, []string{"limit_except"})) })
	}
	c.headers(out, s)
	c.errorPages(&out.table, out, s.scope, "")
	for _, r := range out.routes {
		if r.from.scope != s.scope && r.from.scope.has("error_page") {
			prefix, _ := r.get("prefix").(string)
			c.at(&r.table, func() { c.errorPages(&r.table, out, r.from.scope, prefix) })
		}
	}
	c.compression(out, s)
}

// limit sets the keys of limit.
func (c *converter) limit(t *table, s *scope) {
	c.access(t, s)
	for _, d := range s.find("limit_req") {
		c.limitRequests(t, d)
	}
	for _, d := range s.find("limit_conn") {
		zone := c.zones[d.arg(0)]
		if zone == nil || d.arg(1) == "" {
			c.left(d, "there is no such zone")
			continue
		}
		if c.limitBy(t, d, zone.arg(0)) {
			t.set("connections", number(d.arg(1)))
		}
	}
	if d := s.last("limit_rate"); d != nil && d.arg(0) != "0" {
		if size, n := c.size(d, d.arg(0)); n >= 1024 {
			t.set("bandwidth", size)
		} else {
			c.left(d, "bandwidth is at least 1KiB a second")
		}
	}
	for _, d := range s.own("limit_except") {
		if deniesOthers(d) {
			d.done, d.block[0].done = true, true
			t.set("methods", d.args)
			c.say(d, differs, "other methods get 405")
		}
	}
	for o := s; o != nil && o.outer != nil && o.outer != c.http && o != c.http; o = o.outer {
		if o.has("client_max_body_size") {
			if size := c.routeBodySize(o.last("client_max_body_size")); size != "" {
				t.set("max_body_size", size)
			}
			break
		}
	}
}

func (c *converter) collectZones() {
	for _, d := range c.http.own("limit_req_zone", "limit_conn_zone", "limit_zone") {
		d.done = true
		for _, a := range d.args {
			if name, ok := strings.CutPrefix(a, "zone="); ok {
				name, _, _ = strings.Cut(name, ":")
				c.zones[name] = d
			}
		}
	}
	for _, family := range []string{"proxy", "fastcgi", "uwsgi", "scgi"} {
		for _, d := range c.http.own(family + "_cache_path") {
			d.done = true
			for _, a := range d.args {
				if name, ok := strings.CutPrefix(a, "keys_zone="); ok {
					name, _, _ = strings.Cut(name, ":")
					c.caches[name] = d
				}
			}
		}
	}
}

// limitBy sets by, which requests and connections share.
func (c *converter) limitBy(t *table, d *directive, key string) bool {
	by := ""
	if key != "$binary_remote_addr" && key != "$remote_addr" {
		text, err := c.text(c.http, key, nil)
		if err != nil {
			c.left(d, err.Error())
			return false
		}
		by = text
	}
	was, _ := t.get("by").(string)
	if (t.get("requests") != nil || t.get("connections") != nil) && was != by {
		c.left(d, "a limit counts requests and connections by the same key; a rule may have another")
		return false
	}
	if by != "" {
		t.set("by", by)
		if m := strings.Trim(by, "{}"); c.maps[m] != nil {
			c.say(d, differs, "requests without a key count by their address")
		}
	}
	return true
}

// The bounds of the key delay: how many requests of a client may wait, and for how many seconds.
const (
	mostDelayed  = 250
	longestDelay = 60
)

func (c *converter) limitRequests(t *table, d *directive) {
	var zone *directive
	burst, atOnce := 0, 0 // of burst, those that nginx does not delay
	for _, a := range d.args {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "zone":
			zone = c.zones[value]
		case "burst":
			burst = number(value)
		case "nodelay":
			atOnce = math.MaxInt
		case "delay":
			atOnce = number(value)
		}
	}
	atOnce = min(max(atOnce, 0), burst)
	if zone == nil {
		c.left(d, "there is no such zone")
		return
	}
	if t.get("requests") != nil {
		c.left(d, "a limit has one rate; a rule may have another one")
		return
	}
	rate := ""
	for _, a := range zone.args {
		if value, ok := strings.CutPrefix(a, "rate="); ok {
			rate = value
		}
	}
	count, unit, ok := strings.Cut(rate, "r/")
	if !ok || number(count) == 0 || !c.limitBy(t, d, zone.arg(0)) {
		return
	}
	t.set("requests", count+"/"+unit)
	delayed, seconds := burst-atOnce, 1 // in which count may come
	if unit == "m" {
		seconds = 60
	}
	switch {
	case delayed > mostDelayed || delayed*seconds > longestDelay*number(count):
		c.say(d, differs, "what comes too early is refused, and not delayed: too many would wait, or "+
			"too long")
		atOnce = burst
	case delayed > 0:
		t.set("delay", delayed)
	}
	t.set("burst", atOnce+1)
}

// expires returns Cache-Control for a time of expires.
func expires(text string) (control string, ok bool) {
	switch text {
	case "off":
		return "", true
	case "max":
		return "max-age=315360000", true
	case "epoch", "0":
		return "no-cache", true
	}
	negative := strings.HasPrefix(text, "-")
	ms, ok := milliseconds(strings.TrimLeft(text, "+-"))
	if negative {
		return "no-cache", ok
	}
	return "max-age=" + strconv.FormatInt(int64(math.Round(ms/1000)), 10), ok
}

// cacheControl returns Cache-Control of files: what expires says, and fields that are added to it.
func (c *converter) cacheControl(s *scope) string {
	var parts []string
	if d := s.last("expires"); d != nil {
		switch control, ok := expires(d.arg(len(d.args) - 1)); {
		case strings.Contains(d.arg(0), "$"):
			c.left(d, "a rule has cache_control, by path or by the type of the answer")
		case d.arg(0) == "modified":
			c.left(d, "a time counts from the request")
		case !ok:
			c.left(d, "expected a time; @15h30m is not there")
		case control != "":
			parts = append(parts, control)
		}
	}
	for _, d := range s.find("add_header") {
		if strings.EqualFold(d.arg(0), "Cache-Control") {
			value, err := c.text(s, d.arg(1), nil)
			if err != nil || strings.Contains(value, "{") {
				c.left(d, "cache_control is a fixed text")
				continue
			}
			if len(parts) > 0 && strings.Contains(value, "max-age") {
				parts = parts[:0]
			}
			parts = append(parts, value)
		}
	}
	return strings.Join(parts, ", ")
}

// headers makes rules of add_header: one of the site if it holds for all locations.
func (c *converter) headers(out *site, s *server) {
	own := func(sc *scope) []*directive {
		all := slices.Clone(sc.find("add_header", "more_set_headers"))
		return slices.DeleteFunc(all, func(d *directive) bool {
			return strings.EqualFold(d.arg(0), "Cache-Control") ||
				strings.EqualFold(d.arg(0), "X-Cache-Status") || c.copied(sc, strings.TrimPrefix(d.arg(1), "$"))
		})
	}
	common := own(s.scope)
	same := true
	for _, r := range out.routes {
		mine := own(r.from.scope)
		for _, d := range common {
			same = same && slices.ContainsFunc(mine, func(o *directive) bool {
				return strings.EqualFold(o.arg(0), d.arg(0)) && o.arg(1) == d.arg(1)
			})
		}
	}
	if same {
		if rule := c.headerRule(out, s, common, s.scope, true); !rule.empty() {
			out.rules = append([]*table{rule}, out.rules...)
		}
	}
	for _, r := range out.routes {
		c.at(&r.table, func() {
			mine := own(r.from.scope)
			if same {
				mine = slices.DeleteFunc(mine, func(d *directive) bool {
					return slices.ContainsFunc(common, func(o *directive) bool {
						return strings.EqualFold(o.arg(0), d.arg(0)) && o.arg(1) == d.arg(1)
					})
				})
			}
			rule := c.headerRule(out, s, mine, r.from.scope, false)
			if module := r.get("module"); module != "serve_files" && module != "redirect" &&
				r.get("cache_control") == nil {
				if control := c.cacheControl(r.from.scope); control != "" {
					rule.set("cache_control", control)
				}
			}
			if !rule.empty() {
				r.rules = append([]*table{rule}, r.rules...)
			}
		})
	}
}

// headerRule makes a rule of fields; ofSite says that they are those of all locations.
func (c *converter) headerRule(out *site, s *server, all []*directive, sc *scope,
	ofSite bool) *table {
	rule := new(table)
	for _, d := range all {
		d.done = true
		name, value := d.arg(0), d.arg(1)
		if d.name == "more_set_headers" {
			name, value, _ = strings.Cut(d.arg(0), ":")
			value = strings.TrimSpace(value)
		}
		lower := strings.ToLower(name)
		if value == "" || slices.Contains([]string{"content-length", "transfer-encoding", "connection",
			"date", "trailer", "keep-alive", "upgrade"}, lower) {
			continue
		}
		if strings.Contains(value, "$upstream_cache_status") {
			c.say(d, byItself, "Cache-Status says so")
			continue
		}
		if lower == "alt-svc" {
			c.left(d, "HTTP/3 is not spoken")
			continue
		}
		if lower == "strict-transport-security" && ofSite && s.secure && c.hsts(out, value) {
			continue
		}
		text, err := c.text(sc, value, nil)
		if err != nil {
			c.left(d, err.Error())
			continue
		}
		key := "set_headers"
		if lower == "set-cookie" || lower == "vary" || lower == "link" {
			key = "add_headers"
		}
		rule.sub(key).set(name, text)
	}
	return rule
}

// hsts sets the key hsts, unless the value has something that it does not have.
func (c *converter) hsts(out *site, value string) bool {
	t := new(table)
	for part := range strings.SplitSeq(value, ";") {
		name, number, _ := strings.Cut(strings.ToLower(strings.TrimSpace(part)), "=")
		switch name {
		case "max-age":
			n, err := strconv.ParseInt(strings.Trim(number, `"`), 10, 40)
			if err != nil {
				return false
			}
			t.set("max_age", writeDuration(n*1000))
		case "includesubdomains":
			t.set("include_subdomains", true)
		case "preload":
			t.set("preload", true)
		case "":
		default:
			return false
		}
	}
	if t.get("max_age") == nil || t.get("preload") != nil && t.get("include_subdomains") == nil {
		return false
	}
	out.set("hsts", t)
	return true
}

// errorPages sets error_pages. prefix is that of the route; "" for a site.
func (c *converter) errorPages(t *table, out *site, s *scope, prefix string) {
	pages := new(table)
	for _, d := range s.find("error_page") {
		if len(d.args) < 2 || c.loggedIn[d] {
			continue
		}
		page, codes := d.last()
		status := ""
		if last := codes[len(codes)-1]; strings.HasPrefix(last, "=") {
			n := number(last[1:])
			if n < 200 || n > 599 || n == 204 || n == 205 || n == 304 {
				c.left(d, "the status of a page is its own, or one from 200 to 599 with a body")
				continue
			}
			status, codes = last+" ", codes[:len(codes)-1]
		}
		if !strings.HasPrefix(page, "/") || strings.Contains(page, "$") {
			c.left(d, "a page is a file, or a path of the site")
			continue
		}
		page, _, _ = strings.Cut(page, "?")
		if !below(page, prefix) {
			c.left(d, "a page of a route is below its prefix; a site may have any")
			continue
		}
		for _, code := range codes {
			if n := number(code); n < 400 || n > 599 || n == 497 {
				c.left(d, "pages are for 400 to 599")
				continue
			}
			pages.set(code, status+page)
		}
	}
	if !pages.empty() {
		t.set("error_pages", pages)
	}
}

// below reports whether a path is that of a prefix or one below it.
func below(path, prefix string) bool {
	return strings.HasPrefix(strings.TrimSuffix(path, "/")+"/", strings.TrimSuffix(prefix, "/")+"/")
}

// compression turns compression off where gzip is turned off.
func (c *converter) compression(out *site, s *server) {
	off := func(sc *scope) bool { return sc.value("gzip") == "off" }
	if off(s.scope) {
		out.set("compression", false)
	}
	for _, r := range out.routes {
		if r.from.scope != s.scope && off(r.from.scope) != off(s.scope) {
			r.set("compression", !off(r.from.scope))
		}
	}
}
