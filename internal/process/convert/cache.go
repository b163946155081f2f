package convert

import "strings"

// cache sets the key cache of a route whose answers nginx keeps.
func (c *converter) cache(r *route, s *scope, family string) {
	zone := s.value(family + "_cache")
	if zone == "" || zone == "off" {
		return
	}
	path := c.caches[zone]
	if path == nil {
		c.left(s.last(family+"_cache"), "there is no such zone")
		return
	}
	c.cacheStore(path)
	t := new(table)
	ttl := new(table)
	for _, d := range s.find(family + "_cache_valid") {
		time, codes := d.last()
		dur := c.duration(d, time)
		if dur == "" {
			continue
		}
		if len(codes) == 0 {
			codes = []string{"200", "301", "302"}
		}
		for _, code := range codes {
			ttl.set(code, dur)
		}
	}
	if !ttl.empty() {
		t.set("ttl", ttl)
	}
	if d := s.last(family + "_cache_key"); d != nil {
		c.cacheKey(t, s, d)
	}
	c.cachePasses(t, s, family+"_cache_bypass", "bypass")
	c.cachePasses(t, s, family+"_no_cache", "no_store")
	if d := s.last(family + "_cache_min_uses"); d != nil && number(d.arg(0)) > 1 {
		t.set("min_uses", min(number(d.arg(0)), 255))
	}
	if d := s.last(family + "_cache_use_stale"); d != nil && d.arg(0) != "off" {
		inactive := "10m"
		for _, a := range path.args {
			if value, ok := strings.CutPrefix(a, "inactive="); ok {
				inactive = c.duration(path, value)
			}
		}
		for _, a := range d.args {
			if a == "updating" {
				t.set("refresh", inactive)
			} else {
				t.set("grace", inactive)
			}
		}
	}
	if d := s.last(family + "_cache_lock"); d != nil {
		c.say(d, byItself, "one request asks for all that wait")
	}
	if d := s.last(family + "_cache_revalidate"); d != nil {
		c.say(d, byItself, "what is stale is validated")
	}
	if d := s.last(family + "_cache_background_update"); d != nil {
		c.say(d, byItself, "with refresh")
	}
	if t.empty() {
		r.set("cache", true)
		return
	}
	r.set("cache", t)
}

// cacheStore sets [cache], once: all that is kept has one place.
func (c *converter) cacheStore(path *directive) {
	for _, n := range c.out.named {
		if n.name == "cache" {
			if n.get("disk") != c.prefixPath(path.arg(0)) {
				c.say(path, differs, "all that is kept is in one folder")
			}
			return
		}
	}
	t := new(table)
	t.set("disk", c.prefixPath(path.arg(0)))
	t.comments = append(t.comments, "the folder must be empty, or lwango's own")
	for _, a := range path.args {
		if value, ok := strings.CutPrefix(a, "max_size="); ok {
			if size, n := c.size(path, value); n >= 1<<20 {
				t.set("disk_size", size)
			}
		}
	}
	c.out.named = append(c.out.named, named{"cache", t})
}

func (c *converter) cacheKey(t *table, s *scope, d *directive) {
	switch d.arg(0) {
	case "$scheme$proxy_host$request_uri", "$scheme$host$request_uri", "$host$request_uri",
		"$scheme$request_method$host$request_uri", "$scheme$proxy_host$uri$is_args$args":
		c.say(d, byItself, "the key is scheme, host, path and query")
		return
	}
	text := strings.NewReplacer("$request_method", "", "$proxy_host", "").Replace(d.arg(0))
	key, err := c.text(s, text, nil)
	if err != nil {
		c.left(d, err.Error())
		return
	}
	t.set("key", key)
}

// cachePasses sets which requests pass by the cache.
func (c *converter) cachePasses(t *table, s *scope, name, key string) {
	var all []*table
	for _, d := range s.find(name) {
		for _, v := range d.args {
			one := new(table)
			if ok, why := c.compare(one, s, v, "", ""); !ok {
				c.left(d, why)
				continue
			}
			all = append(all, one)
		}
	}
	if all != nil {
		t.set(key, all)
	}
}
