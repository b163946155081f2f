package convert

import (
	"path/filepath"
	"strings"
)

// converter makes the tables of one configuration. It is used once.
type converter struct {
	report
	dir string // of nginx's configuration; relative names of files begin there

	http *scope // the block http
	maps map[string]*valueMap

	mapOrder         []*valueMap
	mapTables        map[*valueMap]*table
	readInConditions map[*valueMap]bool

	groups map[string]*group
	zones  map[string]*directive // of limit_req_zone and limit_conn_zone, by name
	caches map[string]*directive // of proxy_cache_path and its kin, by name

	listeners []*listener
	servers   []*server
	locations []*location         // of the present server
	loggedIn  map[*directive]bool // an error_page that auth has
	out       result

	prefix  string   // of the present route; "": none, a text may be for any
	sets    []string // variables that are set to others, whose values are read
	largest int64    // of the sizes of bodies that sites allow, in bytes

	into *table // whose comments have what is not carried over
}

// result is what is written.
type result struct {
	top       table
	named     []named // tables of the top, such as [cache]
	maps      []*table
	upstreams []*table
	listeners []*table
	streams   []*stream
	sites     []*site
}

type named struct {
	name string
	*table
}

// site is a [[site]].
type site struct {
	table
	rules  []*table
	routes []*route

	namedLocations map[string]*location
}

// route is a [[site.route]].
type route struct {
	table
	rules []*table
	from  *location

	plain bool // it has no phase in which nginx asks who may come: it only answers
}

// stream is a [[stream]].
type stream struct {
	table
	routes []*table
}

// convert makes the result of the directives of a configuration, whose files are in dir.
func convert(all []*directive, dir string) (*result, *report) {
	c := &converter{dir: dir, maps: map[string]*valueMap{}, mapTables: map[*valueMap]*table{},
		readInConditions: map[*valueMap]bool{}, groups: map[string]*group{},
		zones: map[string]*directive{}, caches: map[string]*directive{},
		loggedIn: map[*directive]bool{}}
	c.into = &c.out.top
	main := &scope{block: all}
	c.main(main)
	c.http = main // for a file of sites-available, which is a part of the block http
	for _, d := range main.own("http") {
		d.done = true
		c.http = main.inner(d)
	}
	c.collectMaps(c.http.block)
	c.collectUpstreams(c.http.block, c.groups)
	c.collectZones()
	c.whole()
	for _, d := range c.http.own("server") {
		d.done = true
		c.servers = append(c.servers, &server{at: d, scope: c.http.inner(d)})
	}
	c.listen()
	for _, s := range c.servers {
		c.site(s)
	}
	for _, d := range main.own("stream") {
		d.done = true
		c.streams(main.inner(d))
	}
	if c.largest > 4<<30 {
		c.out.top.set("max_spool", writeSize(c.largest))
	}
	c.writeMaps()
	for name, g := range c.groups {
		if len(g.tables) == 0 {
			c.leftAll(g.at.block, byItself, "nothing uses the upstream "+name)
		}
	}
	c.into = &c.out.top
	c.rest(all)
	return &c.out, &c.report
}

// at calls f, whose comments go into t.
func (c *converter) at(t *table, f func()) {
	before := c.into
	c.into = t
	f()
	c.into = before
}

// left says that a directive is not carried over, here and in the result.
func (c *converter) left(d *directive, why string) {
	if c.say(d, left, why) {
		c.into.comments = append(c.into.comments, comment(d, why))
	}
}

func (c *converter) leftAll(block []*directive, l level, why string) {
	for _, d := range block {
		if !d.done {
			c.say(d, l, why)
		}
	}
}

// rest says of all directives that nothing has asked for what becomes of them.
func (c *converter) rest(block []*directive) {
	for _, d := range block {
		if !d.done {
			c.unasked(d)
		} else {
			c.rest(d.block)
		}
	}
}

func (c *converter) unasked(d *directive) {
	switch why, ok := known[d.name]; {
	case ok && why.level == left:
		c.left(d, why.text)
	case ok:
		c.say(d, why.level, why.text)
	case d.name == "include":
		c.left(d, "there is no such file")
	case inherited(d.name):
		c.say(d, byItself, "nothing that was carried over needs it here")
	case strings.HasPrefix(d.name, "lua_") || strings.Contains(d.name, "_by_lua"):
		c.left(d, "there is no Lua; a program with handlers of its own is written in Go")
	default:
		c.left(d, "this converter does not know it")
	}
}

// main carries over what stands outside of all blocks.
func (c *converter) main(m *scope) {
	for _, d := range m.take("user") {
		confine := &table{}
		confine.set("user", d.arg(0))
		if g := d.arg(1); g != "" {
			confine.set("group", g)
		}
		c.out.named = append(c.out.named, named{"confine", confine})
	}
	if d := m.last("pid"); d != nil {
		c.out.top.set("pid_file", c.prefixPath(d.arg(0)))
	}
}

// wholeTimes are the times that hold for the whole server here, by directive.
var wholeTimes = []struct{ directive, key string }{
	{"keepalive_timeout", "keep_alive_timeout"}, {"client_header_timeout", "header_timeout"},
	{"client_body_timeout", "body_timeout"}, {"send_timeout", "write_timeout"},
}

// whole carries over what holds for the whole server here, though nginx may say it for a part.
func (c *converter) whole() {
	t := &c.out.top
	for _, w := range wholeTimes {
		if !c.http.has(w.directive) {
			continue
		}
		d := c.http.last(w.directive)
		switch dur := c.duration(d, d.arg(0)); dur {
		case "":
		case "0s":
			c.left(d, "a time is at least 1ms")
		default:
			t.set(w.key, dur)
		}
	}
	if c.http.has("client_max_body_size") {
		d := c.http.last("client_max_body_size")
		if size, n := c.size(d, d.arg(0)); size != "" {
			c.bodySize(t, n, size)
		}
	}
	if c.http.has("access_log") {
		log := c.http.take("access_log")
		c.accessLog(c.http, log, func(l *table) {
			c.out.named = append(c.out.named, named{"access_log", l})
		})
	}
	if c.http.has("large_client_header_buffers") {
		d := c.http.last("large_client_header_buffers")
		if _, n := c.size(d, d.arg(1)); n > 8<<10 {
			t.set("max_header_size", writeSize(4*n))
		}
	}
}

// bodySize sets max_body_size of the whole file; 0 of nginx is no limit.
func (c *converter) bodySize(t *table, n int64, size string) {
	if n == 0 {
		t.set("max_body_size", -1)
		return
	}
	t.set("max_body_size", size)
}

func writeSize(n int64) string {
	for _, u := range []struct {
		unit  string
		bytes int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return itoa(n/u.bytes) + u.unit
		}
	}
	return itoa(n) + "B"
}

// prefixPath returns a path that begins in the folder of nginx's installation, where root, logs and
// the like do.
func (c *converter) prefixPath(path string) string {
	if filepath.IsAbs(path) {
		return cleanPath(path)
	}
	prefix := c.dir
	switch {
	case filepath.Base(c.dir) == "conf":
		prefix = filepath.Dir(c.dir)
	case c.dir == "/etc/nginx":
		prefix = "/usr/share/nginx"
	}
	return cleanPath(filepath.Join(prefix, path))
}

// confPath returns a path that begins in the folder of the configuration, as those of certificates.
func (c *converter) confPath(path string) string {
	if filepath.IsAbs(path) {
		return cleanPath(path)
	}
	return cleanPath(filepath.Join(c.dir, path))
}

func cleanPath(path string) string { return filepath.Clean(path) }

// String writes the configuration.
func (r *result) String() string {
	var b strings.Builder
	r.top.lines(&b)
	for _, n := range r.named {
		section(&b, "["+n.name+"]", n.table)
	}
	for _, t := range r.maps {
		section(&b, "[[map]]", t)
	}
	for _, t := range r.upstreams {
		section(&b, "[[upstream]]", t)
	}
	for _, t := range r.listeners {
		section(&b, "[[listener]]", t)
	}
	for _, s := range r.sites {
		s.first("host", "listener", "scheme", "tls")
		section(&b, "[[site]]", &s.table)
		for _, t := range s.rules {
			section(&b, "[[site.rule]]", t)
		}
		for _, rt := range s.routes {
			rt.first("prefix", "exact", "regexp", "internal", "module", "address", "upstream", "path",
				"script_path")
			section(&b, "[[site.route]]", &rt.table)
			for _, t := range rt.rules {
				section(&b, "[[site.route.rule]]", t)
			}
		}
	}
	for _, s := range r.streams {
		section(&b, "[[stream]]", &s.table)
		for _, t := range s.routes {
			section(&b, "[[stream.route]]", t)
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

func section(b *strings.Builder, name string, t *table) {
	b.WriteString("\n" + name + "\n")
	t.lines(b)
}
